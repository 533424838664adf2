package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"airlock/internal/executor"
	"airlock/internal/planner"
	"airlock/internal/planner/material"
	"airlock/internal/shellhook"
)

// What a repeated command may take, and how much is kept of what it writes.
const (
	rerunTime = 60 * time.Second
	rerunKept = 16 << 10 // of each stream
)

// lastFailure sees to it that there is something to mend: the last command, and what it said.
func (r *aiRun) lastFailure(ctx context.Context, last *shellhook.Last, opts *material.Options, given bool) error {
	p := r.p
	switch {
	case last.Command == "" && given:
		return nil // the words say it
	case last.Command == "":
		return usage("the last command is not known: airlock hook says how your shell tells it, or say what failed: airlock ai fix WORDS…")
	case last.ExitCode != nil && *last.ExitCode == 0 && !given:
		p.say("the last command ended well (exit code 0): %s", cut(printable(last.Command), 80))
	}
	if last.Stderr != "" || r.f.showContext && !r.f.rerun {
		return nil
	}
	again := r.f.rerun
	if !again && p.interactive() && !r.f.json {
		fmt.Fprintf(p.Stderr, "What the last command wrote is not known:\n  $ %s\n", indented(last.Command))
		answer, err := p.choose(ctx, "Run it again, in a sandbox that is thrown away ? [y]es  [n]o ", map[string]string{
			"y": "yes", "yes": "yes", "n": "no", "no": "no",
		}, "y runs it over your files in a sandbox without network and keeps nothing but what it wrote, n asks the model without it.")
		if err != nil {
			return fail(exitGeneral, nil)
		}
		again = answer == "yes"
	}
	if !again {
		return nil
	}
	piece, stderr, err := r.runAgain(ctx, last.Command)
	if err != nil {
		return err
	}
	opts.LastStderr = stderr
	opts.Shell = append(opts.Shell, *piece)
	return nil
}

// runAgain runs a command in a sandbox that is thrown away, for what it writes.
func (r *aiRun) runAgain(ctx context.Context, command string) (about *planner.Piece, said string, err error) {
	p := r.p
	req, err := p.request(&runFlags{placeFlags: r.f.placeFlags, timeout: rerunTime}, []string{p.shell(), "-c", command})
	if err != nil {
		return nil, "", err
	}
	store, err := p.open()
	if err != nil {
		return nil, "", err
	}
	var stdout, stderr lastBytes
	req.Stdout, req.Stderr = &stdout, &stderr
	ctx, stop := interruptible(ctx)
	defer stop()
	if err := p.admitRun(ctx, &runFlags{}, req); err != nil {
		return nil, "", err
	}
	recorded := p.trail(ctx, req)
	out, err := p.Runner.Run(ctx, req)
	rep := &runReport{out: out, quiet: true}
	if err != nil {
		rep.out = &executor.Outcome{}
		return nil, "", errors.Join(modelFailed(ctx, err), recorded.end(ctx, rep, err))
	}
	rep.code = exitOf(out)
	rep.noteUnrecorded(recorded.end(ctx, rep, nil))
	if rep.unrecorded == nil && out.Set != nil && len(out.Set.Changes) > 0 { // without changes nothing was kept
		rep.unrecorded = p.discardRun(ctx, store, rep, &decisionRow{By: decidedBy(discard, false)})
	}
	return repeated(out, stdout.last(rerunKept, r.redactor.Text)), stderr.last(rerunKept, r.redactor.Text), rep.unrecorded
}

// shell is the person's shell, where it reads command lines as sh does or they were typed
// for it.
func (p *Program) shell() string {
	if shell := p.getenv("SHELL"); slices.Contains([]string{"bash", "zsh", "fish", "ksh", "dash", "sh"}, filepath.Base(shell)) {
		return shell
	}
	return "sh"
}

// repeated is what a model is told of a repeated command beside what it wrote to stderr, which
// is in the context.
func repeated(out *executor.Outcome, stdout string) *planner.Piece {
	return &planner.Piece{
		Kind: planner.FromShell, Name: "the last command, run again",
		Text: fmt.Sprintf("exit code: %d\n\nstdout:\n%s\n", exitOf(out), stdout),
		Note: "last_stderr and this are from running the command again in a sandbox without network and without the machine's services; it may have said something else at first",
	}
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ buf bytes.Buffer }

var _ io.Writer = (*lastBytes)(nil)

// beyond is how much more than the end of a text is kept, so that a secret that begins before
// the end is known for one.
const beyond = 64 << 10

func (l *lastBytes) Write(p []byte) (int, error) {
	l.buf.Write(p)
	if over := l.buf.Len() - rerunKept - beyond; over > rerunKept { // now and then, not for every byte
		l.buf.Next(over)
	}
	return len(p), nil
}

// last is the end of the text, secrets taken out of more than that first: half a secret looks
// like none.
func (l *lastBytes) last(most int, redactText func(string) string) string {
	return tail(redactText(l.buf.String()), most)
}
