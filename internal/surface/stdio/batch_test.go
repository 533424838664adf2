package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/surface/stdio"
)

// TestABatchRunsAsManyAsItMay and answers in the order of its calls, however they end.
func TestABatchRunsAsManyAsItMay(t *testing.T) {
	for _, jobs := range []int{0, 1, 3, 50} {
		t.Run(fmt.Sprint(jobs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at, most atomic.Int64
				var mu sync.Mutex
				s := &stdio.Server{Jobs: jobs, Call: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, bool) {
					mu.Lock()
					most.Store(max(most.Load(), at.Add(1)))
					mu.Unlock()
					var p struct{ N int }
					_ = json.Unmarshal(params, &p)
					time.Sleep(time.Duration(100-p.N) * time.Second) // later ones end first
					at.Add(-1)
					return params, true
				}}
				var in, want []string
				for i := range 40 {
					in = append(in, fmt.Sprintf(`{"tool":"a","params":{"n":%d}}`, i))
					want = append(want, fmt.Sprintf(`{"n":%d}`, i))
				}
				var out bytes.Buffer
				if _, err := s.Serve(t.Context(), strings.NewReader("["+strings.Join(in, ",")+"]"), &out); err != nil {
					t.Fatal(err)
				}
				if got := "[" + strings.Join(want, ",") + "]\n"; out.String() != got {
					t.Errorf("answers: %s, want %s", out.String(), got)
				}
				expected := map[int]int64{0: 8, 1: 1, 3: 3, 50: 40}[jobs]
				if most.Load() != expected {
					t.Errorf("%d calls ran at once, want %d", most.Load(), expected)
				}
			})
		})
	}
}

// TestABatchHoldsABoundedAmount: where its answers are large, the calls that have not begun
// are not made, and say so. Another line has all the room again.
func TestABatchHoldsABoundedAmount(t *testing.T) {
	var made atomic.Int64
	document := json.RawMessage(`"` + strings.Repeat("x", 1<<10) + `"`)
	s := &stdio.Server{Jobs: 4, MaxHeld: 8 << 10, Call: func(context.Context, string, json.RawMessage) (json.RawMessage, bool) {
		made.Add(1)
		return document, true
	}}
	batch := `[{"tool":"a"}` + strings.Repeat(`,{"tool":"a"}`, 29) + "]\n"
	var out writes
	failed, err := s.Serve(t.Context(), strings.NewReader(batch+batch), &out)
	if !failed || err != nil {
		t.Errorf("Serve: %t, %v", failed, err)
	}
	if n := made.Load(); n < 2*8 || n > 2*(8+4) {
		t.Errorf("%d calls were made", n)
	}
	if len(out) != 2 {
		t.Fatalf("%d writes, want one of each line", len(out))
	}
	for _, text := range out {
		var answers []any
		if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != 30 {
			t.Fatalf("%d answers, %v", len(answers), err)
		}
		if last := fmt.Sprint(answers[29]); !strings.Contains(last, "Not started: this batch's answers have more than 8192 bytes") {
			t.Errorf("the last answer is %s", last)
		}
	}
}

// writes are what was written, each by itself.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// TestReadingAheadIsBounded: lines are not read from an endless text before they are answered.
func TestReadingAheadIsBounded(t *testing.T) {
	for name, size := range map[string]int{"short lines": 0, "long lines": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				s, _ := waiter()
				c := begin(ctx, s)
				var lines, bytes atomic.Int64
				go func() {
					for {
						n, err := fmt.Fprintf(c.in, `{"tool":"wait","params":{"x":"%s"}}`+"\n", strings.Repeat("x", size))
						if err != nil {
							return
						}
						lines.Add(1)
						bytes.Add(int64(n))
					}
				}()
				synctest.Wait()
				// What was read lies in the queue, in one buffer and in the line that waits for room.
				if lines.Load() < 3 || lines.Load() > 64+64<<10/30 || bytes.Load() > 8<<20 {
					t.Errorf("%d lines and %d bytes were read ahead", lines.Load(), bytes.Load())
				}
				stop()
				go func() { _, _ = io.Copy(io.Discard, c.out) }()
				if err := <-c.end; !errors.Is(err, context.Canceled) {
					t.Errorf("Serve: err = %v, want %v", err, context.Canceled)
				}
				c.in.CloseWithError(io.ErrClosedPipe)
				c.out.Close()
				synctest.Wait()
			})
		})
	}
}
