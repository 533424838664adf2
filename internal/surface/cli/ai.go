package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"airlock/internal/near"
	"airlock/internal/planner"
)

// ModelOptions say which model is wanted. What is empty is for the environment and the
// settings to say.
type ModelOptions struct {
	Provider, Model, BaseURL string

	// Show, if not nil, is given each request as it would be sent, which it then is not.
	Show func(method, url string, body []byte)
}

// A ChosenModel is the model that was chosen.
type ChosenModel struct {
	Model planner.Model
	Key   string   // for redaction alone; "" where there is none
	Why   string   // what chose it: "AIRLOCK_PROVIDER", "the settings", …
	Notes []string // sentences for the person
}

// ErrNoModel is the error of a Program's Model where nothing says which to ask, and none was
// found on this machine. It may be wrapped by one that says what to set.
var ErrNoModel = errors.New("no model is configured")

// aiFlags are those of airlock ai and its verbs.
type aiFlags struct {
	planFlags
	provider, model, baseURL string
	include                  []string
	noTools, noInstructions  bool
	showContext, planOnly    bool
	history, rerun           bool
	record, replay           string
}

func (f *aiFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.model, "model", "", "ask this model (default: AIRLOCK_MODEL, or the settings')")
	fl.StringVar(&f.provider, "provider", "", "of this provider: openai, anthropic, gemini, ollama … (default: AIRLOCK_PROVIDER, or the settings')")
	fl.StringVar(&f.baseURL, "base-url", "", "at this address (default: AIRLOCK_BASE_URL, or the settings')")
	fl.StringArrayVarP(&f.include, "include", "i", nil, "send this file along, or the files that a pattern such as 'src/**/*.go' matches")
	fl.BoolVar(&f.noTools, "no-tools", false, "do not let the model use the read-only tools")
	fl.BoolVar(&f.noInstructions, "no-instructions", false, "do not send the project's AGENTS.md along")
	fl.BoolVar(&f.showContext, "show-context", false, "print what would be sent, and send nothing (with --json: the request's body, byte for byte)")
	fl.BoolVar(&f.planOnly, "plan-only", false, "print the AiAction, and run nothing")
	fl.StringVar(&f.record, "record", "", "write the conversation to FILE, redacted, for a report or --replay")
	fl.StringVar(&f.replay, "replay", "", "take the model's answers from a recorded FILE")
}

// addRun adds the flags of verbs whose answers are run.
func (f *aiFlags) addRun(cmd *cobra.Command) {
	f.planFlags.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.direct, "direct", false, "run on the host, step by step, each through the gate")
	fl.BoolVar(&f.history, "history", false, "put the commands that were run into the shell's history (needs airlock hook)")
}

// aiVerbs are the verbs, as they are typed.
var aiVerbs = []struct {
	verb              planner.Verb
	use, short, intro string
}{
	{planner.Run, "run", "Ask for a command or a few, and run them in a sandbox", "Ask a model for the commands that do what you say"},
	{planner.Do, "do", "Ask for a plan of several steps, and run it in a sandbox", "Ask a model for a plan that does what you say"},
	{planner.Fix, "fix", "Mend the last command's failure", "Ask a model for what mends the last command's failure, which airlock hook lets it know"},
	{planner.Explain, "explain", "Explain a command, or what is piped in; nothing is run", "Ask a model to explain a command, an error or what is piped in"},
	{planner.Question, "ask", "Answer a question; nothing is run", "Ask a model a question; it may look at the machine with the read-only tools"},
}

const aiIntro = `Ask a language model in words. What it proposes is an AiAction: it is checked, shown, run in
one sandbox laid over your files, and comes out only when you commit it.`

func (p *Program) aiCmd() *cobra.Command {
	f := &aiFlags{}
	cmd := &cobra.Command{
		Use:   "ai [flags] [WORDS…]",
		Short: "Ask a model for a plan in words, run it in a sandbox, then decide",
		Long: aiIntro + `

Without a verb, words are a request as for airlock ai run; without words, on a terminal, a
session begins. Linked as ai, airlock is airlock ai: ai run "find the largest files".

The model is told your system, working folder and last command (airlock hook), AGENTS.md,
what you include and what is piped in, with secrets taken out; --show-context shows it. It may
use four read-only tools, each through the gate. Which model is asked: docs/models.md.`,
		Example: `  airlock ai run "delete all .orig files below here"
  airlock ai do "set this folder up as a Go module with a CI workflow"
  git diff | airlock ai explain
  make deploy || airlock ai fix     # or later, after it has failed (airlock hook)`,
		DisableFlagsInUseLine: true,
		Args:                  noSuchVerb,
		RunE: func(cmd *cobra.Command, args []string) error {
			if of := helpOf(cmd, args); of != nil {
				return of.Help()
			}
			if len(args) == 0 && f.replay == "" && !f.showContext && p.interactive() {
				return p.aiSession(cmd.Context(), f)
			}
			return p.ai(cmd.Context(), f, planner.Run, args, len(args) == 0)
		},
	}
	f.add(cmd)
	f.addRun(cmd)
	for _, v := range aiVerbs {
		cmd.AddCommand(p.aiVerbCmd(v.verb, v.use, v.short, v.intro))
	}
	return cmd
}

