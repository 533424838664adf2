package netgate

import (
	"sync"
	"time"
)

// Bounds of what is recorded, so that nobody inside can fill the host's disk: so many Events at
// once, and then so many a second.
const (
	recordBurst = 500
	recordRate  = 20
	maxHost     = 256 // bytes of an Event's Host
)

// A recorder hands Events on, one at a time, and counts those that are too many.
type recorder struct {
	to  func(Event)
	now func() time.Time

	mu      sync.Mutex
	tokens  float64
	last    time.Time
	dropped int
}

func newRecorder(to func(Event), now func() time.Time) *recorder {
	if to == nil {
		to = func(Event) {}
	}
	return &recorder{to: to, now: now, tokens: recordBurst, last: now()}
}

func (r *recorder) record(e Event) {
	if len(e.Host) > maxHost {
		e.Host = e.Host[:maxHost] + "…"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.tokens = min(recordBurst, r.tokens+now.Sub(r.last).Seconds()*recordRate)
	r.last = now
	if r.tokens < 1 {
		r.dropped++
		return
	}
	r.tokens--
	e.Dropped, r.dropped = r.dropped, 0
	r.to(e)
}

// close tells of Events that were dropped and not told of yet.
func (r *recorder) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		r.to(Event{At: r.now(), Why: "more connections were asked for than are recorded one by one", Dropped: r.dropped})
		r.dropped = 0
	}
}
