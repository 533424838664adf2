package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"airlock/internal/action"
	"airlock/internal/config"
	"airlock/internal/planner"
	"airlock/internal/planner/material"
	"airlock/internal/planner/transcript"
	"airlock/internal/shellhook"
)

// aiRun answers requests: one, or those of a session.
type aiRun struct {
	p        *Program
	f        *aiFlags
	settings *config.AI
	chosen   *ChosenModel
	planner  *planner.Planner
	redactor *material.Redactor
	tools    *aiTools
	recorder *transcript.Recorder // nil: the conversation is not kept
	replay   *transcript.Replay   // nil: the model answers
	earlier  []planner.Message    // of the conversation
	usage    planner.Usage        // of all requests so far
	verb     planner.Verb
	context  planner.Context
	shown    *shown // with --show-context, once there is something to show
}

// newAIRun finds out which model to ask, and makes what it may use.
func (p *Program) newAIRun(ctx context.Context, f *aiFlags) (*aiRun, error) {
	settings, err := p.Settings()
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	r := &aiRun{p: p, f: f, settings: &settings.AI}
	place, err := p.place(&f.placeFlags)
	if err != nil {
		return nil, err
	}
	if err := r.choose(ctx); err != nil {
		return nil, err
	}
	extra := []string{}
	if r.chosen.Key != "" {
		extra = append(extra, r.chosen.Key)
	}
	r.redactor = material.NewRedactor(&material.RedactorOptions{WorkDir: place.WorkDir, Environ: p.Environ, Extra: extra})
	if r.tools, err = p.newAITools(f, place, r.redactor); err != nil {
		return nil, err
	}
	if f.record != "" {
		if err := r.keep(f.record); err != nil {
			return nil, err
		}
	}
	r.makePlanner()
	return r, nil
}

// choose finds the model: one that answers from a recording, one that only shows what it is
// asked, or a real one.
func (r *aiRun) choose(ctx context.Context) error {
	f := r.f
	switch {
	case f.replay != "":
		replay, err := transcript.Open(f.replay)
		if err != nil {
			return usage("%w", err)
		}
		r.replay, r.chosen = replay, &ChosenModel{Model: replay.Model(), Why: "--replay"}
	case f.showContext:
		return r.chooseToShow(ctx)
	default:
		chosen, err := r.p.Model(ctx, &ModelOptions{Provider: f.provider, Model: f.model, BaseURL: f.baseURL})
		if err != nil {
			return fail(exitFailed, err)
		}
		r.chosen = chosen
		for _, note := range chosen.Notes {
			r.p.say("%s", printable(note))
		}
	}
	return nil
}

// keep begins to write the conversation down.
func (r *aiRun) keep(path string) error {
	head := transcript.Head{Airlock: r.p.Version, Model: r.chosen.Model.Info(), Created: time.Now()}
	rec, err := transcript.Record(path, head, r.redact)
	if errors.Is(err, fs.ErrExist) {
		return usage("--record %s: there is such a file, which is left as it is; name another", printable(path))
	}
	if err != nil {
		return usage("%w", err)
	}
	r.recorder = rec
	return nil
}

// makePlanner puts the planner together: the model, what it may use, and what keeps both.
func (r *aiRun) makePlanner() {
	opts := &planner.Options{Redact: r.redact, Limits: planner.Limits{Time: r.settings.Timeout}, MaxTokens: r.settings.MaxTokens}
	model := r.chosen.Model
	switch {
	case r.replay != nil:
		opts.Tools = r.replay.Tools()
	case r.settings.Tools && !r.f.noTools:
		opts.Tools = r.tools
	}
	if r.recorder != nil {
		model = r.recorder.Model(model)
		if opts.Tools != nil {
			opts.Tools = r.recorder.Tools(opts.Tools)
		}
	}
	r.planner = planner.New(model, opts)
}

// redact takes secrets out of a text, those that are known by now.
func (r *aiRun) redact(s string) string { return r.redactor.Text(s) }

