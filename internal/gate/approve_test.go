package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/gate"
	"airlock/internal/tool"
)

// asks is a policy that asks about whatever is more than reading.
const asks = "version: 1\ndefaults: {read-only: allow, writes-inside: ask, network: ask, package: ask, service: ask, writes-outside: ask, unknown: ask, privileged: ask, destructive: ask}\n"

// An approverFunc is an approver that decides at once, or waits for ctx.
type approverFunc func(ctx context.Context, r *gate.Request) (gate.Answer, error)

func (f approverFunc) Approve(ctx context.Context, r *gate.Request) (gate.Answer, error) {
	return f(ctx, r)
}

func says(answer func(r *gate.Request) gate.Answer) gate.Approver {
	return approverFunc(func(_ context.Context, r *gate.Request) (gate.Answer, error) { return answer(r), nil })
}

func yes(r *gate.Request) gate.Answer { return r.Yes("test") }

// writeQuestion asks about a tool's write into the working folder.
func writeQuestion(content string) *tool.Question {
	args, _ := json.Marshal(map[string]string{"path": "notes", "content": content})
	return &tool.Question{
		Call:    tool.Call{Tool: "fs.write_file", Action: "write", Args: args},
		Action:  &tool.Action{Name: "write", Risk: tool.RiskWritesInside, Paths: []string{"path"}},
		WorkDir: "/nowhere/project", Env: map[string]string{"HOME": "/nowhere"},
	}
}

func asking(t *testing.T, opts gate.Options) *gate.Gate {
	t.Helper()
	opts.Builtin, opts.NoProject, opts.HostIdentity = []byte(asks), true, "you@box:0123"
	g, err := gate.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAnswers(t *testing.T) {
	var earlier gate.Answer
	for _, tt := range []struct {
		name     string
		approver gate.Approver
		admitted bool
		by       string
	}{
		{"yes to this question lets it pass", says(yes), true, "test"},
		{"no does not", says(func(r *gate.Request) gate.Answer { return r.No("test", "not now") }), false, "test"},
		{"the zero answer is no", says(func(*gate.Request) gate.Answer { return gate.Answer{} }), false, ""},
		{"approved, of nothing, is no", says(func(*gate.Request) gate.Answer { return gate.Answer{Approved: true, By: "x"} }), false, "failure"},
		{"yes with another digest is no", says(func(r *gate.Request) gate.Answer {
			a := r.Yes("x")
			a.Digest = "sha256:00"
			return a
		}), false, "failure"},
		{"yes to another question is no", says(func(r *gate.Request) gate.Answer {
			a := r.Yes("x")
			a.ID = "another"
			return a
		}), false, "failure"},
		{"an approver that changes the request changes nothing", says(func(r *gate.Request) gate.Answer {
			r.ID, r.Digest, r.Expires = "a", "b", r.Expires.Add(time.Hour)
			return r.Yes("x")
		}), false, "failure"},
		{"yes together with an error is no", approverFunc(func(_ context.Context, r *gate.Request) (gate.Answer, error) {
			return r.Yes("x"), errors.New("torn")
		}), false, "failure"},
		{"nobody to ask is no", approverFunc(func(context.Context, *gate.Request) (gate.Answer, error) { return gate.Answer{}, gate.ErrNobody }), false, "nobody"},
		{"an answer is kept for the next test", says(func(r *gate.Request) gate.Answer { earlier = r.Yes("x"); return earlier }), true, "x"},
		{"an earlier answer to the same call is no", says(func(*gate.Request) gate.Answer { return earlier }), false, "failure"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := writeQuestion("x")
			var told []tool.Approval
			q.Asked = func(a tool.Approval) { told = append(told, a) }
			j, err := asking(t, gate.Options{Approver: tt.approver}).Admit(context.Background(), q)
			var refused *tool.RefusedError
			if tt.admitted != (err == nil) || err != nil && !errors.As(err, &refused) {
				t.Fatalf("Admit: err = %v, want admitted %t", err, tt.admitted)
			}
			a := j.Approval
			if a == nil || a.Approved == nil || *a.Approved != tt.admitted || a.By != tt.by || j.Verdict != tool.Ask {
				t.Fatalf("Admit: %s with %+v, want approved %t by %q", j.Verdict, a, tt.admitted, tt.by)
			}
			if len(told) != 2 || told[0].Approved != nil || told[1].Approved == nil || told[0].ID != told[1].ID || told[0].Digest != a.Digest {
				t.Errorf("Asked was told %+v, want a question and its answer", told)
			}
		})
	}
}

