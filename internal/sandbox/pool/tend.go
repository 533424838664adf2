package pool

import (
	"context"
	"slices"
	"time"
)

const atLeast = time.Hour // how often there is a look without a reason

// tend begins what is to be made and ends what is too old, until ctx ends.
func (p *Pool) tend(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-timer.C:
		}
		timer.Reset(p.look(ctx, time.Now()))
	}
}

// look does what is due, and says when the next thing will be.
func (p *Pool) look(ctx context.Context, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return atLeast
	}
	next := now.Add(atLeast)
	at := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, s := range p.shelves {
		p.retireAgedLocked(s, now, at)
		p.serveLocked(ctx, s)
	}
	for _, s := range p.old {
		p.serveLocked(ctx, s)
	}
	p.old = slices.DeleteFunc(p.old, func(s *shelf) bool { return s.underWay() == 0 && s.stuck == 0 && len(s.waiting) == 0 })
	p.fillLocked(ctx, now, at)
	return max(time.Until(next), 0)
}

// retireAgedLocked ends what is too old, too many, or not asked for any more.
func (p *Pool) retireAgedLocked(s *shelf, now time.Time, at func(time.Time)) {
	if s.set.MaxIdle > 0 && !s.asleep && len(s.waiting) == 0 {
		if until := s.lastTake.Add(s.set.MaxIdle); now.Before(until) {
			at(until)
		} else {
			s.asleep = true
		}
	}
	for _, e := range slices.Clone(s.ready) {
		switch {
		case s.asleep, len(s.ready) > s.set.Size, !e.until.IsZero() && !now.Before(e.until):
			s.removeLocked(e)
			p.endLocked(s, e.Warm, "not needed any more")
		case !e.until.IsZero():
			at(e.until)
		}
	}
}

// serveLocked begins what those who wait need beyond what is being made.
func (p *Pool) serveLocked(ctx context.Context, s *shelf) {
	for s.cold < p.opts.Cold && s.underWay() < len(s.waiting) {
		p.beginLocked(ctx, s, true)
	}
}

// fillLocked begins what is lacking, the emptiest shelf first, unless takers come first.
func (p *Pool) fillLocked(ctx context.Context, now time.Time, at func(time.Time)) {
	for p.filling < p.opts.Filling {
		s, later := p.emptiestLocked(now)
		if !later.IsZero() {
			at(later)
		}
		if s == nil {
			p.since = time.Time{}
			return
		}
		if p.since.IsZero() {
			p.since = now
		}
		if due := p.dueLocked(); now.Before(due) {
			at(due)
			return
		}
		p.since = time.Time{}
		p.beginLocked(ctx, s, false)
	}
}

// dueLocked is when the background may begin something: some time after the last Take, and not while somebody waits,
// but not later than Patience allows.
func (p *Pool) dueLocked() time.Time {
	latest := p.since.Add(p.opts.Patience)
	for _, s := range p.shelves {
		if s.cold > 0 || len(s.waiting) > 0 {
			return latest
		}
	}
	if quiet := p.lastTake.Add(p.opts.Quiet); quiet.Before(latest) {
		return quiet
	}
	return latest
}

// emptiestLocked finds the shelf that lacks the most of its size, and when another might be filled.
func (p *Pool) emptiestLocked(now time.Time) (best *shelf, later time.Time) {
	var least float64
	for _, s := range p.shelves {
		if s.lacking() == 0 {
			continue
		}
		if now.Before(s.notBefore) {
			if later.IsZero() || s.notBefore.Before(later) {
				later = s.notBefore
			}
			continue
		}
		full := float64(len(s.ready)+s.filling) / float64(s.set.Size)
		if best == nil || full < least {
			best, least = s, full
		}
	}
	return best, later
}
