package executor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
)

func TestRunGathersWhatChanged(t *testing.T) {
	w := newWorld(t)
	var out, errOut bytes.Buffer
	req := w.request("cat; echo err >&2; exit 3")
	req.Stdin, req.Stdout, req.Stderr = strings.NewReader("in"), &out, &errOut
	var steps []string
	req.Notes = func(s string) { steps = append(steps, s) }
	req.Finished = func() {
		if w.driver.boxes[0].readUpper {
			t.Error("the upper layer was read before the command's end was told")
		}
		steps = append(steps, "finished after "+out.String())
	}
	got, err := w.runner.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got.Result.ExitCode != 3 || !got.Started || out.String() != "in" || errOut.String() != "err\n" {
		t.Errorf("Run = %+v, stdout %q, stderr %q", got, out.String(), errOut.String())
	}
	if s := strings.Join(steps, ", "); s != "a note, finished after in" {
		t.Errorf("steps = %q", s)
	}
	if s := got.Set; s == nil || s.Work != 1 || s.State != changes.Kept || s.ID != got.ID || s.ExitCode != 3 || s.Changes[len(s.Changes)-1].Path != changes.Path(filepath.Join(w.work, "made")) {
		t.Errorf("Set = %+v", got.Set)
	}
}

func TestRunThatFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		line    string
		prepare func(w *world, req *executor.Request)
		err     error // nil: an outcome
		check   func(o *executor.Outcome) bool
		kept    int
	}{
		{"a driver that cannot start is the error", "true", func(w *world, _ *executor.Request) {
			w.driver.starting = func(context.Context) error { return errTorn }
		}, errTorn, nil, 0},
		{"half an upper layer is kept as nothing", "true", func(w *world, _ *executor.Request) {
			w.driver.upper = w.driver.upper[:len(w.driver.upper)/2]
		}, changes.ErrMalformed, nil, 0},
		{"nor is a whole one whose reading failed at the end", "true", func(w *world, _ *executor.Request) {
			w.driver.upperErr = errTorn
		}, errTorn, nil, 0},
		{"a sandbox that runs out of memory leaves nothing", "sleep 100", func(w *world, req *executor.Request) {
			req.Notes = func(string) { w.driver.boxes[0].end(sandbox.ErrOutOfMemory) }
		}, nil, func(o *executor.Outcome) bool { return errors.Is(o.Ended, sandbox.ErrOutOfMemory) && o.Set == nil }, 0},
		{"so does one whose command the system has taken first", "kill -9 $$", func(w *world, req *executor.Request) {
			req.Limits.Memory = 1
			req.Finished = func() { w.driver.boxes[0].end(sandbox.ErrOutOfMemory) }
		}, nil, func(o *executor.Outcome) bool { return errors.Is(o.Ended, sandbox.ErrOutOfMemory) && o.Set == nil }, 0},
		{"a working folder that is gone", "true", func(_ *world, req *executor.Request) {
			req.WorkDir += "/none"
		}, syscall.ENOENT, nil, 0},
		{"a broken output ends the command, and its changes are kept", "while :; do echo x; done", func(_ *world, req *executor.Request) {
			req.Stdout = brokenPipe{}
		}, nil, func(o *executor.Outcome) bool { return errors.Is(o.Output, syscall.EPIPE) && o.Set != nil }, 1},
		{"a time limit ends the command, and its changes are kept", "sleep 100", func(_ *world, req *executor.Request) {
			req.Timeout = 50 * time.Millisecond
		}, nil, func(o *executor.Outcome) bool { return o.Result.TimedOut && o.Set != nil }, 1},
		{"a signal is the command's", "kill -STOP $$; sleep 100", func(_ *world, req *executor.Request) {
			signals := make(chan string, 1)
			req.Signals = signals
			req.Notes = func(string) { signals <- "SIGKILL" }
		}, nil, func(o *executor.Outcome) bool { return o.Result.Signal == "SIGKILL" && o.Set != nil }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			req := w.request(tt.line)
			tt.prepare(w, req)
			got, err := w.runner.Run(t.Context(), req)
			switch {
			case tt.err != nil && !errors.Is(err, tt.err):
				t.Errorf("Run: err = %v, want %v", err, tt.err)
			case tt.err == nil && (err != nil || !tt.check(got)):
				t.Errorf("Run = %+v, %v", got, err)
			}
			if n := w.kept(t); n != tt.kept {
				t.Errorf("%d sets are kept, want %d", n, tt.kept)
			}
		})
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestSignalBeforeTheCommand(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(ctx context.Context) error
		boxes int
	}{
		{"a driver that listens stops", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 0},
		{"a sandbox that was made all the same is closed", func(ctx context.Context) error { <-ctx.Done(); return nil }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.driver.starting = tt.start
			signals := make(chan string, 1)
			signals <- "SIGINT"
			req := w.request("exit 1")
			req.Signals = signals
			if out, err := w.runner.Run(t.Context(), req); !errors.Is(err, executor.ErrSignaled) {
				t.Errorf("Run = %+v, %v, want %v", out, err, executor.ErrSignaled)
			}
			if len(w.driver.boxes) != tt.boxes {
				t.Errorf("%d sandboxes were made, want %d", len(w.driver.boxes), tt.boxes)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	req := w.request("echo ready; sleep 100")
	r, pw := io.Pipe()
	req.Stdout = pw
	go func() {
		_, _ = r.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	if out, err := w.runner.Run(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %+v, %v, want %v", out, err, context.Canceled)
	}
	pw.Close()
	if n := w.kept(t); n != 0 {
		t.Errorf("%d sets are kept, want none", n)
	}
}
