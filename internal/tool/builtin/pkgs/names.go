package pkgs

import (
	"fmt"
	"strings"

	"airlock/internal/changes"
	"airlock/internal/lazyregexp"
)

const (
	maxNames = 100 // of one call
	maxName  = 256 // bytes
	maxQuery = 200 // bytes
	maxWords = 10
)

// A grammar says what a manager takes for the name of a package, and for nothing else. It
// is narrower than the manager: no name is an option, a file, an address, a group or a
// pattern.
type grammar struct {
	like  string             // examples, for a sentence
	name  *lazyregexp.Regexp // up to the first character of pinAt
	pin   *lazyregexp.Regexp // from there on: which version, or which source
	pinAt string             // "": there are no pins
	inner string             // what a name may have in front of it ends with this
	// pattern are characters that may be in a name, but make the manager take a name that
	// it does not know for something else.
	pattern string
}

// fileSuffix is what the manager's own files end with. A name that does is a file's for
// some, in the folder they run in.
var fileSuffix = lazyregexp.New(`(?i)\.(deb|dsc|changes|rpm|apk|pkg\.tar(\.[a-z0-9]+)?|rb)$`)

// split parts a name from its pin.
func (g *grammar) split(s string) (name, pin string) {
	if i := strings.IndexAny(s, g.pinAt); g.pinAt != "" && i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// bare is the name alone, as the list of installed packages has it, up to the architecture.
func (g *grammar) bare(s string) string {
	name, _ := g.split(s)
	if g.inner != "" {
		name = name[strings.Index(name, g.inner)+1:]
	}
	return name
}

// check refuses what is no name of a package. Pinned says whether a version may follow.
func (g *grammar) check(names []string, pinned bool) error {
	if len(names) > maxNames {
		return fmt.Errorf("%d packages at once are more than %d", len(names), maxNames)
	}
	for _, s := range names {
		name, pin := g.split(s)
		switch {
		case s == "":
			return fmt.Errorf("a name is empty: name packages such as %s", g.like)
		case len(s) > maxName:
			return fmt.Errorf("the name %s… has %d bytes, more than %d", shown(s[:40]), len(s), maxName)
		case !g.name.MatchString(name), pin != "" && !g.pin.MatchString(pin):
			return fmt.Errorf("%s is no name of a package here: want one such as %s", shown(s), g.like)
		case fileSuffix.MatchString(s):
			return fmt.Errorf("%s is a file's name: packages are installed from the configured sources, by name", shown(s))
		case !pinned && (pin != "" || g.bare(s) != name):
			return fmt.Errorf("%s: name the package alone, %s, to remove it", shown(s), g.bare(s))
		}
	}
	return nil
}

// A word of a search may hold what names hold; it never begins as an option does.
var word = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+:@-]*$`)

// words parts a search into its words.
func words(query string) ([]string, error) {
	if len(query) > maxQuery {
		return nil, fmt.Errorf("the query has %d bytes, more than %d", len(query), maxQuery)
	}
	list := strings.Fields(query)
	if len(list) == 0 || len(list) > maxWords {
		return nil, fmt.Errorf("the query has %d words: give 1 to %d", len(list), maxWords)
	}
	for _, w := range list {
		if !word.MatchString(w) {
			return nil, fmt.Errorf("%s cannot be searched for: a word is made of letters a to z, digits and . _ + : @ -, and begins with one of the first two", shown(w))
		}
	}
	return list, nil
}

// shown is outside text in a sentence.
func shown(s string) string { return `"` + changes.Printable(s) + `"` }