func TestWithoutAnApproverAskIsRefused(t *testing.T) {
	w := newWorld(t)
	g := asking(t, gate.Options{User: w.opts.User})
	q := writeQuestion("x")
	q.Asked = func(tool.Approval) { t.Error("somebody was asked") }
	j, err := g.Admit(context.Background(), q)
	var refused *tool.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("Admit: err = %v, want a RefusedError", err)
	}
	for _, part := range []string{"terminal", "verdict: allow", "fs.write_file", w.opts.User} {
		if !strings.Contains(refused.Mend, part) {
			t.Errorf("the mend is %q, want %q in it", refused.Mend, part)
		}
	}
	if j.Verdict != tool.Ask || j.Approval != nil {
		t.Errorf("Admit: %s, approval %v, want ask and none", j.Verdict, j.Approval)
	}
}

func TestAnApprovalExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := approverFunc(func(ctx context.Context, _ *gate.Request) (gate.Answer, error) {
			<-ctx.Done()
			return gate.Answer{}, ctx.Err()
		})
		began := time.Now()
		j, err := asking(t, gate.Options{Approver: waits}).Admit(t.Context(), writeQuestion("x"))
		if err == nil || j.Approval.By != "expiry" || *j.Approval.Approved || time.Since(began) != gate.DefaultExpiry {
			t.Errorf("Admit: err = %v, %+v after %v, want an expiry after %v", err, j.Approval, time.Since(began), gate.DefaultExpiry)
		}
		late := approverFunc(func(_ context.Context, r *gate.Request) (gate.Answer, error) {
			time.Sleep(2 * time.Minute) // it does not look at ctx
			return r.Yes("late"), nil
		})
		if j, err := asking(t, gate.Options{Approver: late, Expiry: time.Minute}).Admit(t.Context(), writeQuestion("x")); err == nil {
			t.Errorf("Admit: an answer after the expiry was taken: %+v", j.Approval)
		}
		began = time.Now()
		set := func() time.Duration { return 90 * time.Second }
		if _, err := asking(t, gate.Options{Approver: waits, Setting: set}).Admit(t.Context(), writeQuestion("x")); err == nil || time.Since(began) != set() {
			t.Errorf("Admit: err = %v after %v, want an expiry after what is set, %v", err, time.Since(began), set())
		}
	})
}

func TestCancelledQuestions(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := asking(t, gate.Options{Approver: approverFunc(func(ctx context.Context, r *gate.Request) (gate.Answer, error) {
		cancel()
		<-ctx.Done()
		return gate.Answer{}, ctx.Err()
	})})
	if _, err := g.Admit(ctx, writeQuestion("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Admit: err = %v, want %v", err, context.Canceled)
	}
	if _, err := g.Admit(ctx, writeQuestion("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Admit after the end: err = %v, want %v", err, context.Canceled)
	}
}

// TestWhatIsApprovedIsWhatIsRun: a call that is changed while a person looks at it, or
// that a policy forbids meanwhile, does not pass.
func TestWhatIsApprovedIsWhatIsRun(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name   string
		change func(q *tool.Question)
		passes bool
	}{
		{"nothing changed", func(*tool.Question) {}, true},
		{"other arguments", func(q *tool.Question) { q.Call.Args = json.RawMessage(`{"path":"/etc/passwd"}`) }, false},
		{"the same bytes written over", func(q *tool.Question) { q.Call.Args[len(q.Call.Args)-3] ^= 1 }, false},
		{"another tool", func(q *tool.Question) { q.Call.Tool = "fs.delete" }, false},
		{"another action", func(q *tool.Question) { q.Call.Action = "append" }, false},
		{"another place", func(q *tool.Question) { q.Where = tool.InSandbox }, false},
		{"another folder", func(q *tool.Question) { q.WorkDir = "/" }, false},
		{"another environment", func(q *tool.Question) { q.Env["LD_PRELOAD"] = "/tmp/x.so" }, false},
		{"a policy that denies", func(*tool.Question) { w.user("rules: [{name: never, tool: fs.write_file}]\n") }, false},
		{"a policy that breaks", func(*tool.Question) { w.user("rules: what\n") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.user("")
			q := writeQuestion("x")
			g := asking(t, gate.Options{User: w.opts.User, Approver: says(func(r *gate.Request) gate.Answer {
				tt.change(q)
				return r.Yes("test")
			})})
			j, err := g.Admit(context.Background(), q)
			if tt.passes != (err == nil) || *j.Approval.Approved != tt.passes {
				t.Errorf("Admit: err = %v, %+v, want it to pass: %t", err, j.Approval, tt.passes)
			}
		})
	}
}

