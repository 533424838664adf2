package planner_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/action"
	"airlock/internal/planner"
)

const other = `{"kind":"command_sequence","summary":"Another","steps":[{"id":"1","description":"x","shell_command":"true"}]}`

func TestThePlanIsFoundInTheText(t *testing.T) {
	for name, text := range map[string]string{
		"the whole text":                listing,
		"a byte order mark":             "\uFEFF" + listing,
		"spaces around it":              "\n\n  " + listing + "\n \n",
		"a fence":                       "```json\n" + listing + "\n```",
		"a fence without a language":    "```\n" + listing + "\n```\n",
		"a fence in prose":              "Sure! Here it is:\n\n```json\n" + listing + "\n```\n\nShall I go on?",
		"a fence that does not end":     "```json\n" + listing,
		"prose before and after":        "Here is the plan: " + listing + " Good luck with ${it}!",
		"prose behind it":               listing + "\n\nThis lists all files {even hidden ones}.",
		"another object before it":      `For {"a": {"b": "}"}} do this: ` + listing,
		"braces of a shell before it":   "In place of awk '{print $1}' take\n" + listing,
		"a fence of another language":   "```sh\nls -l {a,b}\n```\n```json\n" + listing + "\n```",
		"thoughts before it":            "<think>Perhaps " + other + "? No.</think>\n" + listing,
		"the same, twice":               listing + "\n" + listing,
		"one that is no plan, too":      `{"kind":"Pod","apiVersion":"v1"}` + "\n" + listing,
		"nulls where there is no value": `{"kind":"command_sequence","summary":"List the files","steps":[{"id":"step1","description":"List","shell_command":"ls -l","needs_confirmation":null,"is_destructive":null,"requires_sudo": null ,"working_directory":null}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := script(textOnly, turn{answer: planner.Answer{Text: text, Stop: planner.StopEnd}})
			out, _, err := plan(t, planner.New(m, nil), run)
			if err != nil || out.Requests != 1 || out.Invalid != nil || string(action.Marshal(out.Plan)) != string(action.Marshal(mustParse(t, listing))) {
				t.Errorf("Plan: %+v, %v", out, err)
			}
		})
	}
}

func mustParse(t *testing.T, text string) *action.Plan {
	t.Helper()
	p, err := action.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhatIsNoPlanIsMended(t *testing.T) {
	for name, c := range map[string]struct{ text, problem string }{
		"prose":                     {"I would list the files.", "a text without one"},
		"nothing":                   {"", "nothing"},
		"spaces":                    {" \n ", "nothing"},
		"no kind":                   {`{"summary":"x"}`, "kind"},
		"two that differ":           {listing + "\nor\n" + other, "several that differ"},
		"a member that comes twice": {strings.Replace(listing, `"summary"`, `"kind":"answer_only","summary"`, 1), "kind"},
		"a null that hides another": {strings.Replace(listing, `"id":"step1"`, `"id":"step1","is_destructive":true,"is_destructive":null`, 1), "is_destructive"},
		"a null that is not meant":  {strings.Replace(listing, `"ls -l"`, `null`, 1), "shell_command"},
		"a kind that is null":       {`{"kind":null,"summary":null,"steps":null}`, "kind"},
		"steps that are null":       {`{"kind":"command_sequence","summary":"x","steps":null}`, "at least one"},
		"JSON that does not end":    {listing[:60], "line 1"},
		"a plan cut off in prose":   {"Here: " + listing[:60], "line 1"},
		"a command of nothing":      {strings.Replace(listing, "ls -l", " ", 1), "shell_command"},
	} {
		t.Run(name, func(t *testing.T) {
			m := script(textOnly, text(c.text), text(listing))
			out, seen, err := plan(t, planner.New(m, nil), run)
			if err != nil || out.Requests != 2 || len(out.Plan.Steps) != 1 || out.Invalid != nil {
				t.Fatalf("Plan: %+v, %v", out, err)
			}
			mending := of[planner.Mending](seen)
			if len(mending) != 1 || !strings.Contains((&action.InvalidError{Problems: mending[0].Problems}).Error(), c.problem) {
				t.Errorf("told: %+v", mending)
			}
			messages := m.requests[1].Messages
			if said := messages[2].Text; len(messages) != 3 || messages[1].Text == "" || !strings.Contains(said, c.problem) {
				t.Errorf("sent: %+v", messages)
			}

			// Once more of the same is taken as a text, if there is one.
			m = script(textOnly, text(c.text), text(c.text), text(listing))
			out, _, err = plan(t, planner.New(m, nil), run)
			if strings.TrimSpace(c.text) == "" {
				var fault *planner.Error
				if !errors.As(err, &fault) || fault.Fault != planner.FaultGarbled || len(m.requests) != 2 {
					t.Errorf("Plan: %+v, %v", out, err)
				}
				return
			}
			if err != nil || len(m.requests) != 2 || len(out.Invalid) == 0 || out.Plan.Kind != action.AnswerOnly || out.Plan.Summary != strings.TrimSpace(c.text) {
				t.Errorf("Plan: %+v, %v", out.Plan, err)
			}
		})
	}
}

func TestAnAnswerHasNoSteps(t *testing.T) {
	explain := &planner.Ask{Verb: planner.Explain, Words: "ls?"}
	for name, c := range map[string]struct {
		text, summary string
		proposed      int
	}{
		"prose":                         {"It lists files.", "It lists files.", 0},
		"an answer":                     {`{"kind":"answer_only","summary":"It lists files."}`, "It lists files.", 0},
		"steps":                         {listing, "List the files", 1},
		"steps without a summary":       {strings.Replace(listing, `"summary":"List the files",`, "", 1), "List.", 1},
		"steps without any words":       {strings.NewReplacer(`"summary":"List the files",`, "", `"List"`, `" "`).Replace(listing), "These commands would do it.", 1},
		"prose with braces":             {"awk '{print $1}' prints the first column, jq '{a: .b}' an object.", "awk '{print $1}' prints the first column, jq '{a: .b}' an object.", 0},
		"prose with an object":          {`A Pod is {"kind": "Pod", "metadata": {}} there.`, `A Pod is {"kind": "Pod", "metadata": {}} there.`, 0},
		"prose that is not UTF-8":       {"a\xffb", "a\uFFFDb", 0},
		"prose without end":             {strings.Repeat("é", 1<<20), strings.Repeat("é", action.MaxSummary/2-2) + "…", 0},
		"prose that quotes from a plan": {"`{\"steps\"` is where steps begin.", "`{\"steps\"` is where steps begin.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := script(textOnly, text(c.text), text(c.text))
			out, _, err := plan(t, planner.New(m, nil), explain)
			if err != nil {
				t.Fatal(err)
			}
			if out.Plan.Kind != action.AnswerOnly || len(out.Plan.Steps) != 0 || out.Plan.Summary != c.summary || len(out.Proposed) != c.proposed {
				t.Errorf("Plan: %s %.200q, %d proposed", out.Plan.Kind, out.Plan.Summary, len(out.Proposed))
			}
			if _, err := action.Parse(action.Marshal(out.Plan)); err != nil {
				t.Errorf("the plan is not valid: %v", err)
			}
		})
	}
}

