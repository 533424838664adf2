package event

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Options are a Bus's settings. Nil is valid.
type Options struct {
	// MaxBytes bounds what is kept for each reader who is behind, counted by the lengths of
	// the events' texts. 0 is 4 MiB.
	MaxBytes int
}

// What is kept for a reader unless somebody says otherwise.
const (
	defaultBytes = 4 << 20
	defaultCount = 1024
)

// A Bus numbers events and hands them to any number of readers, each in the same order.
// It is safe for concurrent use. A nil *Bus is a Sink that keeps silent.
type Bus struct {
	maxBytes int

	mu     sync.Mutex
	seq    uint64 // the last one given
	last   time.Time
	subs   []*Subscription
	closed bool
}

var _ Sink = (*Bus)(nil)

// NewBus returns a bus without readers.
func NewBus(opts *Options) *Bus {
	b := &Bus{maxBytes: defaultBytes}
	if opts != nil && opts.MaxBytes > 0 {
		b.maxBytes = opts.MaxBytes
	}
	return b
}

// Publish gives the event the next number and hands it to everybody who reads. It waits
// for none of them: who is too slow misses events and is told so. After Close it does
// nothing.
func (b *Bus) Publish(e Event) {
	e = value(e)
	if b == nil || e == nil {
		return
	}
	cost := cost(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.seq++
	if now := time.Now(); now.After(b.last) {
		b.last = now // times do not go back, even where the clock does
	}
	for _, s := range b.subs {
		s.putLocked(Numbered{b.seq, b.last, e}, cost)
	}
}

// Subscribe begins to read: the events from now on. For a reader who is behind, n events
// are kept; n < 1 means 1024. Close must be called on the subscription, or on the bus.
func (b *Bus) Subscribe(n int) *Subscription {
	if n < 1 {
		n = defaultCount
	}
	s := &Subscription{bus: b, maxCount: n, wake: make(chan struct{}, 1)}
	if b == nil {
		return s
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.read, s.newest = b.seq, b.seq
	if !b.closed {
		b.subs = append(b.subs, s)
	}
	s.ended = b.closed
	return s
}

// Close ends the events: readers get what is kept for them, then io.EOF. It may be called
// again.
func (b *Bus) Close() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, s := range b.subs {
		s.ended = true
		s.wakeUp()
	}
	b.subs = nil
	return nil
}

// A Subscription is one reader's view of a Bus.
type Subscription struct {
	bus      *Bus // nil: one that is always at its end
	maxCount int
	wake     chan struct{} // holds one token where there may be something new

	// What follows is guarded by bus.mu. The events that are kept are in two queues, each in
	// order, so that the oldest output is always at hand.
	outputs, others []kept
	bytes           int
	read            uint64 // the last number that was handed out
	newest          uint64 // the last number that was published
	newestTime      time.Time
	ended           bool
}

// A kept is an event that waits for its reader.
type kept struct {
	Numbered
	cost int
}

// Next is the next event. Where some had to be dropped, a Dropped stands in their place.
// It waits until there is one, the bus or the subscription is closed (io.EOF, after what
// is kept), or ctx is done (its error). It is for one goroutine at a time.
func (s *Subscription) Next(ctx context.Context) (Numbered, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Numbered{}, err
		}
		if n, ok, ended := s.take(); ok {
			return n, nil
		} else if ended {
			return Numbered{}, io.EOF
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

// Close ends the reading. What is kept is thrown away; Next, even one that waits, returns
// io.EOF. It may be called again.
func (s *Subscription) Close() error {
	if s.bus == nil {
		return nil
	}
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	s.bus.subs = slices.DeleteFunc(s.bus.subs, func(other *Subscription) bool { return other == s })
	s.outputs, s.others, s.bytes = nil, nil, 0
	s.read, s.ended = s.newest, true
	s.wakeUp()
	return nil
}

// take removes the next event from what is kept.
func (s *Subscription) take() (n Numbered, ok, ended bool) {
	if s.bus == nil {
		return Numbered{}, false, true
	}
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	next := s.newest + 1
	when := s.newestTime
	queue := &s.outputs
	for _, q := range []*[]kept{&s.outputs, &s.others} {
		if len(*q) > 0 && (*q)[0].Seq < next {
			next, when, queue = (*q)[0].Seq, (*q)[0].Time, q
		}
	}
	if next > s.read+1 { // what is between is missing
		first := s.read + 1
		s.read = next - 1
		return Numbered{s.read, when, Dropped{next - first, first, next - 1}}, true, false
	}
	if len(*queue) == 0 {
		return Numbered{}, false, s.ended
	}
	s.read = next
	return s.popLocked(queue).Numbered, true, false
}

// putLocked keeps an event, and drops what is too much: output first, the oldest of it.
func (s *Subscription) putLocked(n Numbered, cost int) {
	queue := &s.others
	if _, ok := n.Event.(Output); ok {
		queue = &s.outputs
	}
	*queue = append(*queue, kept{n, cost})
	s.bytes += cost
	s.newest, s.newestTime = n.Seq, n.Time
	for len(s.outputs)+len(s.others) > s.maxCount || s.bytes > s.bus.maxBytes {
		switch {
		case len(s.outputs) > 0:
			s.popLocked(&s.outputs)
			continue
		case len(s.others) > 1: // the newest stays, however long it is
			s.popLocked(&s.others)
			continue
		}
		break
	}
	s.wakeUp()
}

func (s *Subscription) popLocked(queue *[]kept) kept {
	k := (*queue)[0]
	(*queue)[0] = kept{} // or it would live as long as those behind it
	*queue = (*queue)[1:]
	s.bytes -= k.cost
	return k
}

func (s *Subscription) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// value is the event itself where somebody published a pointer to one, which could be
// changed later; nil where there is none.
func value(e Event) Event {
	v := reflect.ValueOf(e)
	if v.Kind() != reflect.Pointer {
		return e
	}
	if v.IsNil() {
		return nil
	}
	e, _ = reflect.TypeAssert[Event](v.Elem())
	return e
}

// cost is about what an event takes of memory.
func cost(e Event) int {
	const itself = 128
	if o, ok := e.(Output); ok {
		return itself + len(o.StepID) + len(o.Stream) + len(o.Data)
	}
	sum := itself
	if v := reflect.ValueOf(e); v.Kind() == reflect.Struct {
		for _, f := range v.Fields() {
			if f.Kind() == reflect.String {
				sum += f.Len()
			}
		}
	}
	return sum
}

// WriteLines writes a subscription's events as JSON, one a line and each in one Write,
// until there are no more. The error is w's, or ctx's.
func WriteLines(ctx context.Context, w io.Writer, sub *Subscription) error {
	for {
		n, err := sub.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, err := n.MarshalJSON()
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write event %d: %w", n.Seq, err)
		}
	}
}
