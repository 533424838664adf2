package mux_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/internal/mux"
)

// A stream is one end of what two processes have between them: a pipe each way.
type stream struct {
	io.ReadCloser
	w io.WriteCloser
}

func (s *stream) Write(p []byte) (int, error) { return s.w.Write(p) }
func (s *stream) Close() error                { return errors.Join(s.w.Close(), s.ReadCloser.Close()) }

// pipes makes both ends of a stream, of real pipes.
func pipes(t testing.TB) (near, far *stream) {
	t.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	near, far = &stream{r1, w2}, &stream{r2, w1}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// serve serves far until the test ends.
func serve(t testing.TB, far io.ReadWriteCloser, handle func(*mux.Conn)) (wait func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	var serving sync.WaitGroup
	serving.Go(func() { err = mux.Serve(ctx, far, handle) })
	t.Cleanup(func() { cancel(); serving.Wait() })
	return func() error { serving.Wait(); return err }
}

func dial(t testing.TB, near io.ReadWriteCloser) *mux.Session {
	t.Helper()
	s, err := mux.Dial(t.Context(), near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func open(t testing.TB, s *mux.Session) *mux.Conn {
	t.Helper()
	c, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echo gives back all that comes, to its end.
func echo(c *mux.Conn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
}

// hold keeps a connection until its other side is done with it.
func hold(c *mux.Conn) {
	defer c.Close()
	_, _ = io.Copy(io.Discard, c)
}

// say writes all of p.
func say(t testing.TB, w io.Writer, p []byte) {
	t.Helper()
	if _, err := w.Write(p); err != nil {
		t.Error(err)
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return p
}

func TestEveryConnectionHasItsOwnBytes(t *testing.T) {
	near, far := pipes(t)
	serve(t, far, echo)
	s := dial(t, near)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c := open(t, s)
			want := pattern(300_000 + i)[i:]
			var sending sync.WaitGroup
			sending.Go(func() {
				if _, err := c.Write(want); err != nil {
					t.Error(err)
				}
				c.CloseWrite()
			})
			got, err := io.ReadAll(c)
			sending.Wait()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("connection %d: %d bytes of %d, %v", i, len(got), len(want), err)
			}
		})
	}
	all.Wait()
}

func TestAConnectionEndsAsASocketDoes(t *testing.T) {
	near, far := pipes(t)
	served := make(chan *mux.Conn, 1)
	serve(t, far, func(c *mux.Conn) { served <- c })
	s := dial(t, near)
	pair := func(t *testing.T) (host, guest *mux.Conn) {
		host = open(t, s)
		guest = <-served
		t.Cleanup(func() { guest.Close() })
		return host, guest
	}
	t.Run("what was written before a close is read, and then the end", func(t *testing.T) {
		host, guest := pair(t)
		want := pattern(100_000)
		say(t, guest, want)
		guest.Close()
		if got, err := io.ReadAll(host); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	})
	t.Run("a write to one that is closed is a broken pipe", func(t *testing.T) {
		host, guest := pair(t)
		host.Close()
		if _, err := io.ReadAll(guest); err != nil {
			t.Fatal(err)
		}
		if _, err := guest.Write([]byte("x")); err == nil || errors.Is(err, net.ErrClosed) {
			t.Errorf("Write = %v, want a broken pipe", err)
		}
	})
	t.Run("half a close ends one direction", func(t *testing.T) {
		host, guest := pair(t)
		host.CloseWrite()
		if n, err := guest.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("Read = %d, %v", n, err)
		}
		say(t, guest, []byte("still here"))
		guest.Close()
		if got, err := io.ReadAll(host); err != nil || string(got) != "still here" {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := host.Write([]byte("x")); err == nil {
			t.Error("it was written to after CloseWrite")
		}
	})
	t.Run("closing it ends a read and a write", func(t *testing.T) {
		host, _ := pair(t)
		errs := make(chan error, 2)
		go func() { _, err := host.Read(make([]byte, 1)); errs <- err }()
		go func() { _, err := host.Write(make([]byte, 10<<20)); errs <- err }()
		host.Close()
		for range 2 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("err = %v, want %v", err, net.ErrClosed)
			}
		}
		if err := host.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
	t.Run("deadlines end a read and a write, and can be taken back", func(t *testing.T) {
		host, guest := pair(t)
		host.SetDeadline(time.Now().Add(time.Millisecond))
		if _, err := host.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v", err)
		}
		n, err := host.Write(make([]byte, 10<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %v", err)
		}
		host.SetDeadline(time.Time{})
		done := make(chan int64)
		go func() { got, _ := io.Copy(io.Discard, guest); done <- got }()
		if _, err := host.Write([]byte("more")); err != nil {
			t.Error(err)
		}
		host.CloseWrite()
		if got := <-done; got != int64(n+4) {
			t.Errorf("%d bytes arrived of %d", got, n+4)
		}
	})
	t.Run("a deadline that is set meanwhile ends a read", func(t *testing.T) {
		host, _ := pair(t)
		errs := make(chan error)
		go func() { _, err := host.Read(make([]byte, 1)); errs <- err }()
		host.SetReadDeadline(time.Unix(1, 0))
		if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v", err)
		}
	})
}