func (p *Program) aiVerbCmd(verb planner.Verb, use, short, intro string) *cobra.Command {
	f := &aiFlags{}
	cmd := &cobra.Command{
		Use:                   use + " [flags] [--] WORDS…",
		Short:                 short,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.ai(cmd.Context(), f, verb, args, false)
		},
	}
	f.add(cmd)
	if verb.Answers() {
		cmd.Long = intro + `.
Nothing is run, whatever the model proposes. What is piped in is sent along. The exit code
is 0 when there is an answer, 2 for what was typed wrongly, 125 when airlock or the model
failed, and 130 when it was interrupted.`
		cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
		return cmd
	}
	cmd.Long = intro + `.
All of it runs in one sandbox laid over your files; at the end you decide what becomes of
the changes: on a terminal you are asked, otherwise --commit (when every step went well),
--keep or --discard (the default) decide. The exit code is 0 when all went well, 1 when a step
failed, 2 for what was typed wrongly or a placeholder without a value (--set), 125 when
airlock or the model failed, 126 when a step was refused, 130 when it was interrupted.`
	f.addRun(cmd)
	if verb == planner.Fix {
		cmd.Flags().BoolVar(&f.rerun, "rerun", false, "run the last command again, in a sandbox that is thrown away, to see what it says")
	}
	return cmd
}

// helpOf is the command whose help the words ask for, as elsewhere in airlock; nil where they
// are a request.
func helpOf(cmd *cobra.Command, args []string) *cobra.Command {
	if len(args) == 0 || len(args) > 2 || args[0] != "help" {
		return nil
	}
	if len(args) == 1 {
		return cmd
	}
	for _, verb := range cmd.Commands() {
		if verb.Name() == args[1] {
			return verb
		}
	}
	return nil
}

// noSuchVerb refuses a word that is nearly a verb: what follows would be sent with it.
func noSuchVerb(_ *cobra.Command, args []string) error {
	if len(args) < 2 || strings.ContainsRune(args[0], ' ') {
		return nil
	}
	// The other verbs are so short that every second word is like one of them.
	if verb := near.Name(args[0], []string{string(planner.Explain)}); verb != "" {
		return usage("%s is not one of airlock ai's verbs; did you mean %s? To send it as it is, write airlock ai run %s …", printable(args[0]), verb, printable(args[0]))
	}
	return nil
}

// ai answers one request; bare says that no words were given because none are needed.
func (p *Program) ai(ctx context.Context, f *aiFlags, verb planner.Verb, args []string, bare bool) error {
	return p.planAnswered(&f.planFlags, nil, p.tryAI(ctx, f, verb, args, bare))
}

func (p *Program) tryAI(ctx context.Context, f *aiFlags, verb planner.Verb, args []string, bare bool) error {
	if err := p.checkAI(f); err != nil {
		return err
	}
	r, err := p.newAIRun(ctx, f)
	if err != nil {
		return err
	}
	defer r.close()
	if bare && f.replay == "" {
		verb = planner.Any
	}
	return r.request(ctx, verb, strings.Join(args, " "), len(args) > 0)
}

// checkAI refuses before anything is sent what would be refused once there is a plan.
func (p *Program) checkAI(f *aiFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if _, _, err := p.planRequest(&f.planFlags, nil); err != nil {
		return err
	}
	_, err := f.valueMap()
	return err
}

// check refuses flags that contradict one another.
func (f *aiFlags) check() error {
	switch {
	case f.record != "" && f.replay != "":
		return usage("--record and --replay exclude one another")
	case f.showContext && f.replay != "":
		return usage("--show-context shows what would be sent, and --replay sends nothing: leave one of them out")
	case f.planOnly && (f.commit || f.keep || f.discard):
		return usage("--plan-only runs nothing: there is nothing to commit, keep or discard")
	}
	return nil
}

// modelFailed is the exit code for a model that gave no answer; ctx is one of interruptible's.
func modelFailed(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) || ctx.Err() == nil {
		return fail(exitFailed, err)
	}
	sig := syscall.SIGINT
	if strings.HasPrefix(context.Cause(ctx).Error(), syscall.SIGTERM.String()) {
		sig = syscall.SIGTERM
	}
	return fail(exitSignalBase+int(sig), errors.New("interrupted; nothing was run"))
}
