//go:build linux

package guest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/mux"
)

// A host is one end of the streams of a guest, as a keeper has it. Another may take its place at
// any moment, as it does where a sandbox was copied: this one then hears nothing, and is not heard.
type host struct {
	streams *guestStreams
	heard   *io.PipeReader
	hear    *io.PipeWriter
}

// guestStreams are a guest's standard input and output, from outside.
type guestStreams struct {
	in io.WriteCloser

	mu  sync.Mutex
	now *host
}

// streamsOf gives the guest's ends of two pipes and what leads to them.
func streamsOf(t *testing.T) (guestIn, guestOut *os.File, s *guestStreams) {
	t.Helper()
	guestIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, guestOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s = &guestStreams{in: in}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		buf := make([]byte, 4096)
		for {
			n, err := out.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			now := s.now
			s.mu.Unlock()
			if now != nil {
				_, _ = now.hear.Write(buf[:n])
			}
		}
	}()
	t.Cleanup(func() {
		in.Close()
		guestOut.Close()
		if h := s.replace(nil); h != nil {
			h.Close()
		}
		<-reading
		out.Close()
		guestIn.Close()
	})
	return guestIn, guestOut, s
}

func (s *guestStreams) replace(h *host) (old *host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.now = s.now, h
	return old
}

// host puts a new host in the place of the one that is there, and greets the guest.
func (s *guestStreams) host(t *testing.T) *mux.Session {
	t.Helper()
	h := &host{streams: s}
	h.heard, h.hear = io.Pipe()
	if old := s.replace(h); old != nil {
		old.heard.CloseWithError(errors.New("another host is here")) // ends a write to it
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := mux.Dial(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func (h *host) Read(p []byte) (int, error) { return h.heard.Read(p) }

func (h *host) Write(p []byte) (int, error) {
	h.streams.mu.Lock()
	now := h.streams.now == h
	h.streams.mu.Unlock()
	if !now {
		return len(p), nil
	}
	return h.streams.in.Write(p)
}

func (h *host) Close() error { return errors.Join(h.heard.Close(), h.hear.Close()) }

// over makes a client on a connection of its own.
func over(t *testing.T, s *mux.Session) *wire {
	t.Helper()
	conn, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := speak(t, conn)
	t.Cleanup(w.close)
	return w
}

// guests are agents behind streams: one in this process, and the program.
func guests(t *testing.T, test func(*testing.T, *guestStreams, func() error)) {
	t.Run("in another process", func(t *testing.T) {
		in, out, s := streamsOf(t)
		a, err := guest.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			_ = mux.Serve(t.Context(), both{in, out}, func(c *mux.Conn) { _ = a.Serve(t.Context(), c) })
		})
		t.Cleanup(func() { a.Close(); serving.Wait() })
		test(t, s, func() error { return nil })
	})
	t.Run("the program", func(t *testing.T) {
		in, out, s := streamsOf(t)
		cmd := exec.Command(binary(t), "--listen", "mux")
		cmd.Stdin, cmd.Stdout = in, out
		p := launch(t, cmd)
		test(t, s, func() error { return p.Process.Signal(unix.SIGUSR2) })
	})
}

type both struct {
	io.ReadCloser
	out io.WriteCloser
}

func (b both) Write(p []byte) (int, error) { return b.out.Write(p) }
func (b both) Close() error                { return errors.Join(b.ReadCloser.Close(), b.out.Close()) }

func TestWhatACopyWasInTheMiddleOfGoesOn(t *testing.T) {
	guests(t, func(t *testing.T, s *guestStreams, wake func() error) {
		first := s.host(t)
		w := over(t, first)
		streamed := w.send(agent.MethodExec, object{"cmd": "echo before; read x; echo after $x; exit 9", "stream": true, "input": true, "label": "streamed"}, nil)
		w.prints(streamed, "stdout", "before")
		held := over(t, first)
		held.send(agent.MethodExec, object{"cmd": "echo held; touch " + t.TempDir() + "; read x; echo $x >&2", "input": true, "label": "held", "timeout_ms": 3_600_000}, nil)
		quiet := over(t, first)
		deaf := t.TempDir() + "/deaf"
		quiet.send(agent.MethodExec, object{"cmd": "trap '' TERM; : > " + deaf + "; sleep 300", "label": "quiet"}, nil)
		spawned := w.spawn(object{"cmd": "echo mine; read x", "input": true})
		flood := over(t, first)
		flooded := flood.send(agent.MethodExec, object{"cmd": "yes | head -c 30000000; echo end; read x", "stream": true, "input": true, "label": "flood", "keep_output": 1000}, nil)
		flood.prints(flooded, "stdout", "y\ny\n")
		labels := func(w *wire) map[string]agent.ProcessInfo {
			all := map[string]agent.ProcessInfo{}
			for _, p := range w.processes() {
				all[p.Label] = p
			}
			return all
		}
		eventually(t, "all of them to run", func() bool {
			all := labels(w)
			if _, err := os.Stat(deaf); err != nil {
				return false // it would heed SIGTERM still
			}
			return all["held"].PID != 0 && all["quiet"].PID != 0 && all["flood"].PID != 0
		})
		if err := wake(); err != nil {
			t.Error(err)
		}

		second := s.host(t)
		w2 := over(t, second)
		if err := wake(); err != nil { // it comes late: that does no harm
			t.Error(err)
		}
		all := labels(w2)
		for _, label := range []string{"streamed", "held", "quiet", "", "flood"} {
			eventually(t, label+" to be in the background", func() bool { return labels(w2)[label].Detached })
			if p := labels(w2)[label]; !p.Running {
				t.Errorf("%s: %+v", label, p)
			}
		}
		if all[""].Process != spawned {
			t.Errorf("the one that was in the background: %+v", all[""])
		}
		give := func(label, text string) reply {
			id := w2.send(agent.MethodAttach, object{"process": all[label].Process, "input": true}, nil)
			w2.must(agent.MethodInput, object{"id": id, "data": []byte(text)}, &agent.Empty{})
			return w2.wait(id)
		}
		if r := give("streamed", "it goes on\n"); r.printed["stdout"] != "after it goes on\n" {
			t.Errorf("streamed: %q", r.printed)
		}
		if p := labels(w2)["streamed"]; p.Result == nil || p.Result.ExitCode != 9 || p.Result.Canceled {
			t.Errorf("streamed: %+v", p.Result)
		}
		if r := give("held", "too\n"); r.printed["stdout"] != "held\n" || r.printed["stderr"] != "too\n" {
			t.Errorf("held: %q", r.printed)
		}
		if r := give("flood", "\n"); !strings.HasSuffix(r.printed["stdout"], "y\ny\nend\n") {
			t.Errorf("flood: %d bytes", len(r.printed["stdout"]))
		}
		if p := labels(w2)["flood"]; p.Output-p.First != 1000 {
			t.Errorf("flood: %+v", p)
		}
		w2.end(object{"process": all["quiet"].Process, "grace_ms": 10})
		if p := labels(w2)["quiet"]; p.Running || p.Result == nil || p.Result.Signal != "SIGKILL" {
			t.Errorf("quiet: %+v", p)
		}
		if res := w2.exec(object{"cmd": "echo new"}); res.Stdout != "new\n" {
			t.Errorf("a command of the new host: %+v", res)
		}
	})
}

func TestACommandOverTheStreamsEndsWithItsConnection(t *testing.T) {
	guests(t, func(t *testing.T, s *guestStreams, _ func() error) {
		session := s.host(t)
		w, other := over(t, session), over(t, session)
		id := w.send(agent.MethodExec, object{"cmd": "echo here; sleep 300", "stream": true}, nil)
		w.prints(id, "stdout", "here")
		if list := other.processes(); len(list) != 1 {
			t.Fatalf("processes = %+v", list)
		}
		w.close()
		eventually(t, "the command to end", func() bool { return len(other.processes()) == 0 })
	})
}

func TestTheProgramEndsWithItsStreams(t *testing.T) {
	in, out, s := streamsOf(t)
	cmd := exec.Command(binary(t), "--listen", "mux")
	cmd.Stdin, cmd.Stdout = in, out
	p := launch(t, cmd)
	session := s.host(t)
	w := over(t, session)
	dir := t.TempDir()
	name := w.spawn(object{"cwd": dir, "cmd": "echo $$ > pid; echo ready; exec sleep 300"})
	eventually(t, "the command to be ready", func() bool { return w.process(name).Output > 0 })
	in.Close() // this process's copy of it
	s.in.Close()
	if code := p.ends(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	noneAlive(t, dir)
}

// BenchmarkExecOverTheStreams runs true over a connection that is open, and over one that is opened
// for it.
func BenchmarkExecOverTheStreams(b *testing.B) {
	cmd := exec.Command(binary(b), "--listen", "mux")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	launch(b, cmd)
	session, err := mux.Dial(b.Context(), both{out, in})
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	open := func() *agent.Client {
		conn, err := session.Open(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return agent.NewClient(conn, nil)
	}
	run := func(c *agent.Client) {
		res, err := c.Run(b.Context(), agent.ExecParams{Argv: []string{"/bin/true"}}, nil)
		if err != nil || res.ExitCode != 0 {
			b.Fatalf("Run = %+v, %v", res, err)
		}
	}
	b.Run("open", func(b *testing.B) {
		c := open()
		defer c.Close()
		run(c)
		for b.Loop() {
			run(c)
		}
	})
	b.Run("opened", func(b *testing.B) {
		for b.Loop() {
			c := open()
			run(c)
			c.Close()
		}
	})
}
