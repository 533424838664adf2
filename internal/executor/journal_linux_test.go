package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/executor"
	"airlock/internal/tool"
)

// interrupted runs a plan on the host that ends with its process, as far as this can be
// played here: the context ends in the step that says so, and the journal stays.
func interrupted(t *testing.T, w *planWorld, commands ...string) *executor.Journal {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := w.plan(commands...)
	req.Direct = true
	req.Stdout = cancelOn{"crash", cancel}
	if out, err := w.plans.Run(ctx, req); !errors.Is(err, context.Canceled) {
		t.Fatalf("Run = %+v, %v, want it canceled", out, err)
	}
	list, err := w.plans.Journals.Interrupted()
	if err != nil || len(list) != 1 {
		t.Fatalf("Interrupted = %d plans, %v, want one", len(list), err)
	}
	j, err := w.plans.Journals.Open(list[0].ID[:5])
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// cancelOn cancels when what is written holds word.
type cancelOn struct {
	word   string
	cancel func()
}

func (c cancelOn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.word) {
		c.cancel()
	}
	return len(p), nil
}

func TestAnInterruptedPlanGoesOn(t *testing.T) {
	w := newPlanWorld(t)
	j := interrupted(t, w, "echo x >>one", "echo crash; sleep 100", "echo x >>three")
	if j.Interrupted != "2" || !j.Direct || len(j.Steps) != 1 {
		t.Errorf("the journal says %+v", j)
	}
	if _, err := w.plans.Journals.Open(j.ID); !errors.Is(err, executor.ErrPlanRuns) {
		t.Errorf("Open of a plan that was taken over: err = %v, want %v", err, executor.ErrPlanRuns)
	}
	if err := j.SkipInterrupted(); err != nil {
		t.Fatal(err)
	}
	req := w.plan()
	req.Plan, req.Direct, req.Resume = j.Plan, j.Direct, j
	out, err := w.plans.Run(t.Context(), req)
	if err != nil || told(out) != "1:ok 2:skipped 3:ok" || out.ID != j.ID || !out.Success {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	if s := out.Steps[1]; s.Command != "echo crash; sleep 100" || s.Why == "" {
		t.Errorf("the step that was taken as done is told as %+v", s)
	}
	if data, _ := os.ReadFile(filepath.Join(w.work, "one")); string(data) != "x\n" {
		t.Errorf("the first step was run again: %q", data)
	}
	if list, _ := w.plans.Journals.Interrupted(); len(list) != 0 {
		t.Errorf("a plan that came to its end still has a journal: %+v", list)
	}
}

func TestAJournalThatWasCutIsReadToItsLastWholeLine(t *testing.T) {
	w := newPlanWorld(t)
	j := interrupted(t, w, "true", "echo crash; sleep 100")
	if err := j.Release(); err != nil {
		t.Fatal(err)
	}
	lines := filepath.Join(w.plans.Journals.Dir, j.ID, "steps.jsonl")
	f, err := os.OpenFile(lines, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"ended":{"id":"2"`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second reads what the first has mended and written on
		j, err := w.plans.Journals.Open(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Steps) == 0 || j.Steps[0].ID != "1" {
			t.Errorf("the journal says %+v", j.Steps)
		}
		if j.Interrupted == "2" {
			if err := j.SkipInterrupted(); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPlanInASandboxIsRunAgainFromItsBeginning(t *testing.T) {
	w := newPlanWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := w.plan("echo x >>f", "echo crash; sleep 100")
	req.Stdout = cancelOn{"crash", cancel}
	if _, err := w.plans.Run(ctx, req); !errors.Is(err, context.Canceled) {
		t.Fatalf("Run: err = %v, want it canceled", err)
	}
	// One that was canceled has no journal: whoever canceled it knows. A crash leaves it.
	if list, _ := w.plans.Journals.Interrupted(); len(list) != 0 {
		t.Errorf("a canceled plan has a journal: %+v", list)
	}
	j, err := w.plans.Journals.Create("abcdefghijklmnop", w.plan("echo x >f", "cat f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Release(); err != nil {
		t.Fatal(err)
	}
	if j, err = w.plans.Journals.Open("abc"); err != nil {
		t.Fatal(err)
	}
	req = w.plan()
	req.Plan, req.Resume = j.Plan, j
	out, err := w.plans.Run(t.Context(), req)
	if err != nil || told(out) != "1:ok 2:ok" || out.Set == nil || out.ID == j.ID {
		t.Errorf("Run = %+v, %v", out, err)
	}
	if list, _ := w.plans.Journals.Interrupted(); len(list) != 0 {
		t.Errorf("a plan that came to its end still has a journal: %+v", list)
	}
}

func TestWhatIsNotRecordedIsNotDone(t *testing.T) {
	for _, kind := range []string{"plan_start", "call", "verdict"} {
		t.Run(kind, func(t *testing.T) {
			w := newPlanWorld(t)
			w.rows.err, w.rows.fails = errTorn, kind
			req := w.plan("touch made")
			req.Direct = true
			if _, err := w.plans.Run(t.Context(), req); !errors.Is(err, errTorn) {
				t.Errorf("Run: err = %v, want %v", err, errTorn)
			}
			if _, err := os.Stat(filepath.Join(w.work, "made")); !errors.Is(err, os.ErrNotExist) {
				t.Error("the step was run")
			}
		})
	}
}

func TestArgumentsThatAreNoJSONAreRecordedAndAnswered(t *testing.T) {
	for name, args := range map[string]string{
		"an object that does not end": `{"path":`,
		"no text at all":              "\xff\xfe",
		"a word":                      "path",
	} {
		t.Run(name, func(t *testing.T) {
			w := newPlanWorld(t)
			q := &tool.Question{Call: tool.Call{Tool: "fs.read_file", Args: json.RawMessage(args)}}
			res, _, err := w.plans.Caller.Call(t.Context(), nil, q)
			if err != nil || res.OK || res.Code() != tool.ParseError && res.Code() != tool.InvalidArgs {
				t.Errorf("Call: %+v, err = %v", res, err)
			}
			if len(w.rows.kinds) != 2 {
				t.Errorf("the record has %q, want the call and its result", w.rows.kinds)
			}
		})
	}
}

func TestARefusedStepIsNotFinished(t *testing.T) {
	w := newPlanWorld(t)
	req := w.plan("true", "echo forbidden", "true")
	req.Direct = true
	if out, err := w.plans.Run(t.Context(), req); err != nil || !out.Refused() {
		t.Fatalf("Run = %+v, %v, want it refused", out, err)
	}
	list, err := w.plans.Journals.Interrupted()
	if err != nil || len(list) != 1 || list[0].Finished() != 1 {
		t.Errorf("Interrupted = %+v, %v, want one plan with one finished step", list, err)
	}
}

func TestJournalsThatNobodyWillMissAreRemoved(t *testing.T) {
	w := newPlanWorld(t)
	js := w.plans.Journals
	running, err := js.Create("aaaaaaaaaaaaaaaa", w.plan("true"))
	if err != nil {
		t.Fatal(err)
	}
	release(t, running)
	day := 24 * time.Hour
	make := func(id string, age time.Duration, text string) {
		t.Helper()
		dir := filepath.Join(js.Dir, id)
		if text == "" {
			text = fmt.Sprintf(`{"created":%q,"plan":{"kind":"answer_only"}}`, time.Now().Add(-age).Format(time.RFC3339Nano))
		}
		err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "plan.json"), []byte(text), 0o600),
			os.WriteFile(filepath.Join(dir, "steps.jsonl"), nil, 0o600), os.Chtimes(dir, time.Now().Add(-age), time.Now().Add(-age)))
		if err != nil {
			t.Fatal(err)
		}
	}
	make("baaaaaaaaaaaaaaa", 40*day, "")
	make("caaaaaaaaaaaaaaa", time.Minute, `{"torn`)
	make("daaaaaaaaaaaaaaa", 2*day, `{"torn`)
	for i := range 60 {
		make(fmt.Sprintf("eaaaaaaaaaaaaa%c%c", 'a'+i/10, 'a'+i%10), time.Duration(i)*time.Hour, "")
	}
	last, err := js.Create("faaaaaaaaaaaaaaa", w.plan("true"))
	if err != nil {
		t.Fatal(err)
	}
	release(t, last)
	for id, want := range map[string]bool{
		"aaaaaaaaaaaaaaaa": true, "baaaaaaaaaaaaaaa": false, "caaaaaaaaaaaaaaa": true, "daaaaaaaaaaaaaaa": false,
		"eaaaaaaaaaaaaaaa": true, "eaaaaaaaaaaaaaej": true, "eaaaaaaaaaaaaafa": false, "faaaaaaaaaaaaaaa": true,
	} {
		if _, err := os.Stat(filepath.Join(js.Dir, id)); (err == nil) != want {
			t.Errorf("the journal %s is there: %t, want %t", id, err == nil, want)
		}
	}
}

// release gives a journal back when the test ends.
func release(t *testing.T, j *executor.Journal) {
	t.Cleanup(func() {
		if err := j.Release(); err != nil {
			t.Error(err)
		}
	})
}
