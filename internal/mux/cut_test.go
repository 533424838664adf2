package mux_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/internal/mux"
)

// A tap is a stream whose written bytes are kept.
type tap struct {
	io.ReadWriteCloser
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *tap) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.all.Write(p)
	s.mu.Unlock()
	return s.ReadWriteCloser.Write(p)
}

// greeted is a host's greeting, whole.
var greeted = "\x00airlock-mux 1 " + strings.Repeat("a", 32) + "\n\x00airlock-mux 1 go " + strings.Repeat("a", 32) + "\n"

// opens is the frame that makes a connection.
func opens(id int) string {
	return "\x01\x00\x00\x00\x00\x00" + string([]byte{byte(id >> 8), byte(id)}) + "\xA5"
}

// hostBytes are what a host wrote that had two connections and sent each what it was given.
func hostBytes(t *testing.T, first, second []byte) []byte {
	near, far := pipes(t)
	serve(t, far, echo)
	kept := &tap{ReadWriteCloser: near}
	s := dial(t, kept)
	a, b := open(t, s), open(t, s)
	for c, data := range map[*mux.Conn][]byte{a: first, b: second} {
		say(t, c, data)
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("echo: %d bytes, %v", len(got), err)
		}
	}
	a.Close()
	s.Close()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return kept.all.Bytes()
}

func TestANewHostIsHeardWhereverTheOldOneWasCutOff(t *testing.T) {
	first, second := []byte("first"), []byte("\x00airlock-mux 1 "+strings.Repeat("0", 32)+"\n")
	script := hostBytes(t, first, second)
	begin := bytes.LastIndex(script, []byte("\x00airlock-mux 1 go ")) // what came before depends on the time
	script = append([]byte(strings.TrimSuffix(greeted, "\n")), script[begin+50:]...)
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for at := range len(script) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			cutAt(t, script, at, first, second)
		})
	}
	all.Wait()
}

// cutAt gives a server the first bytes of a script, and then another host.
func cutAt(t *testing.T, script []byte, at int, texts ...[]byte) {
	near, far := pipes(t)
	var mu sync.Mutex
	var cut [][]byte
	wait := serve(t, far, func(c *mux.Conn) {
		defer c.Close()
		var got bytes.Buffer
		_, err := io.Copy(io.MultiWriter(&got, c), c)
		isCut := c.Cut()
		if errors.Is(err, mux.ErrCut) && !isCut {
			t.Errorf("at %d: Read = %v, and it does not know that it was cut off", at, err)
		}
		// One that had come to its end before may have been cut off since.
		if _, now := c.Read(make([]byte, 1)); isCut && !errors.Is(now, mux.ErrCut) {
			t.Errorf("at %d: Read = %v, and it was cut off", at, now)
		}
		mu.Lock()
		defer mu.Unlock()
		cut = append(cut, got.Bytes())
	})
	say(t, near, script[:at])
	s := dial(t, near)
	c := open(t, s)
	say(t, c, []byte("a new host"))
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "a new host" {
		t.Errorf("at %d: the new host read %q, %v", at, got, err)
	}
	s.Close()
	if err := wait(); err != nil {
		t.Errorf("at %d: Serve = %v", at, err)
	}
	for _, got := range cut {
		whole := false
		for _, text := range append(texts, []byte("a new host")) {
			whole = whole || bytes.HasPrefix(text, got)
		}
		if !whole {
			t.Errorf("at %d: a connection was given %q, which nobody sent", at, got)
		}
	}
}

func TestACutIsToldToConnections(t *testing.T) {
	near, far := pipes(t)
	cut := make(chan error, 2)
	began := make(chan struct{}, 2)
	serve(t, far, func(c *mux.Conn) {
		defer c.Close()
		one := make([]byte, 1)
		if _, err := c.Read(one); err != nil {
			return // the new host's, which says nothing
		}
		began <- struct{}{}
		var err error
		if one[0] == 'r' {
			_, err = c.Read(one)
		} else {
			_, err = c.Write(make([]byte, 100<<20))
		}
		if !c.Cut() {
			t.Error("it does not know that it was cut off")
		}
		cut <- err
	})
	say(t, near, []byte(greeted+opens(1)+opens(2)+"\x02\x00\x00\x01\x00\x00\x00\x01r\xA5\x02\x00\x00\x01\x00\x00\x00\x02w\xA5"))
	<-began
	<-began
	fresh := dial(t, near)
	for range 2 {
		if err := <-cut; !errors.Is(err, mux.ErrCut) {
			t.Errorf("err = %v, want %v", err, mux.ErrCut)
		}
	}
	open(t, fresh)
}