func TestOtherEndsOfAnAnswer(t *testing.T) {
	stop := func(s planner.Stop, text string) turn { return turn{answer: planner.Answer{Text: text, Stop: s}} }
	explain := &planner.Ask{Verb: planner.Explain, Words: "ls?"}
	for name, c := range map[string]struct {
		ask     *planner.Ask
		turn    turn
		summary string
		err     planner.Fault
	}{
		"cut off in a plan":          {run, stop(planner.StopLength, listing[:50]), "", planner.FaultCut},
		"cut off behind the plan":    {run, stop(planner.StopLength, listing+" and furth"), "List the files", ""},
		"cut off in prose":           {run, stop(planner.StopLength, "First I would"), "", planner.FaultCut},
		"cut off in an explanation":  {explain, stop(planner.StopLength, "It lists"), "It lists\n[The answer was cut off at the endpoint's bound.]", ""},
		"cut off before anything":    {explain, stop(planner.StopLength, ""), "", planner.FaultCut},
		"cut off in a call":          {run, turn{answer: planner.Answer{Stop: planner.StopLength, Calls: []planner.ToolCall{{ID: "a", Name: "sysinfo", Args: json.RawMessage(`{"a`)}}}}, "", planner.FaultCut},
		"cut off in a proposal":      {run, turn{answer: planner.Answer{Stop: planner.StopLength, Calls: []planner.ToolCall{{ID: "a", Name: "propose_action", Args: json.RawMessage(listing[:50])}}}}, "", planner.FaultCut},
		"refused with a text":        {run, stop(planner.StopRefused, "I will not."), "I will not.", ""},
		"refused without":            {run, stop(planner.StopRefused, ""), "The model, or a filter before it, would not answer this.", ""},
		"refused with a plan":        {run, stop(planner.StopRefused, listing), listing, ""},
		"an answer larger than any":  {run, stop(planner.StopEnd, strings.Repeat("x", 5<<20)), "", planner.FaultTooBig},
		"arguments larger than any":  {run, calls("propose_action", strings.Repeat("x", 5<<20)), "", planner.FaultTooBig},
		"an answer where a plan was": {run, stop(planner.StopEnd, `{"kind":"answer_only","summary":"Which files?"}`), "Which files?", ""},
		"a plan where commands were": {run, stop(planner.StopEnd, strings.Replace(listing, "command_sequence", "plan_and_commands", 1)), "List the files", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := script(textOnly, c.turn)
			out, _, err := plan(t, planner.New(m, &planner.Options{Tools: box()}), c.ask)
			var fault *planner.Error
			switch {
			case c.err != "":
				if !errors.As(err, &fault) || fault.Fault != c.err || len(m.requests) != 1 {
					t.Errorf("Plan: %v after %d requests", err, len(m.requests))
				}
			case err != nil || out.Plan.Summary != c.summary:
				t.Errorf("Plan: %+v, %v", out.Plan, err)
			}
		})
	}
}

