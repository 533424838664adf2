package pool

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	checking = time.Second  // bounds one check
	trying   = 2 * checking // after this time a Take looks at no further one, and has one made
)

// Take hands out a sandbox of the template that answered just now. Where none is ready it waits for one to be
// made; an error then says why it was not. Nothing is handed out after ctx is done: what was
// meant for that Take stays in the pool.
func (p *Pool) Take(ctx context.Context, template string) (*Warm, error) {
	if err := ctx.Err(); err != nil {
		return nil, takeError(template, err)
	}
	start := time.Now()
	for {
		s, e, w, err := p.pick(template, time.Since(start) < trying)
		switch {
		case err != nil:
			return nil, err
		case w != nil:
			return p.await(ctx, s, w)
		}
		if warm, err := p.try(ctx, s, e); warm != nil || err != nil {
			return warm, err
		}
	}
}

func takeError(template string, err error) error {
	return fmt.Errorf("take a sandbox of template %q: %w", template, err)
}

// pick gives an entry to try, and otherwise a place among those who wait. Either counts as work
// until try or await is done with it.
func (p *Pool) pick(template string, look bool) (*shelf, *entry, *waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.shelfLocked(template)
	if err != nil {
		return nil, nil, nil, err
	}
	now := time.Now()
	p.lastTake, s.lastTake, s.asleep = now, now, false
	p.poke()
	if look {
		e, aged := s.popLocked(now)
		for _, old := range aged {
			p.endLocked(s, old.Warm, "too old")
		}
		if e != nil {
			p.work.Add(1)
			return s, e, nil, nil
		}
	}
	p.work.Add(1)
	s.count.misses++
	w := &waiter{answer: make(chan answer, 1)}
	s.waiting = append(s.waiting, w)
	return s, nil, w, nil
}

// try checks an entry that was picked. Neither a sandbox nor an error: it is not fit.
func (p *Pool) try(ctx context.Context, s *shelf, e *entry) (*Warm, error) {
	defer p.work.Done()
	err := check(ctx, s, e.Warm)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		p.endLocked(s, e.Warm, "closed")
		return nil, ErrClosed
	case ctx.Err() != nil:
		p.placeLocked(s, e.Warm, e.until)
		return nil, takeError(s.name, ctx.Err())
	case err != nil:
		p.log.WarnContext(ctx, "a warm sandbox is not fit to be handed out", "template", s.name, "id", e.Lasting.ID(), "error", err)
		p.diedLocked(s, e.Warm)
		return nil, nil
	}
	s.count.hits++
	s.deaths = 0
	return e.Warm, nil
}

func check(ctx context.Context, s *shelf, w *Warm) error {
	select {
	case <-w.Lasting.Done():
		return fmt.Errorf("it has ended: %w", w.Lasting.Err())
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, checking)
	defer cancel()
	if s.set.Check != nil {
		return s.set.Check(ctx, w)
	}
	return w.Client.Ping(ctx)
}

// await waits for what was promised to a waiter.
func (p *Pool) await(ctx context.Context, s *shelf, w *waiter) (*Warm, error) {
	defer p.work.Done()
	select {
	case a := <-w.answer:
		return a.warm, a.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else if a := <-w.answer; a.warm != nil { // it came at the same time
		p.placeLocked(s, a.warm, time.Time{})
	}
	return nil, takeError(s.name, ctx.Err())
}