func TestALongFrameIsCutInTheMiddle(t *testing.T) {
	near, far := pipes(t)
	serve(t, far, echo)
	// A connection, and the longest payload begins.
	long := []byte(greeted + opens(1) + "\x02\x00\x80\x00\x00\x00\x00\x01be")
	say(t, near, long)
	s := dial(t, near)
	c := open(t, s)
	say(t, c, []byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

func TestHostileHosts(t *testing.T) {
	for name, said := range map[string]string{
		"says nothing":                         "",
		"greets without end":                   strings.Repeat("\x00airlock-mux 1 ", 1000),
		"greets with a nonce that is too long": "\x00airlock-mux 1 " + strings.Repeat("a", 100_000),
		"greets twice":                         "\x00airlock-mux 1 " + strings.Repeat("a", 32) + "\n" + greeted + "\x00airlock-mux 1 " + strings.Repeat("a", 32) + "\n",
		"says go before it greets":             "\x00airlock-mux 1 go " + strings.Repeat("a", 32) + "\n",
		"says go for another":                  "\x00airlock-mux 1 " + strings.Repeat("a", 32) + "\n\x00airlock-mux 1 go " + strings.Repeat("b", 32) + "\n" + opens(1),
		"sends noise":                          strings.Repeat("\xff\x00airlock-mux\n", 10_000),
		"opens a connection twice":             greeted + opens(1) + opens(1),
		"sends to none":                        greeted + "\x02\x00\x00\x01\x00\x00\x00\x07x\xA5",
		"sends a frame that is too long":       greeted + opens(1) + "\x02\xff\xff\xff\x00\x00\x00\x01x",
		"gives credit without end":             greeted + opens(1) + strings.Repeat("\x03\xff\xff\xff\x00\x00\x00\x01\xA5", 300),
		"sends after the end":                  greeted + opens(1) + "\x04\x00\x00\x00\x00\x00\x00\x01\xA5\x02\x00\x00\x01\x00\x00\x00\x01x\xA5",
		"sends more than the window":           greeted + opens(1) + strings.Repeat("\x02\x00\x80\x00\x00\x00\x00\x01"+strings.Repeat("x", 32<<10)+"\xA5", 17),
		"opens more connections than there may be": greeted + func() string {
			var b strings.Builder
			for i := range 5000 {
				b.WriteString(opens(i + 1))
			}
			return b.String()
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pipes(t)
			stay := make(chan struct{})
			serve(t, far, func(c *mux.Conn) {
				defer c.Close()
				one := make([]byte, 4)
				if _, err := io.ReadFull(c, one); err == nil && string(one) == "ping" {
					say(t, c, []byte("pong"))
				}
				<-stay
			})
			defer close(stay)
			if _, err := near.Write([]byte(said)); err != nil {
				t.Fatal(err)
			}
			s := dial(t, near)
			c := open(t, s)
			c.SetDeadline(time.Now().Add(2 * time.Minute))
			say(t, c, []byte("ping"))
			got := make([]byte, 4)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "pong" {
				t.Errorf("the next host: %q, %v", got, err)
			}
		})
	}
}

// FuzzServe gives a server whatever comes.
func FuzzServe(f *testing.F) {
	f.Add([]byte(greeted + "\x01\x00\x00\x00\x00\x00\x00\x01\xA5\x02\x00\x00\x01\x00\x00\x00\x01x\xA5\x03\x00\x00\x01\x00\x00\x00\x01\xA5\x05\x00\x00\x00\x00\x00\x00\x01\xA5"))
	f.Add([]byte(greeted + greeted))
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := &replay{Reader: bytes.NewReader(data)}
		if err := mux.Serve(t.Context(), conn, echo); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// FuzzDial gives a host whatever a guest may say once it has answered.
func FuzzDial(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x01\x00\x00\x00\x01x\xA5\x06\x00\x00\x00\x00\x00\x00\x01\xA5"))
	f.Add([]byte("\x03\x00\x00\x01\x00\x00\x00\x01\xA5\x04\x00\x00\x00\x00\x00\x00\x01\xA5"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := mux.Dial(t.Context(), &liar{after: data, heard: make(chan string, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c, err := s.Open(t.Context())
		if err != nil {
			return // it has ended already
		}
		defer c.Close()
		n, err := io.Copy(io.Discard, c)
		if n > int64(len(data)) {
			t.Errorf("read %d bytes of %d, %v", n, len(data), err)
		}
	})
}

// A replay is a stream on which everything has been said.
type replay struct{ io.Reader }

func (*replay) Write(p []byte) (int, error) { return len(p), nil }
func (*replay) Close() error                { return nil }

// A liar answers a greeting, and then says what it was given.
type liar struct {
	after []byte
	heard chan string
	once  sync.Once
	rest  *bytes.Reader
}

func (l *liar) Write(p []byte) (int, error) {
	l.once.Do(func() { l.heard <- string(p) })
	return len(p), nil
}

func (l *liar) Read(p []byte) (int, error) {
	if l.rest == nil {
		syn := <-l.heard
		l.rest = bytes.NewReader(append([]byte(strings.Replace(syn, "mux 1 ", "mux 1 ok ", 1)), l.after...))
	}
	return l.rest.Read(p)
}

func (*liar) Close() error { return nil }

func BenchmarkStream(b *testing.B) {
	chunk := make([]byte, 32<<10)
	b.Run("pipe", func(b *testing.B) {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		go func() { _, _ = io.Copy(struct{ io.Writer }{io.Discard}, r) }()
		b.SetBytes(int64(len(chunk)))
		for b.Loop() {
			say(b, w, chunk)
		}
		w.Close()
	})
	b.Run("mux", func(b *testing.B) {
		near, far := pipes(b)
		done := make(chan struct{})
		serve(b, far, func(c *mux.Conn) {
			defer close(done)
			defer c.Close()
			_, _ = io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c})
		})
		s, err := mux.Dial(b.Context(), near)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		c, _ := s.Open(b.Context())
		b.SetBytes(int64(len(chunk)))
		for b.Loop() {
			say(b, c, chunk)
		}
		c.CloseWrite()
		<-done
	})
}

func BenchmarkEcho(b *testing.B) {
	near, far := pipes(b)
	serve(b, far, echo)
	s, err := mux.Dial(b.Context(), near)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, _ := s.Open(b.Context())
	line := make([]byte, 100)
	for b.Loop() {
		say(b, c, line)
		if _, err := io.ReadFull(c, line); err != nil {
			b.Fatal(err)
		}
	}
}
