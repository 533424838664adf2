package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/internal/action"
	"airlock/internal/executor"
	"airlock/internal/planner"
)

// aiGuide is what a plan that a model made has beside other plans: somebody who can be asked
// again.
type aiGuide struct {
	run     *aiRun
	outcome *planner.Outcome
	ran     []string     // the commands that went well
	next    *action.Plan // what is to be run instead; nil: nothing
	mended  int          // how often steps were replaced

	proposed *action.Plan  // as the model made it
	replaced []action.Step // those that came in the place of others
}

// note keeps what was run: it is what can be changed, explained or put into a history.
func (g *aiGuide) note(plan *action.Plan, out *executor.PlanOutcome) {
	steps := map[string]action.Step{}
	for _, step := range append(slices.Clone(plan.Steps), g.replaced...) {
		steps[step.ID] = step
	}
	ran := *plan
	ran.Steps, g.ran = nil, nil
	for i := range out.Steps {
		res := &out.Steps[i]
		step := steps[res.ID]
		step.ShellCommand = res.Command
		ran.Steps = append(ran.Steps, step)
		if res.Status == executor.StepOK {
			g.ran = append(g.ran, res.Command)
		}
		delete(steps, res.ID)
	}
	for _, step := range plan.Steps { // those that were not reached
		if _, left := steps[step.ID]; left && g.mended == 0 {
			ran.Steps = append(ran.Steps, step)
		}
	}
	g.outcome.Plan = &ran
}

// object is what --json says of the model.
func (g *aiGuide) object() *aiObject {
	info, out := g.run.chosen.Model.Info(), g.outcome
	o := &aiObject{Provider: info.Provider, Model: info.Model, Requests: out.Requests, Usage: g.run.usage, Tools: []aiUse{}, Plan: g.proposed}
	for _, use := range out.Uses {
		o.Tools = append(o.Tools, aiUse{use.Call.Tool, string(use.Call.Args), use.OK, use.Bytes, use.Why})
	}
	for _, step := range out.Proposed {
		o.Proposed = append(o.Proposed, step.ShellCommand)
	}
	for _, problem := range out.Invalid {
		o.Invalid = append(o.Invalid, problem.String())
	}
	return o
}

// aiObject is the member "ai" of what --json prints.
type aiObject struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model"`
	Requests int           `json:"requests"`
	Usage    planner.Usage `json:"usage"`
	Tools    []aiUse       `json:"tools"`
	Plan     *action.Plan  `json:"plan"`               // the AiAction that the model proposed last
	Proposed []string      `json:"proposed,omitempty"` // commands beside an answer, never run
	Invalid  []string      `json:"invalid,omitempty"`  // what was wrong with the model's answer
}

type aiUse struct {
	Tool  string `json:"tool"`
	Args  string `json:"args"`
	OK    bool   `json:"ok"`
	Bytes int    `json:"bytes"`
	Why   string `json:"why,omitempty"`
}

const (
	aiQuestion = "[c]ommit  [d]iff  [e]dit  [r]etry  [k]eep  e[x]plain  [n]o ? "
	aiHelp     = `c lets the changes out, d shows them, k keeps them, n throws them away;
e changes the plan in your editor and runs that, r asks for another one,
x has the model explain what was done.`
)

var aiAnswers = map[string]string{
	"c": "commit", "commit": "commit", "d": "diff", "diff": "diff", "e": "edit", "edit": "edit", "r": "retry", "retry": "retry",
	"k": "keep", "keep": "keep", "x": "explain", "explain": "explain", "n": "no", "no": "no",
}

// decide asks what becomes of the changes, or what is to be run in their place: those that
// are replaced are thrown away.
func (g *aiGuide) decide(ctx context.Context, show func() error) decision {
	p := g.run.p
	for {
		answer, err := p.choose(ctx, aiQuestion, aiAnswers, aiHelp)
		if err != nil {
			return keep // nothing is let out, and nothing is lost
		}
		switch answer {
		case "commit":
			return commit
		case "keep":
			return keep
		case "no":
			return discard
		case "diff":
			err = show()
		case "edit":
			if g.next, err = g.edit(ctx); g.next != nil {
				return discard
			}
		case "retry":
			if g.next, err = g.retry(ctx); g.next != nil {
				return discard
			}
		case "explain":
			err = g.explain(ctx)
		}
		if err != nil {
			p.complain(err)
		}
	}
}

