// Package pool keeps sandboxes ready before somebody asks for one: so many of each
// template, made in the background, each with a client that has said hello, so that the first
// command costs nothing but itself. It is for programs that run for long; it knows neither what
// a template is made of nor who keeps a list of sandboxes.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

var (
	// ErrClosed is what Take says after Close.
	ErrClosed = errors.New("the pool of warm sandboxes is closed")
	// ErrUnknown is what Take says of a template that the pool does not have.
	ErrUnknown = errors.New("the pool has no such template")
)

// Defaults of Options.
const (
	DefaultFilling     = 2
	DefaultCold        = 8
	DefaultMakeTimeout = time.Minute
	DefaultQuiet       = 20 * time.Millisecond
	DefaultPatience    = 250 * time.Millisecond
	DefaultBackoff     = 200 * time.Millisecond
	DefaultMaxBackoff  = 30 * time.Second
	DefaultDrain       = 30 * time.Second
)

// MaxSize is the most that a template's Size may be.
const MaxSize = 1000

// A Template says what to keep ready.
type Template struct {
	// Make makes one sandbox. It returns soon after ctx is done, and then leaves nothing. Required.
	// It is called from several goroutines at once.
	Make func(ctx context.Context) (sandbox.Lasting, error)

	// Size is how many are kept ready; 0: none, so that every Take makes one.
	Size int

	// MaxAge is after what time in the pool one is ended and replaced; some go up to a quarter
	// earlier, so that not all go at once. It is to be shorter than the sandbox's own life. 0: never.
	MaxAge time.Duration

	// MaxIdle is after what time without a Take all are ended, until the next Take. 0: never.
	MaxIdle time.Duration

	// Prepare is called once on what was made, before it is ready, where nobody waits for it. Nil: a command
	// is run, whatever comes of it, because the first ones of a sandbox take longer than the next.
	Prepare func(ctx context.Context, w *Warm) error

	// Check looks whether a warm one is fit to be handed out, within the second that ctx lasts. A
	// Take waits for it. Nil: a ping of its guest agent.
	Check func(ctx context.Context, w *Warm) error
}

// Options are a Pool's settings. Nil is a pool without templates; the zero of each field is
// its default.
type Options struct {
	Templates map[string]Template

	Filling     int           // how many are made at once in the background, over all templates; 0 is 2
	Cold        int           // how many are made at once, of one template, for those who found none; 0 is 8
	MakeTimeout time.Duration // of one Make with its hello; 0 is a minute

	// Quiet is how long after a Take nothing is begun in the background, so that what was taken
	// has the processor; 0 is 20 ms. Where Takes leave no such gap, one is made after Patience
	// all the same; 0 is 250 ms.
	Quiet    time.Duration
	Patience time.Duration

	// Backoff is how long a template rests after a Make that failed, or after one of its
	// sandboxes ended by itself; it doubles up to MaxBackoff. 0 is 200 ms and 30 s.
	Backoff    time.Duration
	MaxBackoff time.Duration

	// Drain bounds Close; 0 is 30 s.
	Drain time.Duration

	// Logger takes, at debug, what is made and ended, and at warn what failed. Nil discards.
	Logger *slog.Logger
}

// A Warm is a sandbox that was taken. It belongs to the taker, who closes the client, and ends
// or releases the sandbox.
type Warm struct {
	Lasting sandbox.Lasting
	Client  *agent.Client // hello is said
}

// Stats count what a template's sandboxes did since it was added; Set goes on counting.
type Stats struct {
	Size    int `json:"size"`
	Ready   int `json:"ready"`
	Filling int `json:"filling"` // being made in the background
	Cold    int `json:"cold"`    // being made for those who wait
	Waiting int `json:"waiting"` // Takes that wait for one to be made
	Stuck   int `json:"stuck"`   // being made for longer than they may; nothing is made in the background meanwhile

	Hits      uint64 `json:"hits"`      // Takes that found one ready
	Misses    uint64 `json:"misses"`    // Takes that found none
	Created   uint64 `json:"created"`   // made
	Failed    uint64 `json:"failed"`    // not made
	Destroyed uint64 `json:"destroyed"` // ended by the pool, or by themselves in it
	Died      uint64 `json:"died"`      // of these, the ones that had ended or did not answer
}

// A Pool hands out warm sandboxes. It is safe for concurrent use.
type Pool struct {
	opts Options
	log  *slog.Logger
	stop context.CancelFunc // ends what is made, and tend
	kick chan struct{}      // there is something to tend
	ends chan struct{}      // held while a sandbox is ended
	work sync.WaitGroup     // every goroutine, and every Take that holds a sandbox

	mu       sync.Mutex
	closed   bool
	shelves  map[string]*shelf
	old      []*shelf  // of templates that were replaced, while something of theirs is made
	filling  int       // over all shelves
	lastTake time.Time // of any template
	since    time.Time // when there was something to fill first that has not begun; zero: there is not
}

