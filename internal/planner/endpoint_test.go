package planner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/planner"
	"airlock/internal/tool"
)

var allFormats = []planner.Format{planner.FormatSchema, planner.FormatTool, planner.FormatJSON, planner.FormatText}

func lacks(f planner.Feature) turn {
	return turn{err: &planner.Error{Fault: planner.FaultUnsupported, Feature: f}}
}

// of are the progress of one type.
func of[T planner.Progress](seen []planner.Progress) []T {
	var all []T
	for _, p := range seen {
		if p, ok := p.(T); ok {
			all = append(all, p)
		}
	}
	return all
}

func TestWhatTheEndpointLacksIsDoneWithout(t *testing.T) {
	for name, c := range map[string]struct {
		formats []planner.Format
		turns   []turn
		want    string // format, tools and whether one must be called, of each request
		err     bool
	}{
		"nothing is lacking":         {allFormats, []turn{text(listing)}, "schema/4", false},
		"no schema":                  {allFormats, []turn{lacks(planner.FeatureSchema), calls("propose_action", listing)}, "schema/4 tool/5!", false},
		"no choice":                  {allFormats[1:], []turn{lacks(planner.FeatureChoice), text(listing)}, "tool/5! tool/5", false},
		"no tools":                   {allFormats[1:], []turn{lacks(planner.FeatureTools), text(listing)}, "tool/5! json/0", false},
		"no tools beside the schema": {allFormats, []turn{lacks(planner.FeatureTools), text(listing)}, "schema/4 schema/0", false},
		"nothing but text": {
			allFormats,
			[]turn{lacks(planner.FeatureSchema), lacks(planner.FeatureChoice), lacks(planner.FeatureTools), lacks(planner.FeatureJSON), text(listing)},
			"schema/4 tool/5! tool/5 json/0 text/0", false,
		},
		"what was not asked for":    {textOnly, []turn{lacks(planner.FeatureSchema)}, "text/4", true},
		"a choice that was not":     {allFormats, []turn{lacks(planner.FeatureChoice)}, "schema/4", true},
		"tools, twice":              {textOnly, []turn{lacks(planner.FeatureTools), lacks(planner.FeatureTools)}, "text/4 text/0", true},
		"something unknown":         {allFormats, []turn{lacks("magic")}, "schema/4", true},
		"formats that end in none":  {[]planner.Format{planner.FormatJSON}, []turn{lacks(planner.FeatureJSON), text(listing)}, "json/4 text/4", false},
		"formats that there aren't": {nil, []turn{text(listing)}, "text/4", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := script(c.formats, c.turns...)
			p := planner.New(m, &planner.Options{Tools: box()})
			_, seen, err := plan(t, p, run)
			if (err != nil) != c.err {
				t.Fatalf("Plan: %v", err)
			}
			var got []string
			for _, req := range m.requests {
				s := fmt.Sprintf("%s/%d", req.Format, len(req.Tools))
				if req.MustCall {
					s += "!"
				}
				if (req.Schema != nil) != (req.Format == planner.FormatSchema) {
					t.Errorf("the schema of %s: %s", s, req.Schema)
				}
				got = append(got, s)
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("requests: %s, want %s", got, c.want)
			}
			if lowered := of[planner.Lowered](seen); !c.err && len(lowered) != len(m.requests)-1 {
				t.Errorf("told: %+v", lowered)
			}
			if c.err {
				return
			}
			// It is remembered.
			m.turns = append(m.turns, text(listing))
			if _, _, err := plan(t, p, run); err != nil {
				t.Fatal(err)
			}
			if a, b := m.requests[len(m.requests)-1], m.requests[len(m.requests)-2]; a.Format != b.Format || len(a.Tools) != len(b.Tools) || a.MustCall != b.MustCall {
				t.Errorf("the next ask is %s with %d tools", a.Format, len(a.Tools))
			}
		})
	}
}

func fault(f planner.Fault, again bool, after time.Duration) turn {
	return turn{err: &planner.Error{Fault: f, Again: again, RetryAfter: after}}
}

func TestFaultsThatPassAreWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		turns       []turn
		requests    int
		least, most time.Duration
		want        string // of the error
	}{
		"one":                       {[]turn{fault(planner.FaultServer, true, 0), text(listing)}, 2, time.Second, 1250 * time.Millisecond, ""},
		"two":                       {[]turn{fault(planner.FaultCut, true, 0), fault(planner.FaultUnreachable, true, 0), text(listing)}, 3, 4 * time.Second, 5 * time.Second, ""},
		"three":                     {[]turn{fault(planner.FaultServer, true, 0), fault(planner.FaultServer, true, 0), fault(planner.FaultServer, true, 0)}, 3, 4 * time.Second, 5 * time.Second, "server error"},
		"it says when":              {[]turn{fault(planner.FaultBusy, true, 20*time.Second), text(listing)}, 2, 20 * time.Second, 20 * time.Second, ""},
		"it takes too long":         {[]turn{fault(planner.FaultBusy, true, 2*time.Minute)}, 1, 0, 0, "again in 2m0s"},
		"it does not pass":          {[]turn{fault(planner.FaultServer, false, 0)}, 1, 0, 0, "server error"},
		"one that never passes":     {[]turn{fault(planner.FaultKey, true, 0)}, 1, 0, 0, "key"},
		"the count begins anew":     {[]turn{fault(planner.FaultServer, true, 0), fault(planner.FaultServer, true, 0), calls("sysinfo", "{}"), fault(planner.FaultServer, true, 0), text(listing)}, 5, 5 * time.Second, 7 * time.Second, ""},
		"it is too long":            {[]turn{fault(planner.FaultTooLong, true, 0)}, 1, 0, 0, "begin a new conversation"},
		"an error of no known kind": {[]turn{{err: errors.New("odd\x1b")}}, 1, 0, 0, `odd\x1b`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := script(textOnly, c.turns...)
				began := time.Now()
				_, seen, err := plan(t, planner.New(m, &planner.Options{Tools: box()}), run)
				took := time.Since(began)
				var known *planner.Error
				if (err != nil) != (c.want != "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.As(err, &known)) {
					t.Errorf("Plan: %v", err)
				}
				if len(m.requests) != c.requests || took < c.least || took > c.most {
					t.Errorf("%d requests in %s", len(m.requests), took)
				}
				var told time.Duration
				for _, r := range of[planner.Retrying](seen) {
					told += r.After
				}
				if told != took {
					t.Errorf("told to wait %s, waited %s", told, took)
				}
			})
		})
	}
}

// waits answers nothing until ctx ends.
func waits(ctx context.Context, _ *planner.Request) (*planner.Answer, error) {
	<-ctx.Done()
	return nil, &planner.Error{Fault: planner.FaultUnreachable, Again: true, Err: ctx.Err()}
}

func TestAnAskEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := script(textOnly, turn{do: waits})
		began := time.Now()
		_, err := planner.New(m, nil).Plan(t.Context(), run, nil)
		var fault *planner.Error
		if !errors.As(err, &fault) || fault.Fault != planner.FaultTimeout || fault.Mend == "" || time.Since(began) != 5*time.Minute {
			t.Errorf("Plan: %v after %s", err, time.Since(began))
		}
	})
}

func TestCancelingEndsIt(t *testing.T) {
	for name, turns := range map[string][]turn{
		"while the model answers": {{do: waits}},
		"while it is waited":      {fault(planner.FaultBusy, true, 20*time.Second)},
		"while a tool is used":    {calls("sysinfo", "{}")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				b := box()
				b.give = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				}
				began := time.Now()
				out, err := planner.New(script(textOnly, turns...), &planner.Options{Tools: b}).Plan(ctx, run, nil)
				var fault *planner.Error
				if !errors.As(err, &fault) || fault.Fault != planner.FaultCanceled || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
					t.Errorf("Plan: %v after %s", err, time.Since(began))
				}
				if out == nil || out.Plan != nil || out.Requests != 1 {
					t.Errorf("Outcome: %+v", out)
				}
			})
		})
	}
}