// edit lets the person change the plan until it is a valid one, or left as it was.
func (g *aiGuide) edit(ctx context.Context) (*action.Plan, error) {
	p, text := g.run.p, string(action.Marshal(g.outcome.Plan))
	for before := text; ; {
		edited, err := p.editText(ctx, "airlock-plan-*.json", text)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(edited) == strings.TrimSpace(before) {
			p.say("the plan was left as it is")
			return nil, nil
		}
		plan, err := action.Parse([]byte(edited))
		if err == nil && len(plan.Steps) > 0 {
			return plan, nil
		}
		if err == nil {
			err = errors.New("it has no steps")
		}
		p.say("this is no plan that can be run: %v", err)
		answer, err := p.choose(ctx, "[e]dit again  [l]eave the plan as it was ? ", map[string]string{
			"e": "edit", "edit": "edit", "l": "leave", "leave": "leave",
		}, "e opens the editor with what you wrote, l forgets it.")
		if err != nil || answer == "leave" {
			return nil, nil
		}
		text = edited
	}
}

// retry asks the model for another plan, with what the person says about this one.
func (g *aiGuide) retry(ctx context.Context) (*action.Plan, error) {
	said, err := g.run.p.line(ctx, "What should be different (Enter: try again as it is) ? ")
	if err != nil {
		return nil, nil
	}
	words := "Propose another plan for the same request; the changes of the last one were thrown away."
	if said = strings.TrimSpace(said); said != "" {
		words += " What should be different: " + said
	}
	return g.propose(ctx, &planner.Ask{Words: words})
}

// propose asks the model for a plan that takes this one's place.
func (g *aiGuide) propose(ctx context.Context, ask *planner.Ask) (*action.Plan, error) {
	r := g.run
	ask.Verb, ask.Earlier, ask.Context = r.verb, r.earlier, r.context
	out, err := r.think(ctx, ask)
	if err != nil {
		return nil, err
	}
	if len(out.Plan.Steps) == 0 {
		return nil, r.showAnswer(out)
	}
	g.outcome, g.proposed = out, out.Plan
	return out.Plan, nil
}

// explain has the model explain the plan it made.
func (g *aiGuide) explain(ctx context.Context) error {
	r := g.run
	out, err := r.think(ctx, &planner.Ask{
		Verb: planner.Explain, Earlier: r.earlier, Context: r.context,
		Words:    "Explain this plan, step by step: what each command does, and what to look at before its changes are let out.",
		Material: []planner.Piece{{Kind: planner.FromPipe, Name: "the plan", Text: string(action.Marshal(g.outcome.Plan))}},
	})
	if err != nil {
		return err
	}
	return r.showAnswer(out)
}

// maxFailure bounds what a model is told of a failed step's output, of each stream.
const maxFailure = 8 << 10

// mend asks the model for what is to be run in place of a step that failed and all that
// follow it.
func (g *aiGuide) mend(ctx context.Context, step action.Step, res *executor.StepResult) ([]action.Step, error) {
	text := fmt.Sprintf("step %s: %s\ncommand: %s\nit %s\n\nstdout:\n%s\n\nstderr:\n%s\n", step.ID, step.Description, res.Command, how(res),
		tail(g.run.redactor.Text(res.Stdout), maxFailure), tail(g.run.redactor.Text(res.Stderr), maxFailure))
	plan, err := g.propose(ctx, &planner.Ask{
		Words: "A step of the plan failed, as the material shows. The steps before it have been done, in the same sandbox, and stay done. " +
			"Propose the steps that are to be run now instead of the failed one and those after it, to reach what was asked for.",
		Material: []planner.Piece{{Kind: planner.FromFailure, Name: "step " + step.ID, Text: text}},
	})
	if err != nil || plan == nil {
		return nil, err
	}
	// A step that has been done must not be taken for another one of its name.
	g.mended++
	for i := range plan.Steps {
		id := fmt.Sprintf("mended%d-%s", g.mended, plan.Steps[i].ID)
		plan.Steps[i].ID = strings.ToValidUTF8(id[:min(len(id), action.MaxID)], "")
	}
	g.replaced = append(g.replaced, plan.Steps...)
	if plan.Summary != "" {
		fmt.Fprintln(g.run.p.Stderr, indented(plan.Summary))
	}
	return plan.Steps, nil
}

// tail is the end of a text, from the beginning of a line where there is one.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < most/2 {
		s = s[i+1:]
	}
	return "[…]\n" + strings.ToValidUTF8(s, "")
}