// New starts a pool. Close ends it.
func New(opts *Options) (*Pool, error) {
	p := &Pool{opts: opts.withDefaults(), kick: make(chan struct{}, 1), ends: make(chan struct{}, 4), shelves: map[string]*shelf{}}
	p.log = p.opts.Logger
	for name, t := range p.opts.Templates {
		if err := t.validate(name); err != nil {
			return nil, err
		}
		p.shelves[name] = newShelf(name, t)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.work.Go(func() { p.tend(ctx) })
	return p, nil
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	for _, n := range []struct {
		to  *int
		not int
	}{{&d.Filling, DefaultFilling}, {&d.Cold, DefaultCold}} {
		if *n.to <= 0 {
			*n.to = n.not
		}
	}
	for _, t := range []struct {
		to  *time.Duration
		not time.Duration
	}{
		{&d.MakeTimeout, DefaultMakeTimeout},
		{&d.Quiet, DefaultQuiet},
		{&d.Patience, DefaultPatience},
		{&d.Backoff, DefaultBackoff},
		{&d.MaxBackoff, DefaultMaxBackoff},
		{&d.Drain, DefaultDrain},
	} {
		if *t.to <= 0 {
			*t.to = t.not
		}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

func (t *Template) validate(name string) error {
	switch {
	case name == "":
		return errors.New("a template of the pool has no name")
	case t.Make == nil:
		return fmt.Errorf("template %q of the pool has no Make", name)
	case t.MaxAge < 0 || t.MaxIdle < 0:
		return fmt.Errorf("template %q of the pool: a time is negative", name)
	}
	return validSize(name, t.Size)
}

func validSize(name string, size int) error {
	if size < 0 || size > MaxSize {
		return fmt.Errorf("template %q of the pool: size %d is not between 0 and %d", name, size, MaxSize)
	}
	return nil
}

// Resize changes how many of a template are kept ready. What is too many is ended, the oldest first.
func (p *Pool) Resize(template string, size int) error {
	if err := validSize(template, size); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.shelfLocked(template)
	if err != nil {
		return err
	}
	s.set.Size = size
	p.poke()
	return nil
}

// Set adds a template, or replaces it: those that were made as it was before are ended, and
// only a Take that waits already still gets one.
func (p *Pool) Set(template string, t Template) error {
	if err := t.validate(template); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	s := newShelf(template, t)
	if was := p.shelves[template]; was != nil {
		s.count = was.count
		p.retireLocked(was)
	}
	p.shelves[template] = s
	p.poke()
	return nil
}

// Drop takes a template out of the pool, as Set replaces one.
func (p *Pool) Drop(template string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.shelfLocked(template)
	if err != nil {
		return err
	}
	delete(p.shelves, template)
	p.retireLocked(s)
	p.poke()
	return nil
}

// Stats are each template's.
func (p *Pool) Stats() map[string]Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]Stats, len(p.shelves))
	for name, s := range p.shelves {
		all[name] = s.stats()
	}
	return all
}

func (p *Pool) shelfLocked(template string) (*shelf, error) {
	if p.closed {
		return nil, ErrClosed
	}
	s := p.shelves[template]
	if s == nil {
		return nil, fmt.Errorf("template %q: %w", template, ErrUnknown)
	}
	return s, nil
}

// poke has tend look. It never waits.
func (p *Pool) poke() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// Close ends all that is ready or being made, and returns when the last has ended, at the
// latest after Options.Drain: then the error says how much was left behind. Those who wait in Take get ErrClosed.
// What was taken is not the pool's any more. It may be called twice.
func (p *Pool) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		for _, s := range p.shelves {
			p.retireLocked(s)
		}
		for _, s := range p.old {
			s.failAllLocked(ErrClosed)
		}
	}
	p.mu.Unlock()
	p.stop()
	gone := make(chan struct{})
	go func() {
		p.work.Wait()
		close(gone)
	}()
	limit := time.NewTimer(p.opts.Drain)
	defer limit.Stop()
	select {
	case <-gone:
		return nil
	case <-limit.C:
		return p.leftBehind()
	}
}

// leftBehind says what Close did not wait for any longer.
func (p *Pool) leftBehind() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var making int
	for _, s := range p.old {
		making += s.underWay() + s.stuck
	}
	return fmt.Errorf("close the pool: after %s %d sandboxes are still being made and %d or more being ended", p.opts.Drain, making, len(p.ends))
}
