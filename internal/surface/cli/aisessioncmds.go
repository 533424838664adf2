package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"airlock/internal/action"
	"airlock/internal/planner"
	"airlock/internal/planner/material"
)

// A sessionCommand is a command of a session.
type sessionCommand struct {
	name, args, about string
	do                func(s *conversation, ctx context.Context, words string) error
}

// sessionCommands are all of them, in the order of /help.
func sessionCommands() []sessionCommand {
	verb := func(verb planner.Verb) func(*conversation, context.Context, string) error {
		return func(s *conversation, ctx context.Context, words string) error { return s.request(ctx, verb, words) }
	}
	return []sessionCommand{
		{"/run", "WORDS", "a command or a few", verb(planner.Run)},
		{"/do", "WORDS", "a plan of several steps", verb(planner.Do)},
		{"/fix", "[WORDS]", "mend the last command's failure", (*conversation).fix},
		{"/ask", "WORDS", "a question; nothing is run", verb(planner.Question)},
		{"/explain", "[WORDS]", "explain them, or the last plan", (*conversation).explain},
		{"/include", "[FILE…]", "send files with each request from now on; alone: say which", (*conversation).include},
		{"/context", "[WORDS]", "show what would be sent", (*conversation).context},
		{"/clear", "", "forget the conversation and what was included here", (*conversation).clear},
		{"/model", "[NAME]", "say which model is asked, or ask another", (*conversation).changeModel},
		{"/tokens", "", "say what was used so far", (*conversation).tokens},
		{"/save", "FILE", "write the last plan to a file", (*conversation).save},
		{"/history", "", "show the last requests", (*conversation).history},
		{"/help", "", "this", (*conversation).help},
		{"/quit", "", "leave, as Ctrl-D does", (*conversation).quit},
	}
}

func (s *conversation) help(context.Context, string) error {
	out := s.p.Stderr
	fmt.Fprint(out, "Say what you want in words. What the model proposes runs in a sandbox, and you\ndecide on its changes.\n\n")
	for _, c := range sessionCommands() {
		fmt.Fprintf(out, "  %-18s %s\n", c.name+" "+c.args, c.about)
	}
	fmt.Fprint(out, `  !COMMAND           run it in a sandbox; the next request has its output

  Tab completes, Ctrl-R searches earlier requests, Ctrl-X Ctrl-E opens your
  editor, Alt-Enter or a backslash at the end begins a new line.
`)
	return nil
}

func (s *conversation) quit(context.Context, string) error {
	s.left = true
	return nil
}

// fix mends the last command of this session, else that of the shell.
func (s *conversation) fix(ctx context.Context, words string) error {
	if words == "" && s.last != nil {
		words = "Mend the failure of the last command."
	}
	ask, err := s.ask(ctx, s.run, planner.Fix, words)
	if err != nil {
		return err
	}
	return s.answer(ctx, ask)
}

func (s *conversation) explain(ctx context.Context, words string) error {
	if words != "" || !s.plan || len(s.f.guide.outcome.Plan.Steps) == 0 {
		return s.request(ctx, planner.Explain, words)
	}
	return s.f.guide.explain(ctx)
}

// include sends files along from now on; a file that cannot be sent is refused now.
func (s *conversation) include(ctx context.Context, words string) error {
	files, err := splitWords(words)
	if err != nil {
		return usage("/include %s: %w", printable(words), err)
	}
	if len(files) == 0 {
		all := append(append([]string{}, s.run.settings.Include...), s.f.include...)
		if len(all) == 0 {
			s.p.say("no files are sent; /include FILE… sends some with each request")
		}
		for _, file := range all {
			fmt.Fprintln(s.p.Stderr, "  "+printable(file))
		}
		return nil
	}
	place, err := s.p.place(&s.f.placeFlags)
	if err != nil {
		return err
	}
	var got *material.Gathered
	err = interruptibly(ctx, func(ctx context.Context) (err error) {
		got, err = material.Gather(ctx, &material.Options{
			WorkDir: place.WorkDir, Environ: s.p.getenv, Hidden: s.run.tools.hidden, Redactor: s.run.redactor, Include: files,
		})
		return err
	})
	if err != nil {
		return usage("/%w", err)
	}
	for _, note := range got.Notes {
		s.p.say("%s", printable(note))
	}
	s.f.include = append(slices.Clip(s.f.include), files...)
	s.p.say("%s %s sent with each request from now on", plural(len(got.Pieces), "file"), isOrAre(len(got.Pieces)))
	return nil
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// context shows what would be sent with the next request, and sends nothing.
func (s *conversation) context(ctx context.Context, words string) error {
	if words == "" {
		words = "[your next request]"
	}
	f := *s.f
	f.showContext, f.record = true, ""
	var run *aiRun
	err := interruptibly(ctx, func(ctx context.Context) (err error) {
		run, err = s.p.newAIRun(ctx, &f)
		return err
	})
	if err != nil {
		return err
	}
	defer run.close()
	run.earlier = s.run.earlier
	ask, err := s.ask(ctx, run, planner.Any, words)
	if err != nil {
		return err
	}
	return run.showContext(ctx, ask)
}

func (s *conversation) clear(context.Context, string) error {
	s.run.earlier, s.pending, s.last, s.plan = nil, nil, nil, false
	s.f.include = s.f.include[:s.given]
	s.p.say("the conversation is forgotten")
	return nil
}

// changeModel asks another model of the same provider from now on.
func (s *conversation) changeModel(ctx context.Context, words string) error {
	names, err := splitWords(words)
	switch {
	case err != nil || len(names) > 1:
		return usage("/model takes one name")
	case len(names) == 1:
		before, chosen := s.f.model, s.run.chosen
		s.f.model = names[0]
		if err := interruptibly(ctx, s.run.choose); err != nil {
			s.f.model, s.run.chosen = before, chosen
			return err
		}
		s.run.makePlanner()
	}
	s.p.say("%s at %s is asked (%s)", s.model(), printable(s.run.chosen.Model.Info().Endpoint), printable(s.run.chosen.Why))
	return nil
}

func (s *conversation) tokens(context.Context, string) error {
	s.p.say("%s", usageLine(&s.run.usage))
	return nil
}

// save writes the last plan where there is no file yet.
func (s *conversation) save(_ context.Context, words string) error {
	names, err := splitWords(words)
	switch {
	case err != nil || len(names) != 1:
		return usage("/save takes one file")
	case !s.plan:
		return usage("there is no plan yet to be saved")
	}
	name := names[0]
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = s.p.getenv("HOME") + "/" + rest
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage("/save %s: there is such a file, which is left as it is; name another", printable(name))
	}
	if err != nil {
		return usage("/save %w", err)
	}
	_, err = f.Write(action.Marshal(s.f.guide.outcome.Plan))
	if err = errors.Join(err, f.Close()); err != nil {
		return fail(exitFailed, fmt.Errorf("/save %s: %w", printable(name), err))
	}
	s.p.say("the plan is in %s; airlock plan run %s runs it again", printable(name), quoted(name))
	return nil
}

