package lines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"airlock/internal/event"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge/lines"
)

// notSoon is longer than any end in these tests takes, and shorter than what it would take if
// nobody ended it.
const notSoon = 2 * time.Minute

func TestTooMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ name, script string }{
		{"endless lines", `yes`},
		{"a line without end", `yes | tr -d '\n'`},
		{"an object without end", `printf '{"type":"result","result":"'; yes | tr -d '\n'`},
		{"lines that could be messages", `yes '{"type":"other"}'`},
		{"zeros", `cat /dev/zero`},
		{"one byte more, without an end of the line", `head -c 100001 /dev/zero`},
		{"an endless 1.0 agent", `echo '{"type":"hello","protocol":"1.0"}'; yes '{"type":"result","result":1}'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := w.sh(t, c.script, setting{most: 100_000})
			if !got.TooMuch || got.TimedOut || len(got.Stdout) != 100_000 || got.final != "" {
				t.Errorf("Do: too much %v, timed out %v, %d bytes of stdout, final %q; want 100000 that are too much", got.TooMuch, got.TimedOut, len(got.Stdout), got.final)
			}
		})
	}
	t.Run("just as much as may come, and messages beside it", func(t *testing.T) {
		t.Parallel()
		got := w.sh(t, `yes '{"type":"progress","message":"x"}' | head -n 5000; head -c 100000 /dev/zero; echo; yes '{"type":"partial","data":1}' | head -n 5000`, setting{most: 100_001})
		got.wantOut(t, 0, strings.Repeat("\x00", 100_000)+"\n", "")
	})
	t.Run("endless noise behind a result is passed over", func(t *testing.T) {
		t.Parallel()
		got := w.sh(t, `echo '{"type":"result","result":1}'; head -c 50000000 /dev/zero`, setting{most: 1000})
		got.wantOut(t, 0, "", "1")
	})
}

func TestLongMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 1<<20)
	t.Run("one that is too long is refused by its id", func(t *testing.T) {
		agent := w.write(t, "line", `{"type":"call","tool":"x","args":{"a":"`+long+`"},"id":"last"}`+"\n")
		w.sh(t, `read -r p; cat '`+agent+`'; read -r l; printf '%s\n' "$l"`, setting{most: 2 << 20}).
			wantOut(t, 0, `{"type":"error","id":"last","error":"call: it has 1048631 bytes, more than 1048576: what is long is printed, not said"}`+"\n", "")
	})
	t.Run("a result that is too long is no silent success", func(t *testing.T) {
		agent := w.write(t, "line", `{"type":"result","result":"`+long+`"}`+"\n")
		got := w.sh(t, `cat '`+agent+`'`, setting{most: 2 << 20})
		if got.err == nil {
			t.Fatalf("Do: no error, stdout of %d bytes", len(got.Stdout))
		}
		wantIn(t, "Do: error", got.err.Error(), "its answer is not right", "more than 1048576", "printed")
	})
	t.Run("a long line that is none is the answer", func(t *testing.T) {
		agent := w.write(t, "line", `{"status":"success","result":"`+long+`"}`)
		w.sh(t, `cat '`+agent+`'`, setting{most: 2 << 20}).wantOut(t, 0, `{"status":"success","result":"`+long+`"}`, "")
	})
	t.Run("a message may be longer than the output", func(t *testing.T) {
		agent := w.write(t, "line", `{"type":"result","result":"`+long[:1<<19]+`"}`)
		w.sh(t, `cat '`+agent+`'`, setting{most: 10}).wantOut(t, 0, "", `"`+long[:1<<19]+`"`)
	})
	t.Run("JSON of any depth ends nothing", func(t *testing.T) {
		deep := strings.Repeat(`[`, 400_000) + strings.Repeat(`]`, 400_000)
		agent := w.write(t, "line", `{"type":"partial","data":`+deep+`}`+"\n"+`{"type":"result","result":1}`)
		got := w.sh(t, `cat '`+agent+`'`, setting{most: 2 << 20})
		if got.final != "1" || got.err != nil {
			t.Errorf("Do: final %q, error %v; want 1", got.final, got.err)
		}
	})
}

// An agent that does not read what it is told holds nothing up.
func TestAnAgentThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	huge := strings.Repeat("x", 1<<20)
	t.Run("its parameters", func(t *testing.T) {
		w.sh(t, `exit 0`, setting{args: `{"a":"` + huge + `"}`}).wantOut(t, 0, "", "")
	})
	t.Run("its parameters, and says that it speaks 1.0", func(t *testing.T) {
		w.sh(t, `echo '{"type":"hello","protocol":"1.0"}'; echo 1`, setting{args: `{"a":"` + huge + `"}`}).wantOut(t, 0, "1\n", "")
	})
	t.Run("its parameters, until it has said a lot", func(t *testing.T) {
		got := w.sh(t, `yes '{"type":"call","id":1}' | head -n 9000; read -r p; printf '%s' "$p" | tail -c 9; exit 3`, setting{args: `{"a":"` + huge[:1<<17] + `"}`})
		got.wantOut(t, 3, `"cancel"]}}`[2:], "")
	})
	t.Run("its answers: no more calls are made than may be open", func(t *testing.T) {
		done := filepath.Join(w.dir, "sixteen")
		var calls atomic.Int64
		b := &back{call: func(context.Context, tool.Call) tool.Result {
			if calls.Add(1) == 16 {
				if err := os.WriteFile(done, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			return tool.Result{OK: true, Stdout: huge}
		}}
		got := w.sh(t, `i=0; while [ $i -lt 16 ]; do i=$((i+1)); echo '{"type":"call","id":'$i',"tool":"x"}'; done
			until [ -e '`+done+`' ]; do sleep 0.01; done
			while [ $i -lt 40 ]; do i=$((i+1)); echo '{"type":"call","id":'$i',"tool":"x"}'; done`, setting{back: b})
		got.wantOut(t, 0, "", "")
		if n := calls.Load(); n > 17 { // one answer is on its way
			t.Errorf("%d calls were made, want 17 at most", n)
		}
	})
	t.Run("and has closed its stdin: nothing more is begun", func(t *testing.T) {
		heard := filepath.Join(w.dir, "heard")
		var calls atomic.Int64
		b := &back{call: func(context.Context, tool.Call) tool.Result {
			calls.Add(1)
			return tool.Result{OK: true}
		}, tell: func(event.Event) {
			if err := os.WriteFile(heard, nil, 0o600); err != nil {
				t.Error(err)
			}
		}}
		w.sh(t, `exec <&-; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo '{"type":"call","id":'$i',"tool":"x"}'; done
			echo '{"type":"partial","data":1}'; until [ -e '`+heard+`' ]; do sleep 0.01; done`, setting{back: b}).wantOut(t, 0, "", "")
		if n := calls.Load(); n < 1 || n > 17 {
			t.Errorf("%d calls were made, want one, and 17 at most", n)
		}
	})
}

func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var together sync.WaitGroup // most of them only wait, for longer than tests that take turns should
	defer together.Wait()
	// With one that says on its stderr that it is up, the time is over then: what it has printed
	// before is there, however long it took. The others have to do nothing before their time is
	// over, and those that are to do something after it have long for that.
	for _, c := range []struct {
		name, script string
		timedOut     bool
		silent       bool
		stdout       string
		final        string
	}{
		{"it answers in the grace", `read -r p; read -r l; printf '%s\n' "$l"`, false, false, `{"type":"cancel","reason":"timeout"}` + "\n", ""},
		{"it gives its result in the grace", `read -r p; read -r l; echo '{"type":"result","result":1}'`, false, false, "", "1"},
		{"it ends in the grace, but not well", `read -r p; read -r l; echo '{"type":"result","result":1}'; exit 1`, true, false, "", ""},
		{"it ignores it", `trap '' TERM INT HUP; echo here; echo up >&2; while :; do sleep 1; done`, true, false, "here\n", ""},
		{"it has given its result, and does not end", `echo '{"type":"result","result":1}'; echo up >&2; exec sleep 600`, true, false, "", ""},
		{"it reads all of stdin", `read -r p; echo "$p"; echo up >&2; exec cat`, true, false, "", ""},
		{"it reads all of stdin, and says nothing", `cat >/dev/null; echo never`, true, true, "", ""},
		{"it has stopped itself", `echo here; echo up >&2; kill -STOP $$`, true, false, "here\n", ""},
		{"it was a 1.0 agent", `echo '{"type":"hello","protocol":"1.0"}'; echo here; echo up >&2; exec sleep 600`, true, false, "here\n", ""},
	} {
		together.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				begun := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				set := setting{limit: 300 * time.Millisecond}
				switch {
				case strings.Contains(c.script, "up >&2"):
					set.limit, set.errs = 0, watcher(cancel)
				case strings.Contains(c.name, "in the grace"):
					set.grace = notSoon
				}
				got := w.run(deadlined{ctx}, t, set, "/bin/sh", w.write(t, "agent.sh", c.script))
				if got.TimedOut != c.timedOut || got.Canceled || got.Err != nil || got.final != c.final {
					t.Errorf("Do: %+v, final %q; want timed out %v, final %q", got.Outcome, got.final, c.timedOut, c.final)
				}
				if errors.Is(got.err, lines.ErrSilent) != c.silent || got.err != nil && !c.silent {
					t.Errorf("Do: error %v, want ErrSilent: %v", got.err, c.silent)
				}
				if c.name != "it reads all of stdin" && string(got.Stdout) != c.stdout {
					t.Errorf("Do: stdout = %q, want %q", got.Stdout, c.stdout)
				}
				if took := time.Since(begun); took > notSoon {
					t.Errorf("Do took %v", took)
				}
			})
		})
	}
}

func TestWhatIsOpenEndsWithTheTime(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context()) // once both are open
	defer cancel()
	var open atomic.Int64
	opened := func() {
		if open.Add(1) == 2 {
			cancel()
		}
	}
	b := &back{
		call: func(ctx context.Context, _ tool.Call) tool.Result {
			opened()
			<-ctx.Done()
			return tool.Fail(tool.IOError, "ended")
		},
		ask: func(ctx context.Context, _ *tool.Prompt) (string, error) {
			opened()
			<-ctx.Done()
			return "", ctx.Err()
		},
	}
	w := newWorld(t)
	got := w.run(deadlined{over}, t, setting{back: b, grace: notSoon}, "/bin/sh", w.write(t, "agent.sh", `read -r p
		echo '{"type":"call","id":1,"tool":"x"}'; echo '{"type":"ask","id":2,"question":"x"}'
		read -r a; read -r b; read -r c; printf '.%s\n' "$a" "$b" "$c" | sort
		echo '{"type":"call","id":3,"tool":"x"}'; read -r d; printf '.%s\n' "$d"`))
	got.wantOut(t, 0, `.{"type":"answer","id":2,"error":"the question was canceled"}
