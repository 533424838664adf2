package mux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A session is the frames between one greeting and the next. One lock holds all of it:
// what is done under it is short.
type session struct {
	out     io.Writer
	in      *wire
	arrived func(*Conn) // takes a connection, on the server; it does not block
	done    chan struct{}
	writing sync.WaitGroup

	mu     sync.Mutex
	conns  map[uint32]*Conn
	last   uint32 // the highest number a connection has had
	queue  []byte // frames that wait to be written
	queued sync.Cond
	room   sync.Cond // for those who wait until they may send
	err    error     // why it has ended
}

func newSession(in *wire, out io.Writer, arrived func(*Conn)) *session {
	s := &session{in: in, out: out, arrived: arrived, done: make(chan struct{}), conns: map[uint32]*Conn{}}
	s.queued.L, s.room.L = &s.mu, &s.mu
	s.writing.Go(s.write)
	return s
}

// end ends the session, and with it all reads and writes of its connections.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
}

func (s *session) endLocked(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	close(s.done)
	s.queue = nil
	s.queued.Broadcast()
	s.room.Broadcast()
	for _, c := range s.conns {
		c.readable.Broadcast()
	}
}

// write is the goroutine that writes: who sends need not wait for it, so that deadlines hold.
func (s *session) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.queue) == 0 && s.err == nil {
			s.queued.Wait()
		}
		if s.err != nil {
			return
		}
		batch := s.queue
		s.queue = nil
		s.room.Broadcast()
		s.mu.Unlock()
		_, err := s.out.Write(batch)
		s.mu.Lock()
		if err != nil {
			s.endLocked(fmt.Errorf("%w: %w", ErrEnded, err))
			return
		}
		oldQueue(batch)
	}
}

// sendLocked queues a frame.
func (s *session) sendLocked(kind byte, id, n uint32, payload []byte) {
	if s.err != nil {
		return
	}
	if s.queue == nil {
		s.queue = newQueue()
	}
	s.queue = appendFrame(s.queue, kind, id, n, payload)
	if len(s.queue) > maxQueued {
		s.endLocked(fmt.Errorf("%w: the other side asks for more than it takes", ErrEnded))
		return
	}
	s.queued.Signal()
}

// read reads frames until the session ends. The error is the stream's; nil is a session that ended
// while more can be read.
func (s *session) read() error {
	for {
		f, err := s.in.frame()
		if err == nil {
			err = s.take(f)
		}
		switch {
		case errors.Is(err, errFrame):
			s.end(ErrCut)
			return nil
		case errors.Is(err, errOver):
			return nil
		case err != nil:
			s.end(fmt.Errorf("%w: %w", ErrEnded, err))
			return err
		}
	}
}

// errOver is a frame that came after the session had ended for another reason.
var errOver = errors.New("the session is over")

// take does what one frame says. What is for a connection that is no more is dropped: both
// sides may close at the same time.
func (s *session) take(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return errOver
	}
	if f.kind == kindOpen {
		return s.openedLocked(f.id)
	}
	c := s.conns[f.id]
	if c == nil {
		if f.id > s.last {
			return errFrame // of one that never was
		}
		return nil
	}
	return c.takeLocked(f)
}

// openedLocked takes a connection that the host made.
func (s *session) openedLocked(id uint32) error {
	if s.arrived == nil || id <= s.last {
		return errFrame
	}
	s.last = id
	if len(s.conns) >= maxConns {
		s.sendLocked(kindRefuse, id, 0, nil)
		return nil
	}
	s.arrived(s.addLocked(id))
	return nil
}

func (s *session) addLocked(id uint32) *Conn {
	c := &Conn{s: s, id: id, credit: window}
	c.readable.L = &s.mu
	s.conns[id] = c
	return c
}

// A deadline is when a wait ends. It is guarded by the session's lock.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set sets it; wake is called, without the lock, when it has passed.
func (d *deadline) set(t time.Time, wake func()) {
	d.at = t
	if d.timer != nil {
		d.timer.Stop()
	}
	if left := time.Until(t); !t.IsZero() && left > 0 {
		if d.timer == nil {
			d.timer = time.AfterFunc(left, wake)
		} else {
			d.timer.Reset(left)
		}
	}
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (d *deadline) err() error {
	if d.at.IsZero() || time.Now().Before(d.at) {
		return nil
	}
	return os.ErrDeadlineExceeded
}
