// Package prompt reads requests from a person on a terminal: a line editor with a history
// that is kept, search in it, completion and lines of several lines. It knows nothing of
// what the requests are. While nothing is read, the terminal is as it was found, nothing
// of the input is taken and nothing of this package runs.
package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// ErrInterrupted is Read's error for Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// maxText bounds a request; what comes beyond is not taken.
const maxText = 1 << 20

// Options say where and how to read.
type Options struct {
	In, Out *os.File // nil: the standard input and output

	Prompt, More string // before the first line and the others

	// History is the file that requests are kept in; empty: they are kept for this session.
	History string

	// Plain reads lines as the terminal edits them, without any control of it. It is chosen
	// by itself where In is no terminal.
	Plain bool

	// Complete gives what the text before pos, an offset in bytes, may be meant to be; nil:
	// nothing.
	Complete func(text string, pos int) []Candidate

	// Incomplete says that Enter begins a new line of the text, beside the backslash at its
	// end, which always does; nil: it never does.
	Incomplete func(text string) bool

	// Edit lets the person change the text elsewhere; the terminal is as it was found
	// meanwhile. Nil: Ctrl-X Ctrl-E does nothing.
	Edit func(ctx context.Context, text string) (string, error)
}

// A Candidate is what a part of the text may be completed to.
type Candidate struct {
	From int    // the offset in bytes of what Text takes the place of
	Text string // with a space at its end where nothing more can follow
	Show string // in the list of candidates; empty: Text
}

// A Prompt reads requests. It is for one goroutine.
type Prompt struct {
	opts    Options
	history *history
}

// Open makes a Prompt, and gives back the history that can be read. A history that cannot
// is an error beside a Prompt that works without it.
func Open(opts *Options) (*Prompt, error) {
	p := &Prompt{}
	if opts != nil {
		p.opts = *opts
	}
	if p.opts.In == nil {
		p.opts.In = os.Stdin
	}
	if p.opts.Out == nil {
		p.opts.Out = os.Stdout
	}
	var err error
	p.history, err = openHistory(p.opts.History)
	return p, err
}

// Read reads a request, without spaces around it. What was typed before it was asked for
// is forgotten. Its error is io.EOF for Ctrl-D on an empty line and a terminal that is
// gone, ErrInterrupted for Ctrl-C, with the text that was given up, or ctx's.
func (p *Prompt) Read(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	t, err := newTTY(ctx, p.opts.In, p.opts.Out)
	if err != nil {
		return "", fmt.Errorf("read a request: %w", err)
	}
	defer t.close()
	if p.opts.Plain || !t.terminal() {
		return p.plain(ctx, t)
	}
	if err := t.raw(); err != nil {
		return "", fmt.Errorf("read a request: %w", err)
	}
	e := &editor{opts: &p.opts, tty: t, history: p.history}
	text, err := e.read(ctx)
	return strings.TrimSpace(text), err
}

// Add puts a request into the history. What must not be kept is not in text any more.
func (p *Prompt) Add(ctx context.Context, text string) error { return p.history.add(ctx, text) }

// Entries are the requests of the history, the oldest first.
func (p *Prompt) Entries() []string { return slices.Clone(p.history.entries) }

// plain reads lines that the terminal itself lets the person edit.
func (p *Prompt) plain(ctx context.Context, t *tty) (string, error) {
	var text, line []byte
	person := t.terminal()
	if person {
		t.forget()
	}
	t.write(p.opts.Prompt)
	for {
		ev := t.next(forever)
		switch ev.kind {
		case evByte:
		case evInterrupt:
			t.write("\n")
			return string(text) + string(line), ErrInterrupted
		case evCanceled:
			t.write("\n")
			return "", ctx.Err()
		case evEnd:
			if len(text)+len(line) > 0 && errors.Is(ev.err, io.EOF) {
				return strings.TrimSpace(clean(string(text) + string(line))), nil
			}
			return "", ev.err
		default:
			continue
		}
		if ev.b != '\n' {
			if len(text)+len(line) < maxText {
				line = append(line, ev.b)
			}
			continue
		}
		whole := clean(string(text) + string(line))
		pasted := person && t.pending() // the next line is there already: one request
		more, ok := continued(&p.opts, whole)
		if !ok && !pasted {
			return strings.TrimSpace(whole), nil
		}
		text, line = []byte(more+"\n"), nil
		if !pasted {
			t.write(p.opts.More)
		}
	}
}

// continued says whether Enter after text begins a new line, of which text.
func continued(opts *Options, text string) (string, bool) {
	end := len(strings.TrimRight(text, `\`))
	if (len(text)-end)%2 == 1 {
		return text[:len(text)-1], true
	}
	return text, opts.Incomplete != nil && opts.Incomplete(text)
}

// clean is text as it is edited: valid, with newlines for whatever ends a line.
func clean(s string) string {
	var b strings.Builder
	for _, r := range s { // each byte that is no text is one
		b.WriteRune(r)
	}
	s = b.String()
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
}
