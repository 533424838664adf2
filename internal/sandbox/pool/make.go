package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

const (
	grace  = time.Second      // how long after its time a Make may return
	ending = 10 * time.Second // how long the end of one sandbox may take
)

// beginLocked makes one more of a shelf.
func (p *Pool) beginLocked(ctx context.Context, s *shelf, cold bool) {
	if cold {
		s.cold++
	} else {
		s.filling++
		p.filling++
	}
	j := &job{shelf: s, cold: cold}
	p.work.Go(func() {
		limited, cancel := context.WithTimeout(ctx, p.opts.MakeTimeout)
		defer cancel()
		late := time.AfterFunc(p.opts.MakeTimeout+grace, func() { p.overdue(j) })
		defer late.Stop()
		warm, err := bring(limited, s.set.Make)
		if err == nil && !cold {
			warm, err = prepared(limited, s, warm)
		}
		p.made(ctx, j, warm, err)
	})
}

// A job is one sandbox being made. Pool.mu guards it.
type job struct {
	shelf *shelf
	cold  bool
	late  bool // it is counted as stuck
	done  bool
}

// bring makes a sandbox and says hello to its agent.
func bring(ctx context.Context, make func(context.Context) (sandbox.Lasting, error)) (*Warm, error) {
	l, err := make(ctx)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, errors.New("neither a sandbox nor an error came of Make")
	}
	client, err := l.Client(ctx)
	if err == nil {
		return &Warm{Lasting: l, Client: client}, nil
	}
	return nil, errors.Join(fmt.Errorf("speak to the guest agent of %s: %w", l.ID(), err), end(&Warm{Lasting: l}))
}

// prepared does to a sandbox what is done before anybody asks for it.
func prepared(ctx context.Context, s *shelf, w *Warm) (*Warm, error) {
	prepare := s.set.Prepare
	if prepare == nil {
		prepare = warmUp
	}
	if err := prepare(ctx, w); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", w.Lasting.ID(), err), end(w))
	}
	return w, nil
}

// warmUp runs a command that any shell knows, twice: a fresh sandbox took 15 ms for its first command, 11 for its
// second and 6 for each one after that. An image without a shell says so, which costs as much; only an agent that
// does not answer is an error.
func warmUp(ctx context.Context, w *Warm) error {
	for range 2 {
		if _, err := w.Client.Run(ctx, agent.ExecParams{Argv: []string{"/bin/sh", "-c", ":"}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// overdue lets go of a Make that does not return: others have its place.
func (p *Pool) overdue(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.done {
		return
	}
	j.late = true
	j.shelf.stuck++
	p.failedLocked(j, fmt.Errorf("it takes longer than %s", p.opts.MakeTimeout))
	p.log.Warn("a sandbox for the pool takes too long", "template", j.shelf.name)
}

// made takes what came of a job.
func (p *Pool) made(ctx context.Context, j *job, w *Warm, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := j.shelf
	j.done = true
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "a sandbox for the pool was not made", "template", s.name, "error", err)
	}
	if err == nil {
		s.count.created++
		p.log.DebugContext(ctx, "made a sandbox for the pool", "template", s.name, "id", w.Lasting.ID())
	}
	switch {
	case j.late:
		s.stuck--
		if err == nil {
			p.endLocked(s, w, "made too late")
		}
		p.poke()
	case err != nil:
		p.failedLocked(j, err)
	default:
		s.failures = 0
		p.overLocked(j)
		p.placeLocked(s, w, time.Time{})
	}
}

// overLocked counts a job as done with.
func (p *Pool) overLocked(j *job) {
	if j.cold {
		j.shelf.cold--
	} else {
		j.shelf.filling--
		p.filling--
	}
	p.poke()
}

// failedLocked counts a job as failed. Who waits is told, if it was made for somebody who does: for
// others the next is begun.
func (p *Pool) failedLocked(j *job, err error) {
	s := j.shelf
	p.overLocked(j)
	s.count.failed++
	s.failures++
	s.restLocked(s.failures, &p.opts)
	if j.cold {
		s.answerLocked(answer{err: takeError(s.name, err)})
	}
}

// placeLocked gives a sandbox to who waits for one, puts it on its shelf, or ends it where it is not needed. until
// is when it has been there too long; zero: reckoned from now.
func (p *Pool) placeLocked(s *shelf, w *Warm, until time.Time) {
	if !p.closed && s.answerLocked(answer{warm: w}) {
		return
	}
	if p.closed || s.old || s.asleep || len(s.ready) >= s.set.Size {
		p.endLocked(s, w, "not needed")
		return
	}
	e := s.newEntry(w)
	if !until.IsZero() {
		e.until = until
	}
	s.ready = append(s.ready, e)
	p.work.Go(func() { p.watch(s, e) })
	p.poke()
}

// watch throws a sandbox away that ends while it waits.
func (p *Pool) watch(s *shelf, e *entry) {
	select {
	case <-e.taken:
		return
	case <-e.Lasting.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.removeLocked(e) {
		p.diedLocked(s, e.Warm)
	}
}

// diedLocked ends what ended by itself or does not answer. Where that happens again and again, what is made
// is of no use, and the background takes its time.
func (p *Pool) diedLocked(s *shelf, w *Warm) {
	s.count.died++
	s.deaths++
	s.restLocked(s.deaths, &p.opts)
	p.endLocked(s, w, "died")
	p.poke()
}

// retireLocked ends what a template has ready; who waits still gets what is made.
func (p *Pool) retireLocked(s *shelf) {
	s.old = true
	for len(s.ready) > 0 {
		e := s.ready[0]
		s.removeLocked(e)
		p.endLocked(s, e.Warm, "not needed any more")
	}
	if p.closed {
		s.failAllLocked(ErrClosed)
	}
	p.old = append(p.old, s)
}

// endLocked ends a sandbox in the background, a few at once.
func (p *Pool) endLocked(s *shelf, w *Warm, why string) {
	p.work.Go(func() {
		p.ends <- struct{}{}
		err := end(w)
		<-p.ends
		p.mu.Lock()
		defer p.mu.Unlock()
		s.count.destroyed++
		log := p.log.With("template", s.name, "id", w.Lasting.ID(), "why", why)
		if err != nil {
			log.Warn("a sandbox of the pool was not ended in order", "error", err)
			return
		}
		log.Debug("ended a sandbox of the pool")
	})
}

// end ends a sandbox and lets go of it.
func end(w *Warm) error {
	ctx, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	if w.Client != nil {
		w.Client.Close()
	}
	return errors.Join(w.Lasting.End(ctx), w.Lasting.Release())
}