func TestUsageIsOfAllRequests(t *testing.T) {
	cost := 0.25
	one, two := calls("sysinfo", "{}"), text(listing)
	one.answer.Usage = planner.Usage{Input: 100, Output: 10, Cost: &cost}
	two.answer.Usage = planner.Usage{Input: 200, Cached: 90, Output: 20, Cost: &cost}
	out, _, err := plan(t, planner.New(script(textOnly, one, two), &planner.Options{Tools: box()}), run)
	if err != nil || out.Usage.Input != 300 || out.Usage.Cached != 90 || out.Usage.Output != 30 || *out.Usage.Cost != 0.5 || out.Requests != 2 {
		t.Errorf("Outcome: %+v, %v", out, err)
	}
}

func TestASessionGoesOn(t *testing.T) {
	m := script(textOnly, calls("sysinfo", "{}"), text("no plan"), text(listing), text("It lists files."))
	p := planner.New(m, &planner.Options{Tools: box()})
	out, _, err := plan(t, p, run)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := plan(t, p, &planner.Ask{Verb: planner.Question, Words: "what is that?", Earlier: out.Messages}); err != nil {
		t.Fatal(err)
	}
	sent := m.requests[3].Messages
	if len(sent) != 5 || len(sent[1].Calls) != 1 || len(sent[2].Results) != 1 || sent[3].Role != planner.Assistant || !strings.Contains(sent[3].Text, "ls -l") {
		t.Errorf("sent: %+v", sent)
	}
}

// Whatever a model writes, it costs no more than time in its length.
func TestHostileTextIsReadInTime(t *testing.T) {
	const size = 4 << 20
	for name, unit := range map[string]string{
		"braces":                 "{",
		"braces and quotes":      `{"`,
		"beginnings of a plan":   `{"kind":`,
		"objects in each other":  `{"a":`,
		"lists in each other":    `{"steps":[`,
		"small objects":          `{"kind":"answer_only"} `,
		"objects with a summary": `{"kind":"x","summary":""}`,
		"fences":                 "```\n",
		"fences with braces":     "\n```json\n{\"\n",
		"braces far apart":       "{" + strings.Repeat(" ", 62),
		"backslashes":            `{"kind\\\`,
		"thoughts":               "<think>",
		"steps":                  `{"steps":[{"id":"1","description":"","shell_command":"x"},`,
		"nulls":                  `{"steps":[null,null,{"is_destructive":null},`,
	} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat(unit, size/len(unit))
			deltas := make([]planner.Delta, 0, size/16)
			for rest := long; rest != ""; {
				n := min(16, len(rest))
				deltas, rest = append(deltas, planner.Delta{Text: rest[:n]}), rest[n:]
			}
			began := time.Now()
			m := script(textOnly, turn{deltas: deltas, answer: planner.Answer{Text: long}}, text(listing))
			if _, _, err := plan(t, planner.New(m, nil), run); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Minute { // quadratic is hours
				t.Errorf("it took %s", took)
			} else {
				t.Log(took)
			}
		})
	}
}

// Whatever a model writes, a plan comes of it that is valid, or an error.
func FuzzAnswer(f *testing.F) {
	for _, s := range append(slices.Clone(hostile), listing, "```json\n"+listing+"\n```", listing+other, `{"kind":"answer_only","summary":null}`, "<think>{</think>"+listing) {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, said, args string) {
		for _, verb := range []planner.Verb{planner.Do, planner.Explain} {
			m := script([]planner.Format{planner.FormatTool, planner.FormatText}, text(said), calls("propose_action", args), calls("sysinfo", args, said, said), text(said))
			out, err := planner.New(m, &planner.Options{Tools: box()}).Plan(t.Context(), &planner.Ask{Verb: verb, Words: "x"}, nil)
			if err != nil {
				continue
			}
			if _, err := action.Parse(action.Marshal(out.Plan)); err != nil {
				t.Fatalf("the plan is not valid: %v", err)
			}
			if verb.Answers() && out.Plan.Kind != action.AnswerOnly {
				t.Fatalf("steps in an answer: %+v", out.Plan)
			}
			for _, req := range m.requests {
				if _, err := json.Marshal(req); err != nil {
					t.Fatalf("a request that cannot be sent: %v", err)
				}
			}
		}
	})
}