// TestDigests: no two calls that differ have one digest, wherever a border between parts lies.
func TestDigests(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(q *tool.Question) string{
		"as it is":      func(*tool.Question) string { return "a@b:c" },
		"another host":  func(*tool.Question) string { return "a@b:d" },
		"a space":       func(q *tool.Question) string { q.Call.Args = append(q.Call.Args, ' '); return "a@b:c" },
		"a border left": func(q *tool.Question) string { q.Call.Tool, q.Call.Action = "fs.write_filew", "rite"; return "a@b:c" },
		"a sandbox":     func(q *tool.Question) string { q.Where = tool.InSandbox; return "a@b:c" },
		"a folder":      func(q *tool.Question) string { q.WorkDir += "/"; return "a@b:c" },
		"a variable":    func(q *tool.Question) string { q.Env = map[string]string{"HOME": "/nowhere", "A": "B"}; return "a@b:c" },
		"joined ones":   func(q *tool.Question) string { q.Env = map[string]string{"HOME": "/nowhereAB"}; return "a@b:c" },
		"another step":  func(q *tool.Question) string { q.Step = "2"; return "a@b:c" },
	} {
		q := writeQuestion("x")
		identity := change(q)
		d := gate.Digest(q, identity)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[d] = name
		if !strings.HasPrefix(d, "sha256:") || len(d) != 7+64 {
			t.Errorf("the digest is %q", d)
		}
	}
}

func TestWhatCannotBeShownWholeCannotBeApproved(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		shown         bool
	}{
		{"what is short", "x", true},
		{"much", strings.Repeat("x", gate.MaxText), false},
		{"what becomes much when it is shown", strings.Repeat("\x01", gate.MaxText/5), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown := false
			g := asking(t, gate.Options{Approver: says(func(r *gate.Request) gate.Answer {
				shown = true
				if !strings.Contains(r.Text, "notes") || strings.ContainsAny(r.Text, "\x1b\x01") {
					t.Errorf("the text is %q", r.Text)
				}
				return r.Yes("test")
			})})
			j, err := g.Admit(context.Background(), writeQuestion(tt.content))
			if shown != tt.shown || (err == nil) != tt.shown {
				t.Errorf("shown %t, err = %v, want %t", shown, err, tt.shown)
			}
			if !tt.shown && (j.Verdict != tool.Deny || !strings.Contains(j.Why, "too long")) {
				t.Errorf("Admit: %s, %s, want deny: too long", j.Verdict, j.Why)
			}
		})
	}
}

// TestRacingApprovals: questions that are open at once get their own answers, and each is
// answered once, however many try.
func TestRacingApprovals(t *testing.T) {
	broker := &gate.Broker{}
	g := asking(t, gate.Options{Approver: broker})
	const questions, rivals = 20, 4
	type outcome struct {
		content string
		j       tool.Judgement
		err     error
	}
	outcomes := make(chan outcome, questions)
	for i := range questions {
		content := "no"
		if i%2 == 0 {
			content = "yes"
		}
		go func() {
			j, err := g.Admit(t.Context(), writeQuestion(content))
			outcomes <- outcome{content, j, err}
		}()
	}
	var mu sync.Mutex
	taken := map[string]int{}
	stop := make(chan struct{})
	var answering sync.WaitGroup
	for range rivals {
		answering.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, r := range broker.Pending() {
					err := broker.Resolve(r.ID, r.Digest, strings.Contains(r.Text, `"yes"`), "rival", "")
					if err == nil {
						mu.Lock()
						taken[r.ID]++
						mu.Unlock()
					} else if !errors.Is(err, gate.ErrNoRequest) {
						t.Errorf("Resolve: err = %v", err)
					}
				}
			}
		})
	}
	for range questions {
		o := <-outcomes
		if (o.err == nil) != (o.content == "yes") {
			t.Errorf("%s: err = %v", o.content, o.err)
		}
	}
	close(stop)
	answering.Wait()
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%s was answered %d times", id, n)
		}
	}
	if len(taken) != questions || len(broker.Pending()) != 0 {
		t.Errorf("%d answered, %d open, want %d and none", len(taken), len(broker.Pending()), questions)
	}
}

func TestBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := &gate.Broker{}
		g := asking(t, gate.Options{Approver: broker, Expiry: time.Minute})
		done := make(chan error, 1)
		ask := func() gate.Request {
			go func() {
				_, err := g.Admit(t.Context(), writeQuestion("x"))
				done <- err
			}()
			synctest.Wait()
			open := broker.Pending()
			if len(open) != 1 {
				t.Fatalf("%d questions are open, want 1", len(open))
			}
			return open[0]
		}
		r := ask()
		if err := broker.Resolve("other", r.Digest, true, "x", ""); !errors.Is(err, gate.ErrNoRequest) {
			t.Errorf("Resolve of another ID: err = %v, want %v", err, gate.ErrNoRequest)
		}
		if err := broker.Resolve(r.ID, "", true, "x", ""); !errors.Is(err, gate.ErrDigest) {
			t.Errorf("Resolve of another digest: err = %v, want %v", err, gate.ErrDigest)
		}
		if err := broker.Resolve(r.ID, r.Digest, true, "x", ""); err != nil {
			t.Errorf("Resolve: err = %v", err)
		}
		if err := broker.Resolve(r.ID, r.Digest, true, "x", ""); !errors.Is(err, gate.ErrNoRequest) {
			t.Errorf("Resolve twice: err = %v, want %v", err, gate.ErrNoRequest)
		}
		if err := <-done; err != nil {
			t.Errorf("Admit: err = %v", err)
		}
		r = ask()
		time.Sleep(time.Minute) // the fake clock's
		synctest.Wait()
		if err := broker.Resolve(r.ID, r.Digest, true, "x", ""); !errors.Is(err, gate.ErrNoRequest) {
			t.Errorf("Resolve after the expiry: err = %v, want %v", err, gate.ErrNoRequest)
		}
		if err := <-done; err == nil {
			t.Error("Admit: an expired question passed")
		}
		if n := len(broker.Pending()); n != 0 {
			t.Errorf("%d questions are open, want none", n)
		}
	})
}

func TestABrokerHoldsSoManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := &gate.Broker{}
		g := asking(t, gate.Options{Approver: broker, Expiry: time.Minute})
		refused := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 120 {
			all.Go(func() {
				if j, err := g.Admit(t.Context(), writeQuestion("x")); err != nil && strings.Contains(j.Why, "too many") {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		if n := len(broker.Pending()); n != 100 {
			t.Errorf("%d questions are open, want 100", n)
		}
		all.Wait()
		if refused != 20 {
			t.Errorf("%d were refused, want 20", refused)
		}
	})
}

func TestFirst(t *testing.T) {
	nobody := approverFunc(func(context.Context, *gate.Request) (gate.Answer, error) { return gate.Answer{}, gate.ErrNobody })
	torn := approverFunc(func(context.Context, *gate.Request) (gate.Answer, error) { return gate.Answer{}, errors.New("torn") })
	for _, tt := range []struct {
		name      string
		approvers func(waits gate.Approver) []gate.Approver
		approved  bool
		err       error
		waited    int
	}{
		{"nobody at all", func(gate.Approver) []gate.Approver { return nil }, false, gate.ErrNobody, 0},
		{"nobody among several", func(gate.Approver) []gate.Approver { return []gate.Approver{nobody, nobody} }, false, gate.ErrNobody, 0},
		{"the one who answers wins over those who wait", func(w gate.Approver) []gate.Approver { return []gate.Approver{w, says(yes), w} }, true, nil, 2},
		{"a no wins as well", func(w gate.Approver) []gate.Approver {
			return []gate.Approver{w, says(func(r *gate.Request) gate.Answer { return r.No("x", "") })}
		}, false, nil, 1},
		{"a failure leaves it to the others", func(gate.Approver) []gate.Approver { return []gate.Approver{torn, nobody, says(yes)} }, true, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			ended := 0
			waits := approverFunc(func(ctx context.Context, _ *gate.Request) (gate.Answer, error) {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				ended++
				return gate.Answer{}, ctx.Err()
			})
			a, err := gate.First(tt.approvers(waits)...).Approve(t.Context(), &gate.Request{ID: "1", Digest: "d"})
			if a.Approved != tt.approved || !errors.Is(err, tt.err) {
				t.Errorf("Approve = %+v, %v, want %t, %v", a, err, tt.approved, tt.err)
			}
			if ended != tt.waited { // First returns when all have ended
				t.Errorf("%d of those who wait have ended, want %d", ended, tt.waited)
			}
		})
	}
}
