package manifest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"airlock/internal/changes"
)

func (n *node) place() Place { return Place{n.line, n.col} }

// str reads text.
func (n *node) str(into *string) *Problem {
	s, ok := n.value.(string)
	if !ok {
		p := n.at("must be text, and this is %s", n.kind())
		if n.value != nil {
			p.Mend = "put it in quotes"
		}
		return p
	}
	*into = s
	return nil
}

// line1 reads one line that can be shown to a person as it is.
func (n *node) line1(into *string, most int) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	*into = strings.TrimSuffix(*into, "\n") // of a block of text
	switch {
	case strings.TrimSpace(*into) == "":
		return n.at("is empty")
	case utf8.RuneCountInString(*into) > most:
		return n.at("has more than %d characters", most)
	case changes.Printable(*into) != *into:
		return n.at("%s: has characters that cannot be shown, or more than one line", *into)
	}
	return nil
}

func (n *node) name(into *string, grammar *regexp.Regexp) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	if !grammar.MatchString(*into) || len(*into) > maxName {
		p := n.at("%.80q is no name", *into)
		p.Mend = fmt.Sprintf("use words of a-z, 0-9 and _, a tool's with dots between, of at most %d characters", maxName)
		return p
	}
	return nil
}

// version reads text, or a number as it is written: 1.10 is not 1.1.
func (n *node) version(into *string) *Problem {
	switch n.value.(type) {
	case int64, uint64, float64:
		*into = n.text
		return nil
	}
	return n.line1(into, maxName)
}

// file reads the name of a file beside the manifest.
func (n *node) file(into *string) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	*into = strings.TrimPrefix(*into, "./")
	if !fileGrammar.MatchString(*into) || len(*into) > 255 || !filepath.IsLocal(*into) {
		p := n.at("%.80q is not the name of a file beside the manifest", n.value)
		p.Mend = "put the file into the manifest's own folder, and write its name without a folder"
		return p
	}
	return nil
}

func (n *node) oneOf(into *string, known []string) *Problem {
	if p := n.str(into); p != nil {
		return p
	}
	if !slices.Contains(known, *into) {
		p := n.at("%.80q is none of those there are", *into)
		p.Mend = instead(*into, known)
		return p
	}
	return nil
}

// names reads a list of short texts.
func (n *node) names(into *[]string) *Problem {
	list, ok := n.value.([]*node)
	if !ok {
		return n.at("must be a list, and this is %s", n.kind())
	}
	if len(list) > maxNames {
		return n.at("%d are more than %d", len(list), maxNames)
	}
	for _, item := range list {
		var name string
		if p := item.line1(&name, maxName); p != nil {
			return p
		}
		if slices.Contains(*into, name) {
			return item.at("%q is there twice", name)
		}
		*into = append(*into, name)
	}
	return nil
}

func (n *node) duration(into *time.Duration) *Problem {
	var text string
	if p := n.str(&text); p != nil {
		p.Mend = "write a time with its unit, such as 60s or 5m"
		return p
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > maxTimeout {
		p := n.at("%.80q is no time between 1ms and %s", text, "1h")
		p.Mend = "write a time with its unit, such as 60s or 5m"
		return p
	}
	*into = d
	return nil
}

// size reads a number of bytes, or of KiB or MiB.
func (n *node) size(into *int64) *Problem {
	text, unit := n.text, int64(1)
	if s, ok := n.value.(string); ok {
		text = s
		for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
			if digits, ok := strings.CutSuffix(s, suffix); ok {
				text, unit = strings.TrimSpace(digits), factor
			}
		}
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v*unit < leastMaxOutput || v*unit > mostMaxOutput {
		p := n.at("%.80q is no size between 1 KiB and 8 MiB", n.text)
		p.Mend = "write a number of bytes, or one with its unit, such as 256KiB or 2MiB"
		return p
	}
	*into = v * unit
	return nil
}

// schema reads a JSON Schema that stands here, or in a file of JSON beside the manifest.
// What it says is for the registry to check.
func (n *node) schema(into *json.RawMessage, readFile func(string) ([]byte, error)) *Problem {
	if _, inline := n.value.([]member); inline {
		text, err := json.Marshal(n.plain())
		if err != nil {
			return n.at("%v", err)
		}
		*into = text
		return nil
	}
	if _, isText := n.value.(string); !isText {
		return n.at("must be an object, or the name of a file beside the manifest; this is %s", n.kind())
	}
	var name string
	if p := n.file(&name); p != nil {
		return p
	}
	data, err := readFile(name)
	if err != nil {
		p := n.at("%s: %v", name, err)
		p.Err = err
		return p
	}
	if !json.Valid(data) {
		return n.at("%s is not JSON", name)
	}
	*into = data
	return nil
}

// words are names as text.
func words[T ~string](list []T) []string {
	text := make([]string, len(list))
	for i, word := range list {
		text[i] = string(word)
	}
	return text
}
