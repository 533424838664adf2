// Package shellrisk says what a shell command line would do: which simple commands it
// holds, wherever they hide, and for each the program, the files and hosts it touches and
// the risk. It reads the shell's syntax tree and tables of programs (the folder tables);
// it runs nothing, opens nothing and asks nobody but the functions in its Options.
//
// What it says is advice. It must never call harmless what is not: whatever it does not
// know, such as a command word that is not literal, an unknown program or an option that a
// wrapper does not have, is Unknown. That it is right is not what keeps a machine safe.
package shellrisk

import (
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// A Dialect is the shell that reads the line.
type Dialect int

// The dialects.
const (
	Bash  Dialect = iota
	POSIX         // the sh of a place that has no bash
)

// Options say where a line would run. A nil *Options is valid: nothing is inside, and no
// variable is known.
type Options struct {
	// WorkDir is the absolute folder in which the line starts, and what "inside" means.
	// Empty: every write is outside.
	WorkDir string
	// Home is what ~ means. Empty: Env's HOME, and where that is missing unknown.
	Home string
	// Env is what is known of the line's environment. A variable that is not in it is
	// not taken for unset: its value is unknown.
	Env map[string]string
	// Dialect is the shell's; the zero value is bash.
	Dialect Dialect
	// ResolvePath resolves the links in the longest part of an absolute path that exists.
	// The path may hold ".." after a link, which it must resolve as the kernel would. An
	// empty answer: cannot be told. Nil: paths are resolved by their names alone.
	ResolvePath func(string) string
	// Names lists what is in an absolute folder, which is how it is told what a pattern such
	// as *.txt can be: nothing where there is no such folder, and false where it cannot be
	// told or is too much. Nil: a pattern can be anything.
	Names func(dir string) ([]string, bool)
	// TempDirs are absolute folders to which a write counts as one inside. Nil: none.
	TempDirs []string
}

// A Report says what a line would do.
type Report struct {
	Risk       Risk   // of its parts the most severe; Unknown where it could not be read
	Why        string // a phrase for a person about what decided; printable
	Parts      []Part // in the order in which they were met
	ParseError string // why the line could not be read; printable
}

// A Part is one simple command of a line, or a redirection that stands with none.
type Part struct {
	Text     string    // normalised: quoted alike however it was written, and printable
	Argv     []Word    // the words, expanded as far as they can be told
	Program  string    // the program's base name; empty where it is not literal
	Path     string    // the program as it was named where that holds a slash
	Sub      string    // its sub-command, such as "status" or "compose ps"
	Options  []Option  // the options before and after the sub-command, bundles taken apart
	Operands []Word    // what is neither the program, the sub-command nor an option
	Effects  []Effect  // what it would do, if more than reading
	Risk     Risk      // the most severe of Effects, or ReadOnly
	Why      string    // of the effect that decided
	Paths    []PathRef // the files it names
	Hosts    []string  // the hosts it names
	Needs    []string  // what of the host it uses: services, packages, hardware, processes, network
	User     string    // whose rights it takes (sudo -u); empty: the caller's
	Wrappers []string  // the programs that run it, the outermost first

	prints  output // what kind of words it prints
	assumes bool   // that a folder holds what it held when the line was read
	filter  bool   // it prints lines of what it reads
}

// A Word is one argument.
type Word struct {
	Value string // the literal value where Known, else what the line says
	Known bool   // Value is exactly what the program is given
	Glob  bool   // it is a pattern for file names
}

// An Option is one option of a command, however it was bundled.
type Option struct {
	Name  string // "-n" or "--name"
	Value string // what was given to it; empty where it takes none
	Known bool   // Value is literal
}

// An Effect is one thing that a part would do.
type Effect struct {
	Risk Risk
	Why  string
	Path string // of the file it does it to; may be empty
	Host string // of the machine it speaks to; may be empty
}

// An Op is what is done to a file.
type Op string

// What is done to a file.
const (
	OpRead   Op = "read"
	OpWrite  Op = "write"
	OpDelete Op = "delete"
)

// A PathRef is a file that a part names.
type PathRef struct {
	Path  string // absolute and resolved where Known, else what the line says
	Op    Op
	Known bool
}

// Limits of what is read: past them a line is Unknown.
const (
	maxLine  = 128 << 10 // bytes
	maxDepth = 60        // of substitutions, compound commands and wrappers in each other
	maxOpen  = 400       // of open brackets, counted before the line is parsed
	maxWords = 3_000     // that could open a command, counted before as well
	maxSteps = 20_000    // words and commands that are looked at
)

var walkers = sync.Pool{New: func() any {
	return &walker{
		bash:  syntax.NewParser(syntax.Variant(syntax.LangBash)),
		posix: syntax.NewParser(syntax.Variant(syntax.LangPOSIX)),
	}
}}

// Analyze says what a shell would do that is given line. It is safe for concurrent use,
// and its time is bounded whatever the line holds.
func Analyze(line string, opts *Options) Report {
	w := walkers.Get().(*walker)
	defer w.release()
	w.start(opts)
	w.text(line, w.top(), frame{})
	return w.report()
}

// AnalyzeArgv says what a program would do that is started with argv, with no shell
// between: argv[0] is the program.
func AnalyzeArgv(argv []string, opts *Options) Report {
	w := walkers.Get().(*walker)
	defer w.release()
	w.start(opts)
	args := make([]field, len(argv))
	for i, a := range argv {
		args[i] = literal(a)
	}
	if len(args) == 0 {
		w.strange(frame{}, "there is no program")
	}
	w.command(args, w.top(), frame{noFuncs: true})
	return w.report()
}

// start makes the walker ready for one line.
func (w *walker) start(opts *Options) {
	if opts == nil {
		opts = &Options{}
	}
	*w = walker{bash: w.bash, posix: w.posix, opts: opts, home: opts.Home}

	if w.home == "" {
		w.home = opts.Env["HOME"]
	}
	if strings.HasPrefix(opts.WorkDir, "/") {
		w.workDir = w.resolve(opts.WorkDir)
	}
	w.tables = programs()
	w.searchPath()
}

func (w *walker) top() *scope {
	return &scope{cwd: w.workDir}
}

// release forgets the line and gives the walker back.
func (w *walker) release() {
	*w = walker{bash: w.bash, posix: w.posix}
	walkers.Put(w)
}

// report sums the parts up.
func (w *walker) report() Report {
	w.recheck()
	r := Report{Risk: ReadOnly, Why: "it only reads", Parts: w.parts, ParseError: w.parseError}
	for i := range r.Parts {
		if p := &r.Parts[i]; r.Risk.Less(p.Risk) {
			r.Risk, r.Why = p.Risk, p.Why
		}
	}
	return r
}
