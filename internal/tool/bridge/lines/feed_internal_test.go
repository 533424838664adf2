package lines

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// A reader is an agent's stdin: it takes a line when it is told to.
type reader struct {
	began  chan string // a line is on its way
	takes  chan error  // and has come, or has not
	closed atomic.Bool
}

func newReader() *reader { return &reader{began: make(chan string, 1), takes: make(chan error)} }

func (r *reader) Input(ctx context.Context, data []byte) error {
	r.began <- string(data)
	select {
	case err := <-r.takes:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *reader) CloseInput(context.Context) error {
	r.closed.Store(true)
	return nil
}

// feeding runs a feed whose first line is on its way already.
func feeding(t *testing.T) (f *feed, r *reader, end func()) {
	t.Helper()
	f, r = newFeed(), newReader()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx, r) })
	f.put(item{line: []byte("first")})
	if got := <-r.began; got != "first" {
		t.Fatalf("%q is on its way, want first", got)
	}
	return f, r, func() {
		cancel()
		running.Wait()
	}
}

func TestFeedOrder(t *testing.T) {
	f, r, end := feeding(t)
	defer end()
	var gone atomic.Int64
	for i := range 100 {
		f.put(item{line: []byte(strconv.Itoa(i)), error: true, gone: func() { gone.Add(1) }})
	}
	f.put(item{line: []byte("answer")})
	if !f.first([]byte("cancel")) {
		t.Error("first: the line was not taken")
	}
	if n := gone.Load(); n != 100-maxErrors {
		t.Errorf("%d errors were dropped, want %d", n, 100-maxErrors)
	}
	want := []string{"cancel"}
	for i := range maxErrors {
		want = append(want, strconv.Itoa(i))
	}
	want = append(want, "answer")
	var got []string
	for range want {
		r.takes <- nil
		got = append(got, <-r.began)
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	if n := gone.Load(); n != 100 {
		t.Errorf("%d errors do not wait any more, want 100", n)
	}
	f.put(item{line: []byte("again"), error: true}) // there is room again
	r.takes <- nil
	if got := <-r.began; got != "again" {
		t.Errorf("%q is on its way, want again", got)
	}
}

func TestFeedEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(f *feed, r *reader, end func())
		closed bool
	}{
		{"it is closed", func(f *feed, r *reader, end func()) { f.close(); r.takes <- nil; end() }, true},
		{"the agent takes no more", func(_ *feed, r *reader, end func()) { r.takes <- errors.New("closed"); end() }, false},
		{"the agent has ended", func(_ *feed, _ *reader, end func()) { end() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r, end := feeding(t)
			gone := 0
			waiting := item{line: []byte("x"), gone: func() { gone++ }}
			f.put(waiting)
			f.put(waiting)
			if f.deaf() {
				t.Error("deaf: true while lines wait, want false")
			}
			c.end(f, r, end)
			f.put(waiting)
			if gone != 3 || !f.deaf() || f.first(nil) {
				t.Errorf("%d of 3 lines let go, deaf %v; want all, and no more taken", gone, f.deaf())
			}
			if r.closed.Load() != c.closed {
				t.Errorf("stdin closed: %v, want %v", r.closed.Load(), c.closed)
			}
		})
	}
}
