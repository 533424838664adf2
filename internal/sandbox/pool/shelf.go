package pool

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A shelf is a template and what is ready of it. Pool.mu guards it.
type shelf struct {
	name string
	set  Template
	old  bool // the template was replaced or dropped: nothing is put here any more

	ready   []*entry  // the oldest first
	waiting []*waiter // Takes that found none, the first first

	filling, cold int // being made: in the background, and for those who wait
	stuck         int // of neither any more: their time has passed and Make has not returned

	lastTake  time.Time
	asleep    bool      // MaxIdle has passed: nothing is made before the next Take
	failures  int       // Makes that failed, one after another
	deaths    int       // sandboxes that ended by themselves, since one was fit to be handed out
	notBefore time.Time // when the background may try again
	count     *counts
}

// counts are the parts of Stats that only grow. A template that is set again goes on with them.
type counts struct{ hits, misses, created, failed, destroyed, died uint64 }

// An entry is a sandbox that is ready.
type entry struct {
	*Warm
	until time.Time     // when it has been here for MaxAge; zero: never
	taken chan struct{} // closed when it leaves the shelf
}

// A waiter is a Take that waits.
type waiter struct {
	answer chan answer // takes one answer without anybody waiting
}

type answer struct {
	warm *Warm
	err  error
}

func newShelf(name string, t Template) *shelf {
	return &shelf{name: name, set: t, lastTake: time.Now(), count: &counts{}}
}

func (s *shelf) underWay() int { return s.filling + s.cold }

func (s *shelf) stats() Stats {
	return Stats{
		Size: s.set.Size, Ready: len(s.ready), Filling: s.filling, Cold: s.cold, Waiting: len(s.waiting), Stuck: s.stuck,
		Hits: s.count.hits, Misses: s.count.misses, Created: s.count.created,
		Failed: s.count.failed, Destroyed: s.count.destroyed, Died: s.count.died,
	}
}

// lacking is how many the background has yet to begin.
func (s *shelf) lacking() int {
	if s.old || s.asleep || s.stuck > 0 {
		return 0
	}
	n := s.set.Size - len(s.ready) - s.filling
	if s.failures > 0 || s.deaths > 0 {
		n = min(n, 1-s.filling) // one tries whether it works again
	}
	return max(n, 0)
}

// popLocked takes the oldest that is not too old; what is too old is given back as well.
func (s *shelf) popLocked(now time.Time) (e *entry, aged []*entry) {
	for len(s.ready) > 0 {
		first := s.ready[0]
		s.removeLocked(first)
		if first.until.IsZero() || now.Before(first.until) {
			return first, aged
		}
		aged = append(aged, first)
	}
	return nil, aged
}

// removeLocked takes an entry off the shelf, and reports whether it was there.
func (s *shelf) removeLocked(e *entry) bool {
	i := slices.Index(s.ready, e)
	if i < 0 {
		return false
	}
	s.ready = slices.Delete(s.ready, i, i+1)
	close(e.taken)
	return true
}

// newEntry gives a sandbox its time on the shelf.
func (s *shelf) newEntry(w *Warm) *entry {
	e := &entry{Warm: w, taken: make(chan struct{})}
	if s.set.MaxAge > 0 {
		e.until = time.Now().Add(s.set.MaxAge - rand.N(s.set.MaxAge/4+1))
	}
	return e
}

// answerLocked hands an answer to who has waited longest, and reports whether somebody did.
func (s *shelf) answerLocked(a answer) bool {
	if len(s.waiting) == 0 {
		return false
	}
	s.waiting[0].answer <- a
	s.waiting = slices.Delete(s.waiting, 0, 1)
	return true
}

func (s *shelf) failAllLocked(err error) {
	for s.answerLocked(answer{err: err}) {
	}
}

// restLocked has the background wait after n things in a row went wrong.
func (s *shelf) restLocked(n int, o *Options) {
	wait := o.MaxBackoff
	if n < 20 {
		wait = min(wait, o.Backoff<<(n-1))
	}
	s.notBefore = time.Now().Add(wait/2 + rand.N(wait/2+1))
}
