package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"airlock/internal/planner"
	"airlock/internal/planner/material"
	"airlock/internal/surface/cli/prompt"
)

// aiSession answers requests typed on the terminal until the person leaves.
func (p *Program) aiSession(ctx context.Context, f *aiFlags) error {
	if f.json {
		return usage("--json is for one request: airlock ai --json WORDS…")
	}
	if err := p.checkAI(f); err != nil {
		return err
	}
	ctx, signals := leavingOn(ctx)
	defer signals.stop()
	s := &conversation{p: p, f: f, signals: signals}
	err := interruptibly(ctx, func(ctx context.Context) (err error) {
		s.run, err = p.newAIRun(ctx, f)
		return err
	})
	if err != nil {
		return err
	}
	defer s.run.close()
	if err := s.open(); err != nil {
		return err
	}
	s.banner()
	s.loop(ctx)
	return signals.err()
}

// conversation is a conversation on a terminal.
type conversation struct {
	p       *Program
	f       *aiFlags
	run     *aiRun
	prompt  *prompt.Prompt
	signals *leaving

	pending []planner.Piece  // what commands wrote, for the next request
	last    *planner.Context // of the last command, once one was run here
	given   int              // how many files were included by flags
	plan    bool             // there was an answer: f.guide has it
	left    bool
}

// open makes the prompt.
func (s *conversation) open() error {
	p := s.p
	place, err := p.place(&s.f.placeFlags)
	if err != nil {
		return err
	}
	in, _ := p.Stdin.(*os.File)
	out, _ := p.Stderr.(*os.File)
	c := &completer{dir: place.WorkDir, home: p.getenv("HOME")}
	for _, command := range sessionCommands() {
		c.commands = append(c.commands, command.name)
	}
	term := p.getenv("TERM")
	opts := &prompt.Options{
		In: in, Out: out, Prompt: "ai> ", More: "  . ", Plain: term == "dumb" || term == "",
		Complete: c.complete, Incomplete: incompleteLine,
		Edit: func(ctx context.Context, text string) (string, error) {
			return p.editText(ctx, "airlock-request-*.txt", text+"\n")
		},
	}
	if len(p.Runner.State) > 0 {
		opts.History = filepath.Join(p.Runner.State[0], "ai_history")
	}
	s.given = len(s.f.include)
	if s.prompt, err = prompt.Open(opts); err != nil {
		p.complain(err) // there is a prompt all the same
	}
	return nil
}

// banner says with whom the person speaks.
func (s *conversation) banner() {
	fmt.Fprintf(s.p.Stderr, "airlock ai: %s. /help says what there is.\n", s.model())
}

// model is the model's name.
func (s *conversation) model() string {
	info := s.run.chosen.Model.Info()
	return printable(strings.TrimSpace(info.Provider + " " + info.Model))
}

// loop reads requests and does them, one after the other.
func (s *conversation) loop(ctx context.Context) {
	interrupted := false
	for !s.left && ctx.Err() == nil {
		s.signals.take()
		text, err := s.prompt.Read(ctx)
		switch {
		case errors.Is(err, prompt.ErrInterrupted):
			if interrupted && text == "" {
				s.p.say("Ctrl-D or /quit leaves")
			}
			interrupted = text == ""
			continue
		case err != nil:
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				s.p.complain(err)
			}
			return
		}
		interrupted = false
		if text == "" {
			continue
		}
		if err := s.run.renew(); err != nil { // such as for a working folder that is gone
			s.p.complain(err)
			continue
		}
		if err := s.prompt.Add(ctx, s.run.redactor.Text(text)); err != nil {
			s.p.complain(err)
		}
		if err := s.do(ctx, text); err != nil {
			s.p.exitCode(err) // says it; the code is that of a request and not the session's
		}
	}
}

