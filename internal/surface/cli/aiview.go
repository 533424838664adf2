package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"airlock/internal/action"
	"airlock/internal/planner"
	"airlock/internal/surface/cli/live"
)

// aiView shows what a model does while it is waited for: on a terminal a few lines that are
// gone once there is an answer, elsewhere only what has to be said.
type aiView struct {
	p             *Program
	quiet         bool
	width, height int // of the terminal; 0: there is none
	name          string

	since time.Time

	drawing sync.Mutex
	region  *live.Region // nil while others write
	closed  bool

	mu     sync.Mutex // taken after drawing
	status string
	draft  planner.Drafted
}

func (r *aiRun) newView(quiet bool) *aiView {
	v := &aiView{p: r.p, quiet: quiet, since: time.Now(), status: "waiting"}
	info := r.chosen.Model.Info()
	v.name = cut(printable(strings.TrimSpace(info.Provider+" "+info.Model)), 40)
	if f, ok := r.p.Stderr.(*os.File); ok && !quiet && isTerminal(f) && os.Getenv("TERM") != "dumb" {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil {
			v.width, v.height = w, min(h, 16)
		}
	}
	v.resume()
	return v
}

// resume draws, if there is something to draw on.
func (v *aiView) resume() {
	v.drawing.Lock()
	defer v.drawing.Unlock()
	if v.width > 0 && v.region == nil && !v.closed {
		v.region = live.Start(v.p.Stderr, v.width, v.height, v.lines)
	}
}

// pause takes the lines away: somebody else writes.
func (v *aiView) pause() {
	v.drawing.Lock()
	defer v.drawing.Unlock()
	v.clear()
}

func (v *aiView) clear() {
	if v.region != nil {
		v.region.End()
		v.region = nil
	}
}

// close ends the view. It may be called twice.
func (v *aiView) close() {
	v.drawing.Lock()
	defer v.drawing.Unlock()
	v.closed = true
	v.clear()
}

// show takes what is told of an ask.
func (v *aiView) show(progress planner.Progress) {
	switch e := progress.(type) {
	case planner.Asked:
		v.set("waiting", planner.Drafted{})
	case planner.Thinking:
		v.set("thinking", planner.Drafted{})
	case planner.Drafted:
		v.set("writing", e)
	case planner.Using:
		v.set("using "+printable(e.Call.Tool), planner.Drafted{})
	case planner.Used:
		v.say(toolLine(&e.Use))
	case planner.Retrying:
		v.say(fmt.Sprintf("%s; trying again in %s", printable(e.Err.Error()), e.After.Round(100*time.Millisecond)))
	case planner.Mending:
		what := "the answer was no valid plan"
		if len(e.Problems) > 0 {
			what += " (" + cut(e.Problems[0].String(), 120) + ")"
		}
		v.say(what + "; asking once more")
	}
}

func (v *aiView) set(status string, draft planner.Drafted) {
	v.mu.Lock()
	v.status, v.draft = status, draft
	v.mu.Unlock()
	v.resume()
}

// say writes a line that stays.
func (v *aiView) say(line string) {
	if v.quiet {
		return
	}
	v.pause()
	v.p.say("%s", line)
	v.resume()
}

// toolLine says what a model used a tool for.
func toolLine(use *planner.Use) string {
	args := printable(string(use.Call.Args))
	if args == "{}" || args == "" {
		args = ""
	} else {
		args = " " + args
	}
	switch {
	case !use.OK:
		return fmt.Sprintf("the model tried %s%s: %s", printable(use.Call.Tool), cut(args, 200), printable(use.Why))
	case use.Cut:
		return fmt.Sprintf("the model used %s%s: the first %s", printable(use.Call.Tool), cut(args, 200), plural(use.Bytes, "byte"))
	}
	return fmt.Sprintf("the model used %s%s: %s", printable(use.Call.Tool), cut(args, 200), plural(use.Bytes, "byte"))
}

// lines are what is drawn.
func (v *aiView) lines(frame int) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := []string{fmt.Sprintf("%s %s: %s, %ds", live.Spinner(frame), v.name, v.status, int(time.Since(v.since).Seconds()))}
	text := v.draft.Summary
	if text == "" {
		text = v.draft.Text
	}
	if text != "" {
		const most = 8 << 10 // more would not be seen
		lines := live.Wrap(printableLines(tail(text, most)), v.width-4)
		if room := max(v.height-2-2*len(v.draft.Steps), 3); len(lines) > room {
			lines = lines[len(lines)-room:]
		}
		for _, line := range lines {
			out = append(out, "  "+line)
		}
	}
	for i := range v.draft.Steps {
		out = append(out, draftStep(i, &v.draft.Steps[i])...)
	}
	return out
}

func draftStep(i int, step *action.Step) []string {
	command, _, _ := strings.Cut(step.ShellCommand, "\n")
	return []string{
		fmt.Sprintf("  %d. %s", i+1, cut(printable(step.Description), 200)),
		"     $ " + cut(printable(command), 200),
	}
}

// finish says what is to be said of an answer beside it.
func (v *aiView) finish(out *planner.Outcome) {
	if v.quiet {
		return
	}
	if len(out.Invalid) > 0 {
		v.p.say("the model's answer was no valid plan, so it is only shown: %s", out.Invalid[0].String())
	}
	if v.width > 0 && (out.Usage.Input > 0 || out.Usage.Output > 0) {
		v.p.say("%s: %s", v.name, usageLine(&out.Usage))
	}
}

// usageLine says what answers cost.
func usageLine(u *planner.Usage) string {
	text := fmt.Sprintf("%d tokens in", u.Input)
	if u.Cached > 0 {
		text += fmt.Sprintf(" (%d cached)", u.Cached)
	}
	text += fmt.Sprintf(", %d out", u.Output)
	if u.Cost != nil {
		text += fmt.Sprintf(", $%.4f", *u.Cost)
	}
	return text
}

// showAnswer prints an answer without steps.
func (r *aiRun) showAnswer(out *planner.Outcome) error {
	var b strings.Builder
	fmt.Fprintln(&b, printableLines(strings.TrimRight(out.Plan.Summary, "\n")))
	if len(out.Proposed) > 0 {
		fmt.Fprint(&b, "\nCommands it proposes, which were not run:\n")
	}
	for _, step := range out.Proposed {
		fmt.Fprintf(&b, "  %s\n    $ %s\n", printable(step.Description), indented(step.ShellCommand))
	}
	return r.p.print(b.String())
}

// print writes to standard output what was asked for: where it cannot, nothing was had.
func (p *Program) print(text string) error {
	if _, err := io.WriteString(p.Stdout, text); err != nil {
		return fail(exitFailed, fmt.Errorf("write the answer: %w", err))
	}
	return nil
}

// showUnrun shows a plan that could not be run as it is.
func (r *aiRun) showUnrun(plan *action.Plan) {
	w := r.p.Stderr
	fmt.Fprintf(w, "The plan, of which nothing was run:\n%s\n", indented(plan.Summary))
	for i := range plan.Steps {
		fmt.Fprintf(w, "%d. %s\n   $ %s\n", i+1, printable(plan.Steps[i].Description), indented(plan.Steps[i].ShellCommand))
	}
}