// close ends what was begun for the requests.
func (r *aiRun) close() {
	r.tellDifferences()
	r.tools.close()
	if r.recorder != nil {
		if err := r.recorder.Close(); err != nil {
			r.p.complain(fmt.Errorf("--record: %w", err))
		}
	}
}

// request answers one request from its beginning to what becomes of the changes.
func (r *aiRun) request(ctx context.Context, verb planner.Verb, words string, given bool) error {
	if r.replay != nil && !given {
		return r.replayAll(ctx)
	}
	ask, err := r.ask(ctx, verb, words, given)
	if err != nil {
		return err
	}
	if r.f.showContext {
		return r.showContext(ctx, ask)
	}
	return r.answer(ctx, ask)
}

// replayAll asks again what was asked in a recorded conversation.
func (r *aiRun) replayAll(ctx context.Context) error {
	for i, ask := range r.replay.Asks() {
		if ask.Earlier = nil; r.replay.Continues(i) {
			ask.Earlier = r.earlier
		}
		if err := r.answer(ctx, &ask); err != nil {
			return err
		}
	}
	return nil
}

// tellDifferences says in what a replayed conversation was asked for otherwise than when it
// was recorded.
func (r *aiRun) tellDifferences() {
	if r.replay == nil {
		return
	}
	for _, text := range r.replay.Differences() {
		r.p.say("replay: %s", printable(text))
	}
}

// ask gathers what a request is sent with.
func (r *aiRun) ask(ctx context.Context, verb planner.Verb, words string, given bool) (*planner.Ask, error) {
	place, err := r.p.place(&r.f.placeFlags)
	if err != nil {
		return nil, err
	}
	last := shellhook.Read(ctx, r.p.getenv)
	opts := &material.Options{
		WorkDir: place.WorkDir, Environ: r.p.getenv, Hidden: r.tools.hidden, Redactor: r.redactor,
		Include: append(append([]string{}, r.settings.Include...), r.f.include...), Instructions: r.settings.Instructions && !r.f.noInstructions,
		LastCommand: last.Command, LastExitCode: last.ExitCode, LastStderr: last.Stderr,
	}
	if verb == planner.Fix {
		if err := r.lastFailure(ctx, &last, opts, given); err != nil {
			return nil, err
		}
	}
	if pipe := r.p.piped(); pipe != nil {
		opts.Pipe = pipe
	}
	got, err := material.Gather(ctx, opts)
	if err != nil {
		return nil, usage("%w", err)
	}
	for _, note := range got.Notes {
		r.p.say("%s", printable(note))
	}
	if opts.Pipe != nil {
		r.p.backToTerminal()
	}
	ask := &planner.Ask{Verb: verb, Words: words, Context: got.Context, Material: got.Pieces, Earlier: r.earlier}
	if !given && !verb.Answers() && verb != planner.Fix {
		if err := wordsFromPipe(ask); err != nil {
			return nil, err
		}
	}
	if ask.Words == "" && len(ask.Material) == 0 && verb != planner.Fix {
		return nil, usage("say what you want: airlock ai %s WORDS…", verb)
	}
	return ask, nil
}

// wordsFromPipe takes what was piped in for the request itself, where no words were given.
func wordsFromPipe(ask *planner.Ask) error {
	for i, piece := range ask.Material {
		if piece.Kind == planner.FromPipe {
			ask.Words = strings.TrimSpace(piece.Text)
			ask.Material = append(ask.Material[:i:i], ask.Material[i+1:]...)
			break
		}
	}
	if ask.Words == "" {
		verb := ask.Verb
		if verb == planner.Any {
			verb = planner.Run
		}
		return usage("say what you want: airlock ai %s WORDS…, or pipe it in", verb)
	}
	return nil
}

// answer asks the model and does what its answer is for.
func (r *aiRun) answer(ctx context.Context, ask *planner.Ask) error {
	if err := r.planner.Check(ask); err != nil {
		return usage("%w", err)
	}
	r.verb, r.context = ask.Verb, ask.Context
	out, err := r.think(ctx, ask)
	if err != nil {
		return err
	}
	return r.act(ctx, out)
}