// do does what a line asks for.
func (s *conversation) do(ctx context.Context, text string) error {
	line := parseSessionLine(text)
	switch {
	case line.name == "!":
		return s.shell(ctx, line.words)
	case line.name == "" && (text == "exit" || text == "quit"):
		s.left = true
		return nil
	case line.name == "":
		return s.request(ctx, planner.Any, line.words)
	}
	var names []string
	for _, command := range sessionCommands() {
		if command.name == line.name {
			return command.do(s, ctx, line.words)
		}
		names = append(names, command.name)
	}
	return noSuchSessionCommand(line.name, names)
}

// request asks the model, in the conversation so far, and does what it answers.
func (s *conversation) request(ctx context.Context, verb planner.Verb, words string) error {
	if words == "" {
		return usage("say what you want: /%s WORDS…", verb)
	}
	ask, err := s.ask(ctx, s.run, verb, words)
	if err != nil {
		return err
	}
	return s.answer(ctx, ask)
}

// ask gathers what a request is sent with: what commands wrote here is part of it.
func (s *conversation) ask(ctx context.Context, run *aiRun, verb planner.Verb, words string) (*planner.Ask, error) {
	gather := verb
	if verb == planner.Fix && s.last != nil {
		gather = planner.Any // what failed is known: the shell's last command is not it
	}
	var ask *planner.Ask
	err := interruptibly(ctx, func(ctx context.Context) (err error) {
		ask, err = run.ask(ctx, gather, words, words != "")
		return err
	})
	if err != nil {
		return nil, err
	}
	ask.Verb = verb
	ask.Material = append(ask.Material, s.pending...)
	if s.last != nil {
		ask.Context.LastCommand, ask.Context.LastExitCode, ask.Context.LastStderr = s.last.LastCommand, s.last.LastExitCode, s.last.LastStderr
	}
	return ask, nil
}

// renew learns the secrets that there are by now: a session outlives the files they are in.
func (r *aiRun) renew() error {
	place, err := r.p.place(&r.f.placeFlags)
	if err != nil {
		return err
	}
	opts := &material.RedactorOptions{WorkDir: place.WorkDir, Environ: r.p.Environ}
	if r.chosen.Key != "" {
		opts.Extra = []string{r.chosen.Key}
	}
	r.redactor = material.NewRedactor(opts)
	r.tools.redactor = r.redactor
	return nil
}

func (s *conversation) answer(ctx context.Context, ask *planner.Ask) error {
	before := len(s.run.earlier)
	err := s.run.answer(ctx, ask)
	if len(s.run.earlier) > before {
		s.pending = nil // it is in the conversation
		s.plan = s.f.guide != nil
	}
	if fault, ok := errors.AsType[*planner.Error](err); ok && fault.Fault == planner.FaultTooLong {
		return fail(exitFailed, fmt.Errorf("%w; /clear forgets the conversation", fault))
	}
	return err
}

// interruptibly does what an interrupt shall end, and the session not with it.
func interruptibly(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return modelFailed(ctx, ctx.Err())
	}
	return err
}

// leaving ends a session when the program is told to end, and keeps an interrupt from
// ending it: what runs takes those itself.
type leaving struct {
	lastSignal
	in     chan os.Signal
	cancel context.CancelFunc
	done   chan struct{}
}

func leavingOn(ctx context.Context) (context.Context, *leaving) {
	ctx, cancel := context.WithCancel(ctx)
	l := &leaving{in: make(chan os.Signal, 4), cancel: cancel, done: make(chan struct{})}
	l.take()
	go func() {
		defer close(l.done)
		for {
			select {
			case sig := <-l.in:
				if sig == os.Interrupt {
					continue
				}
				l.note(sig)
				cancel()
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, l
}

// take takes the signals, again after something else has changed what they mean.
func (l *leaving) take() { signal.Notify(l.in, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) }

func (l *leaving) stop() {
	signal.Stop(l.in)
	l.cancel()
	<-l.done
}

// err is how a session ends that a signal ended; nil for one that was left.
func (l *leaving) err() error {
	if code := l.code(); code != 0 {
		return fail(code, nil)
	}
	return nil
}