func (s *conversation) history(context.Context, string) error {
	const most = 20
	entries := s.prompt.Entries()
	for _, text := range entries[max(0, len(entries)-most):] {
		fmt.Fprintf(s.p.Stderr, "  %s\n", strings.ReplaceAll(printableLines(text), "\n", "\n    "))
	}
	return nil
}

// Bounds of what commands of a session tell the next request.
const (
	maxPending     = 5        // commands
	maxShellStderr = 4 << 10  // of the last one, in the context
	maxShellOutput = 16 << 10 // of each: its end
)

// shell runs a command in a sandbox. What it writes is material of the next request.
func (s *conversation) shell(ctx context.Context, command string) error {
	if command == "" {
		return usage("say what to run: !COMMAND")
	}
	var wrote heard
	f := &runFlags{placeFlags: s.f.placeFlags, noTTY: true, heard: &wrote}
	err := s.p.run(ctx, f, []string{s.p.shell(), "-c", command})
	code := 0
	if coded, ok := errors.AsType[*codeError](err); ok {
		code = coded.code
	}
	if code == exitFailed {
		return err // there is nothing to tell of it
	}
	if code == exitSignalBase+int(syscall.SIGINT) {
		fmt.Fprintln(s.p.Stderr) // the terminal shows ^C
	}
	if code != 0 {
		s.p.say("exit code %d", code)
	}
	all, stderr := wrote.text(s.run.redactor.Text)
	note := "the person ran this in a sandbox during the conversation"
	if code != 0 {
		note += fmt.Sprintf("; it ended with exit code %d", code)
	}
	s.pending = append(s.pending, planner.Piece{
		Kind: planner.FromShell, Name: cut(s.run.redactor.Text(command), 200), Note: note,
		Text: fmt.Sprintf("command: %s\nexit code: %d\n\n%s", command, code, all),
	})
	s.pending = s.pending[max(0, len(s.pending)-maxPending):]
	s.last = &planner.Context{LastCommand: command, LastExitCode: &code, LastStderr: stderr}
	return err
}

// heard keeps the end of what a command writes, beside what becomes of it otherwise. It is
// safe for concurrent use.
type heard struct {
	mu          sync.Mutex
	all, stderr lastBytes
}

func (h *heard) text(redactText func(string) string) (all, stderr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.last(maxShellOutput, redactText), h.stderr.last(maxShellStderr, redactText)
}

// heardStream is one of the streams.
type heardStream struct {
	h   *heard
	err bool
}

func (s *heardStream) Write(p []byte) (int, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.err {
		_, _ = s.h.stderr.Write(p) // they never fail
	}
	return s.h.all.Write(p)
}

// decideInSession asks what becomes of a command's changes with the letters that the questions
// about plans have: x explains there, and throws nothing away here.
func (p *Program) decideInSession(ctx context.Context, show func() error) decision {
	for {
		answer, err := p.choose(ctx, "[c]ommit  [d]iff  [k]eep  [n]o ? ", map[string]string{
			"c": "commit", "commit": "commit", "d": "diff", "diff": "diff", "k": "keep", "keep": "keep", "n": "no", "no": "no",
		}, "c lets the changes out, d shows them, k keeps them for later, n throws them away.")
		switch {
		case err != nil || answer == "keep":
			return keep
		case answer == "commit":
			return commit
		case answer == "no":
			return discard
		}
		if err := show(); err != nil {
			p.complain(err)
		}
	}
}