// think asks the model, shows what comes of it, and keeps the conversation.
func (r *aiRun) think(ctx context.Context, ask *planner.Ask) (*planner.Outcome, error) {
	if r.recorder != nil {
		r.recorder.Ask(ask)
	}
	asking, stop := interruptible(ctx)
	defer stop()
	view := r.newView(r.f.json)
	defer view.close()
	r.tools.before = view.pause
	start, warmed := time.Now(), r.warm(asking)
	out, err := r.planner.Plan(asking, ask, view.show)
	view.close()
	<-warmed
	if rec := r.write(ctx, ask, out, err, time.Since(start)); rec != nil {
		return nil, fail(exitFailed, rec)
	}
	if err != nil {
		return nil, modelFailed(asking, err)
	}
	if r.hasKey(out) {
		return nil, fail(exitFailed, errors.New("the model's answer holds the key that it was asked with: nothing of it is run; whoever answers at this address gives keys away, so change the key"))
	}
	r.earlier = out.Messages
	r.usage.Add(out.Usage)
	view.finish(out)
	return out, nil
}

// minKey is the length from which a key is one: those of local servers are words.
const minKey = 16

// hasKey reports whether an answer holds the provider's key, which no model is told: with its
// commands it would come into the sandbox, onto the screen and into the record.
func (r *aiRun) hasKey(out *planner.Outcome) bool {
	if len(r.chosen.Key) < minKey {
		return false
	}
	for _, step := range append(slices.Clone(out.Plan.Steps), out.Proposed...) {
		if strings.Contains(step.ShellCommand+"\n"+step.Description+"\n"+step.ID+"\n"+step.WorkingDirectory, r.chosen.Key) {
			return true
		}
	}
	return strings.Contains(out.Plan.Summary, r.chosen.Key)
}

// act shows an answer, or runs what it proposes.
func (r *aiRun) act(ctx context.Context, out *planner.Outcome) error {
	p, f := r.p, r.f
	guide := &aiGuide{run: r, outcome: out, proposed: out.Plan}
	f.guide = guide
	if f.planOnly {
		return p.print(string(action.Marshal(out.Plan)))
	}
	if len(out.Plan.Steps) == 0 {
		if f.json {
			return p.answerOnly(&f.planFlags, out.Plan)
		}
		return r.showAnswer(out)
	}
	for plan := out.Plan; plan != nil; {
		guide.next = nil
		err := p.runPlan(ctx, &f.planFlags, plan, nil)
		if code, ok := errors.AsType[*codeError](err); ok && code.code == exitUsage && !f.json {
			r.showUnrun(plan) // it was paid for
		}
		if guide.next == nil {
			r.remember(guide)
			return err
		}
		plan = guide.next
	}
	return nil
}

// remember puts the commands that went well into the shell's history, where that is wanted.
func (r *aiRun) remember(guide *aiGuide) {
	if !r.f.history && !r.settings.History || len(guide.ran) == 0 {
		return
	}
	err := shellhook.AddHistory(r.p.getenv, guide.ran)
	switch {
	case errors.Is(err, shellhook.ErrNoHook) && !r.f.history:
	case err != nil:
		r.p.complain(fmt.Errorf("the shell's history: %w", err))
	}
}

// getenv is a variable of the program's environment.
func (p *Program) getenv(name string) string {
	for _, pair := range p.Environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// piped is standard input where something is piped into it; nil where it is a terminal, or
// nothing at all.
func (p *Program) piped() *os.File {
	in, ok := p.Stdin.(*os.File)
	if !ok {
		return nil
	}
	st, err := in.Stat()
	if err != nil { // it is closed
		return nil
	}
	if mode := st.Mode(); mode&os.ModeNamedPipe != 0 || mode.IsRegular() {
		return in
	}
	return nil
}