func TestASleepingReaderHoldsUpNobodyElse(t *testing.T) {
	near, far := pipes(t)
	asleep, sleeps := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	serve(t, far, func(c *mux.Conn) {
		if first.CompareAndSwap(false, true) {
			defer c.Close()
			close(sleeps)
			<-asleep
			return
		}
		echo(c)
	})
	defer close(asleep)
	s := dial(t, near)
	full := open(t, s)
	<-sleeps
	full.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := full.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 8<<20 {
		t.Fatalf("Write = %d, %v: nobody reads", n, err)
	}
	c := open(t, s)
	want := pattern(2 << 20)
	go func() {
		say(t, c, want)
		c.CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

func TestTheEndOfTheStreamEndsAll(t *testing.T) {
	t.Run("the host's", func(t *testing.T) {
		near, far := pipes(t)
		ended := make(chan error, 1)
		wait := serve(t, far, func(c *mux.Conn) {
			_, err := io.Copy(c, c)
			ended <- err
			if c.Cut() {
				t.Error("the host left, and the connection is said to be cut off")
			}
			c.Close()
		})
		s := dial(t, near)
		c := open(t, s)
		say(t, c, []byte("x"))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		s.Close()
		if err := <-ended; !errors.Is(err, mux.ErrEnded) {
			t.Errorf("the guest's Read = %v, want %v", err, mux.ErrEnded)
		}
		if err := wait(); err != nil {
			t.Errorf("Serve = %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the host's Read = %v", err)
		}
		if _, err := s.Open(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Open = %v", err)
		}
	})
	t.Run("the guest's", func(t *testing.T) {
		near, far := pipes(t)
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := mux.Serve(ctx, far, hold); !errors.Is(err, context.Canceled) {
				t.Errorf("Serve = %v", err)
			}
		})
		s := dial(t, near)
		c := open(t, s)
		cancel()
		serving.Wait()
		<-s.Done()
		if err := s.Err(); !errors.Is(err, mux.ErrEnded) {
			t.Errorf("Err = %v", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, mux.ErrEnded) {
			t.Errorf("Write = %v", err)
		}
	})
}

func TestNobodyAnswersADial(t *testing.T) {
	near, _ := pipes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := mux.Dial(ctx, near); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial = %v", err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the stream is still open: %v", err)
	}
}

func TestConnectionsHaveALimit(t *testing.T) {
	near, far := pipes(t)
	serve(t, far, hold)
	s := dial(t, near)
	for i := 0; ; i++ {
		if i > 10_000 {
			t.Fatal("there is none")
		}
		c, err := s.Open(t.Context())
		if errors.Is(err, mux.ErrRefused) && i > 500 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
}
