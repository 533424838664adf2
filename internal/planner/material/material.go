// Package material gathers what a model is given beside a person's words: what is known of
// the machine and of the last command, files that the person names, what was piped in, and a
// project's AGENTS.md. All of it is bounded, secrets are taken out of it before anybody else
// sees it, and what is hidden from sandboxes is not read. It knows no model and asks nobody.
package material

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"airlock/internal/changes"
	"airlock/internal/planner"
)

// Bounds of what is gathered. A file or a pipe that has more is cut, and says so.
const (
	MaxFile     = 100 << 10 // of one file, in bytes; a KiB is 1024 of them
	MaxFiles    = 512 << 10 // of all included files together
	MaxPipe     = 512 << 10 // of what is piped in: its beginning and its end
	MaxStderr   = 8 << 10   // of what the last command wrote: its end
	MaxIncluded = 200       // included files
)

// Options say what to gather. The zero value gathers the Context alone.
type Options struct {
	// WorkDir is the person's working folder; empty means the process's.
	WorkDir string

	// Environ gives the value of a variable, empty for one that is not set; nil knows none.
	Environ func(name string) string

	// Hidden reports whether a path, absolute and with every link resolved, must not be read.
	// nil hides nothing.
	Hidden func(path string) bool

	// Include are files and patterns (doublestar's: *, ?, [a-z], {a,b}, ** for folders of any
	// depth), absolute, relative to WorkDir or below the home folder (~/).
	Include []string

	// Instructions says to read AGENTS.md of WorkDir and of the folders above it in the same
	// repository.
	Instructions bool

	// Pipe is what was piped in; nil means nothing was. It is read to its end, or to 64 MiB.
	Pipe io.Reader

	LastCommand  string // the last command line; empty: not known
	LastExitCode *int   // nil: not known
	LastStderr   string // empty: not known

	// Shell is what else is known of the last command. It is bounded and redacted here.
	Shell []planner.Piece

	// Redactor takes secrets out. nil means NewRedactor with WorkDir.
	Redactor *Redactor
}

// Gathered is what was found.
type Gathered struct {
	Context planner.Context

	// Pieces are the project's instructions, files in the order they were asked for, what is
	// known of the last command, and what was piped in.
	Pieces []planner.Piece

	// Notes are sentences for the person: what was cut, left out or used. They are printable.
	Notes []string
}

// Gather reads what opts ask for. It fails with what the person can mend: a file that cannot
// be read, a pattern that matches nothing, a pipe that is no text. It returns soon after ctx
// is done; a read of a pipe that nobody writes to then stays behind until that is closed.
func Gather(ctx context.Context, opts *Options) (*Gathered, error) {
	g := &gatherer{out: &Gathered{}, seen: map[string]bool{}}
	if opts != nil {
		g.Options = *opts
	}
	if err := g.prepare(); err != nil {
		return nil, err
	}
	g.machine()
	for _, step := range []func(context.Context) error{g.instructions, g.include, g.shell, g.pipe} {
		if err := step(ctx); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return g.out, nil
}

// A gatherer is one Gather under way.
type gatherer struct {
	Options
	out    *Gathered
	seen   map[string]bool // files that were included, by their real paths
	files  int             // how many were included
	left   int             // bytes that may still be included
	opened int             // files that were looked into because a pattern matched them
}

func (g *gatherer) prepare() error {
	dir, err := filepath.Abs(g.WorkDir)
	if err != nil {
		return fmt.Errorf("find the working folder: %w", err)
	}
	g.WorkDir, g.left = dir, MaxFiles
	if g.Environ == nil {
		g.Environ = func(string) string { return "" }
	}
	if g.Hidden == nil {
		g.Hidden = func(string) bool { return false }
	}
	if g.Redactor == nil {
		g.Redactor = NewRedactor(&RedactorOptions{WorkDir: dir})
	}
	return nil
}

func (g *gatherer) note(format string, args ...any) {
	g.out.Notes = append(g.out.Notes, fmt.Sprintf(format, args...))
}

// add takes a piece; its name may hold a secret as well.
func (g *gatherer) add(p planner.Piece) {
	p.Name = changes.Printable(g.Redactor.Text(p.Name))
	g.out.Pieces = append(g.out.Pieces, p)
}

// machine fills in the Context.
func (g *gatherer) machine() {
	word := func(s string) string { return changes.Printable(g.Redactor.Text(s)) }
	g.out.Context = planner.Context{
		OS:           short(word(system())),
		Distro:       distro(),
		CWD:          word(g.WorkDir),
		User:         short(word(g.user())),
		LastCommand:  lastBytes(g.Redactor.Text(plainText(lastWindow(g.LastCommand))), MaxStderr),
		LastExitCode: g.LastExitCode,
		LastStderr:   lastBytes(withoutHalfKey(g.Redactor.Text(plainText(lastWindow(g.LastStderr)))), MaxStderr),
	}
}

func (g *gatherer) shell(context.Context) error {
	for _, p := range g.Shell {
		whole := g.Redactor.Text(plainText(lastWindow(p.Text)))
		text := lastBytes(whole, MaxFile)
		if len(text) < len(whole) || len(p.Text) > tailWindow {
			p.Note = joinNotes(p.Note, "only its end is here")
			g.note("Of %s only the end is sent.", changes.Printable(p.Name))
		}
		p.Text = text
		g.add(p)
	}
	return nil
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// homeDir is the person's home folder; empty where it is not known.
func (g *gatherer) homeDir() string {
	if home := g.Environ("HOME"); filepath.IsAbs(home) {
		return home
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return home
}