.{"type":"cancel","reason":"timeout"}
.{"type":"result","id":1,"ok":false,"stdout":"","stderr":"ended","meta":{"error_code":"IO_ERROR"}}
.{"type":"error","id":3,"error":"call: the time is over: nothing more is begun"}
`, "")
}

// Who called goes away, once the agent has shown that it is there.
func TestCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var together sync.WaitGroup // most of them only wait, for longer than tests that take turns should
	defer together.Wait()
	for _, c := range []struct{ name, script, stdout string }{
		{"it is told why", `read -r p; echo '{"type":"progress"}'; read -r l; printf '%s\n' "$l"; echo '{"type":"result","result":1}'`, `{"type":"cancel","reason":"canceled"}` + "\n"},
		{"it ignores it", `trap '' TERM INT HUP; echo '{"type":"progress"}'; while :; do sleep 1; done`, ""},
		{"it is flooded with answers that it does not read", `yes '{"type":"call","id":"x","tool":"x"}' | head -n 5000; echo '{"type":"progress"}'; exec sleep 600`, ""},
		{"it waits for a call", `echo '{"type":"call","id":1,"tool":"x"}'; echo '{"type":"progress"}'; exec sleep 600`, ""},
		{"it was a 1.0 agent", `echo '{"type":"progress"}'; echo '{"type":"hello","protocol":"1.0"}'; exec sleep 600`, ""},
	} {
		together.Go(func() {
			t.Run(c.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := &back{tell: func(event.Event) { cancel() }}
				begun := time.Now()
				set := setting{back: b}
				if c.stdout != "" {
					set.grace = notSoon
				}
				got := w.run(ctx, t, set, "/bin/sh", w.write(t, "agent.sh", c.script))
				if !got.Canceled || got.TimedOut || got.err != nil || got.final != "" || string(got.Stdout) != c.stdout {
					t.Errorf("Do: %+v, stdout %q, final %q, error %v; want canceled, stdout %q", got.Outcome, got.Stdout, got.final, got.err, c.stdout)
				}
				if took := time.Since(begun); took > notSoon {
					t.Errorf("Do took %v", took)
				}
			})
		})
	}
	t.Run("it was a 1.0 agent, which is ended at once", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var canceled time.Time
		watch := watcher(func() { canceled = time.Now(); cancel() })
		r := w.process(setting{grace: 2 * notSoon}, "/bin/sh", "-c", `echo '{"type":"hello","protocol":"1.0"}'; read -r p; read -r p || echo x >&2; exec sleep 600`)
		r.Stderr = watch
		out, _, err := lines.Do(ctx, r, &lines.Session{Tool: "probe"})
		if took := time.Since(canceled); !out.Canceled || err != nil || took >= notSoon {
			t.Errorf("Do: %+v after %v, error %v; want it canceled before its grace", out, took, err)
		}
	})
	t.Run("before it began", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := w.run(ctx, t, setting{}, "/bin/sh", "-c", "echo here"); !got.Canceled && got.Err == nil {
			t.Errorf("Do: %+v, want it canceled", got.Outcome)
		}
	})
}

func TestProgressIsPaced(t *testing.T) {
	t.Parallel()
	b := &back{}
	begun := time.Now()
	newWorld(t).sh(t, `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo '{"type":"progress","done":'$i'}'; done`, setting{back: b}).wantOut(t, 0, "", "")
	most := int(time.Since(begun)/(50*time.Millisecond)) + 2
	if n := len(b.events); n > most {
		t.Errorf("%d events of progress in %v, want at most %d", n, time.Since(begun), most)
	}
	if last := b.events[len(b.events)-1].(event.Progress).Done; last != 20_000 {
		t.Errorf("the last one shown is %v, want 20000", last)
	}
}

// Nothing goes on when Do returns, whatever the agent did.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t)
	w.sh(t, `exit 0`, setting{}) // what the connection has for good is there
	b := &back{call: func(ctx context.Context, _ tool.Call) tool.Result {
		<-ctx.Done()
		return tool.Result{Stdout: strings.Repeat("x", 1<<20)}
	}}
	for i, script := range []string{
		`echo '{"type":"call","id":1,"tool":"x"}'; exit 1`,
		`echo '{"type":"progress"}'; echo '{"type":"progress"}'; echo '{"type":"result","result":1}'`,
		`echo '{"type":"hello","protocol":"3"}'; sleep 600`,
		`echo '{"type":"call","id":1,"tool":"x"}'; exec sleep 600`,
	} {
		before := goleak.IgnoreCurrent()
		w.sh(t, script, setting{back: b, limit: 500 * time.Millisecond, args: `{"a":"` + strings.Repeat("x", 1<<18) + `"}`})
		// The connection may still read answers that nobody waits for: that is its own.
		own := goleak.IgnoreAnyFunction("airlock/internal/rpc.(*Client).oweLocked.func1")
		err := goleak.Find(before, own)
		for until := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(until); {
			err = goleak.Find(before, own)
		}
		if err != nil {
			t.Errorf("script %d: %v", i, err)
		}
	}
}

func TestAgentThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.run(t.Context(), t, setting{}, filepath.Join(w.dir, "none"))
	if got.Result.NotStarted != "not_found" || got.err != nil || got.final != "" {
		t.Errorf("Do: %+v, error %v; want not_found", got.Outcome, got.err)
	}
	w.client.Close()
	if got = w.run(t.Context(), t, setting{}, "/bin/true"); got.Err == nil {
		t.Errorf("Do on a closed connection: %+v, want an error", got.Outcome)
	}
}

// Bytes that come one by one, and messages across what the connection carries at once.
func TestPieces(t *testing.T) {
	t.Parallel()
	b := &back{}
	var script bytes.Buffer
	for _, r := range `{"type":"partial","data":"pieces"}` + "\n" {
		fmt.Fprintf(&script, "printf '\\%03o'\n", r)
	}
	newWorld(t).sh(t, script.String(), setting{back: b}).wantOut(t, 0, "", "")
	if len(b.events) != 1 || string(b.events[0].(event.Partial).Data) != `"pieces"` {
		t.Errorf("events %v, want one part", b.events)
	}
}

func TestProgressComesBeforeWhatFollowsIt(t *testing.T) {
	t.Parallel()
	b := &back{}
	newWorld(t).sh(t, `for i in 1 2 3; do echo '{"type":"progress","done":'$i'}'; echo '{"type":"partial","data":'$i'}'; done`, setting{back: b}).wantOut(t, 0, "", "")
	var order []string
	for _, e := range b.events {
		switch e := e.(type) {
		case event.Progress:
			order = append(order, fmt.Sprintf("progress %g", e.Done))
		case event.Partial:
			order = append(order, "partial "+string(e.Data))
		}
	}
	want := []string{"progress 1", "partial 1", "progress 2", "partial 2", "progress 3", "partial 3"}
	if !slices.Equal(order, want) {
		t.Errorf("%v were shown, want %v", order, want)
	}
}
