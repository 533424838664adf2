package action

import (
	"path"
	"regexp"
	"strings"
)

// A simple is what is known of the simple command that is being scanned: enough to tell
// what its quoted words are to the program.
type simple struct {
	open    bool // the next word may be the program
	wrapped bool // a program that runs another was named: any word may be that one
	target  bool // the next word is a redirection's
	here    bool // it is a here-string
	piped   bool // the program reads what another writes
	shell   bool // a shell was named
	bracket bool // [[ is open
	program program
	option  bool // the next word belongs to ssh's option
	script  bool // the next word is a script
	whole   bool // the word is a script in one pair of quotes

	joined struct { // words that a second shell reads as one line
		from   int // the first of their holes
		words  int
		plain  bool // none is quoted
		quoted bool // the first is a script in one pair of quotes
	}
}

// A program is a program by what it does with quoted words.
type program int

const (
	anyProgram  program = iota
	filter              // sed, awk: patterns and programs of its own
	interpreter         // python, perl: a program behind -c or -e
	shell               // sh, su: a script behind -c
	remote              // ssh: a script behind the host
	joiner              // eval: all words are one script
	matcher             // grep: text to look for
	assigner            // declare, let: words are names, and a name's subscript is code
	tester              // test: the word behind -v is such a name
)

// programs are those whose quoted words are not just text.
var programs = table(map[program]string{
	filter:      "sed gsed awk gawk mawk nawk jq yq xmllint xmlstarlet bc",
	interpreter: "python python2 python3 perl ruby node nodejs php lua Rscript deno bun tclsh expect osascript pwsh powershell vim vi nvim ex ed emacs gdb",
	shell:       "sh bash dash zsh ksh ash fish su runuser script",
	remote:      "ssh autossh",
	joiner:      "eval watch parallel trap alias tmux screen byobu at batch",
	assigner:    "declare typeset local readonly let read mapfile readarray unset getopts wait [[",
	tester:      "test [ printf",
	matcher:     "grep egrep fgrep zgrep rg ag ack pgrep",
})

// wrappers run the program that some later word names.
var wrappers = set(`sudo doas env nohup timeout xargs exec command builtin nice ionice setsid stdbuf time find fd
	docker podman nerdctl kubectl oc lxc chroot flock nsenter unshare strace ltrace busybox`)

// keywords are the shell's.
var keywords = set("if then else elif fi case esac for while until do done in function select time ! { } [[ ]] coproc")

var (
	subscript  = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*)?\[`) // of a list's element, too: a=([n]=x)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)
	codeOption = regexp.MustCompile(`^-[A-Za-z0-9]*[cer]$|^--(eval|run|command|print)$`)
	shellC     = regexp.MustCompile(`^[-+][A-Za-z]*c[A-Za-z]*$|^--command$`)
)

// valued are ssh's options that the next word belongs to.
const valued = "BbcDEeFIiJLlmOopPQRSWw"

func table(lists map[program]string) map[string]program {
	m := make(map[string]program)
	for p, names := range lists {
		for name := range strings.FieldsSeq(names) {
			m[name] = p
		}
	}
	return m
}

func set(names string) map[string]bool {
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		m[name] = true
	}
	return m
}

// A use is what quoted text is to the program.
type use int

const (
	asCode   use = iota // in a language of its own: nothing is a placeholder
	asText              // itself
	asScript            // a shell's
)

// quotes says what a quoted word is here.
func (c *simple) quotes() use {
	switch {
	case c.here && c.program != anyProgram:
		return asCode
	case c.target:
		return asText
	case c.program == filter, c.program == assigner:
		return asCode
	case c.program == joiner, c.program == shell && c.script:
		return asScript
	}
	return asText
}

// endWord takes note of the word that ends here, if there is one.
func (sc *scanner) endWord() {
	if sc.word < 0 || sc.failed {
		return
	}
	raw := sc.s[sc.word:sc.i]
	sc.word = -1
	c := &sc.cmd
	whole := c.whole
	c.whole = false
	if c.target {
		c.target, c.here = false, false
		return
	}
	word := unquoted(raw)
	if sc.depth > 1 && (word == "case" || word == "esac") {
		sc.failed = true // its ) ends no substitution
		return
	}
	switch c.program {
	case anyProgram:
		if c.open || c.wrapped {
			sc.name(word)
		}
	case interpreter:
		if codeOption.MatchString(word) {
			c.program = filter
		}
	case assigner:
		c.bracket = c.bracket && word != "]]"
	case tester:
		if word == "-v" {
			c.program = assigner
		}
	case shell:
		if c.script {
			c.program, c.script, c.wrapped = anyProgram, false, false
		} else if shellC.MatchString(word) {
			c.script = true
		}
	case remote:
		switch {
		case c.option:
			c.option = false
		case strings.HasPrefix(word, "-"):
			c.option = len(word) == 2 && strings.Contains(valued, word[1:])
		default:
			sc.join()
		}
	case joiner:
		c.joined.words++
		c.joined.plain = c.joined.plain && !strings.ContainsAny(raw, "'\"\\$`")
		c.joined.quoted = whole && c.joined.words == 1
	}
}

// name takes note of a word where the program's name may stand.
func (sc *scanner) name(word string) {
	c := &sc.cmd
	base := path.Base(word)
	switch {
	case programs[base] == joiner:
		sc.join()
	case programs[base] != anyProgram:
		c.program = programs[base]
	case wrappers[base]:
		c.wrapped = true
	case c.open && (keywords[word] || assignment.MatchString(word)):
		return
	}
	c.open = false
	c.shell = c.program == shell
	c.bracket = word == "[["
}

// join begins the words that a second shell reads.
func (sc *scanner) join() {
	sc.cmd.program = joiner
	sc.cmd.joined.from = len(sc.holes)
	sc.cmd.joined.plain = true
}

// endCommand takes note of a simple command's end. Joined words can quote each other: where
// there is more than one and not all are plain, nobody knows how a value would be read.
func (sc *scanner) endCommand() {
	sc.endWord()
	if sc.failed {
		return
	}
	c := &sc.cmd
	if c.program == joiner && !c.joined.plain && (c.joined.words > 1 || !c.joined.quoted) {
		sc.holes = sc.holes[:c.joined.from]
	}
	if c.piped && (c.shell || c.program == joiner && (c.wrapped || c.joined.words == 0)) {
		sc.failed = true // what it is fed is a script that is put together elsewhere
	}
	if c.bracket { // && within it ends nothing
		sc.cmd = simple{program: assigner, bracket: true}
		return
	}
	sc.cmd = simple{open: true, piped: sc.at("|") && !sc.at("||") && sc.prev() != '|'}
}

// unquoted is a word without quotes and backslashes: enough to know a name again.
func unquoted(word string) string {
	return strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(word)
}
