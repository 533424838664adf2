package lines

import (
	"sync"
	"time"

	"airlock/internal/event"
)

// pace is the least time between two events of progress: twenty a second are more than
// anybody reads.
const pace = 50 * time.Millisecond

// A pacer publishes progress as often as is of use. Of what comes faster the last one is
// published. It is safe for concurrent use.
type pacer struct {
	publish func(event.Event)
	wake    chan struct{} // holds one token where one is held back

	mu   sync.Mutex
	last time.Time // of publishing
	held *event.Progress
}

func newPacer(publish func(event.Event)) *pacer {
	return &pacer{publish: publish, wake: make(chan struct{}, 1)}
}

// say publishes one, now or later.
func (p *pacer) say(e event.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil && time.Since(p.last) >= pace {
		p.last = time.Now()
		p.publish(e)
		return
	}
	p.held = &e
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run publishes what is held back when its time has come, and when done is closed.
func (p *pacer) run(done <-chan struct{}) {
	defer p.flush()
	timer := time.NewTimer(pace)
	defer timer.Stop()
	for {
		select {
		case <-p.wake:
		case <-done:
			return
		}
		timer.Reset(p.rest())
		select {
		case <-timer.C:
			p.flush()
		case <-done:
			return
		}
	}
}

// rest is how long the next one has to wait.
func (p *pacer) rest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(pace-time.Since(p.last), 0)
}

// flush publishes what is held back.
func (p *pacer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		return
	}
	p.last = time.Now()
	p.publish(*p.held)
	p.held = nil
}
