package mux

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// How long a host waits before it greets again: at first, and at most.
const (
	greetAgain = 5 * time.Millisecond
	greetMax   = 500 * time.Millisecond
)

// A Session is the host's side. It is safe for concurrent use.
type Session struct {
	*session
	rw      io.ReadWriteCloser
	once    sync.Once
	reading sync.WaitGroup
}

// Dial greets the server at the other end of rw, whatever state that is in, until it answers, and
// owns rw from now on. rw.Close must end a Read and a Write that block. When ctx ends first, or
// rw fails, rw is closed.
func Dial(ctx context.Context, rw io.ReadWriteCloser) (*Session, error) {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = rw.Close()
	})
	in := newWire(rw)
	err := greet(rw, in)
	if !stop() {
		<-closed
		err = ctx.Err()
	}
	if err != nil {
		_ = rw.Close()
		return nil, fmt.Errorf("reach the guest agent over its stream: %w", err)
	}
	s := &Session{session: newSession(in, rw, nil), rw: rw}
	s.reading.Go(func() {
		_ = s.read() // s.err says it
		s.close()
	})
	return s, nil
}

// greet says SYN until it is answered, and then that the session begins.
func greet(rw io.ReadWriteCloser, in *wire) error {
	random := make([]byte, nonceLen/2)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	nonce := hex.EncodeToString(random)
	syn := append(make([]byte, maxFrame), magic+nonce+"\n"...)
	if _, err := rw.Write(syn[maxFrame:]); err != nil {
		return err
	}
	answered := make(chan struct{})
	var greeting sync.WaitGroup
	var again error
	greeting.Go(func() { again = greetOn(rw, syn, answered) })
	var err error
	for {
		var word, got string
		if word, got, err = in.greeting(); err != nil || word == ok && got == nonce {
			break
		}
	}
	close(answered)
	if err != nil {
		_ = rw.Close() // or a greeting might sit in its write
	}
	greeting.Wait()
	if err != nil {
		return err
	}
	if again != nil {
		return again
	}
	_, err = io.WriteString(rw, magic+start+nonce+"\n")
	return err
}

// greetOn says SYN again and again. Each is whole before it returns.
func greetOn(w io.Writer, syn []byte, answered <-chan struct{}) error {
	timer := time.NewTimer(greetAgain)
	defer timer.Stop()
	for wait := greetAgain; ; {
		select {
		case <-timer.C:
		case <-answered:
			return nil
		}
		if _, err := w.Write(syn); err != nil {
			return err
		}
		wait = min(2*wait, greetMax)
		timer.Reset(wait)
	}
}

// Open makes a connection. It does not wait for the server: one that it does not take fails with
// ErrRefused when it is used.
func (s *Session) Open(ctx context.Context) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case len(s.conns) >= maxConns:
		return nil, ErrRefused
	case s.last == 1<<32-1:
		return nil, errors.New("the stream has carried all the connections that it can")
	}
	s.last++
	c := s.addLocked(s.last)
	s.sendLocked(kindOpen, s.last, 0, nil)
	return c, nil
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is why the session has ended; nil while it has not.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Session) close() {
	s.once.Do(func() { _ = s.rw.Close() })
}

// Close ends the session with all its connections and waits for its goroutines. What they were
// given and the stream has not taken yet is lost. It may be called twice.
func (s *Session) Close() error {
	s.end(net.ErrClosed)
	s.close()
	s.writing.Wait()
	s.reading.Wait()
	return nil
}
