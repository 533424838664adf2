package guest

import (
	"runtime/debug"
	"sync"
	"time"
)

// restAfter is how long the agent waits after its last command before it gives the
// memory back that commands took.
const restAfter = time.Second

// rest gives memory back when nothing has been done for a while, so that a sandbox that
// is only kept costs little. Its zero value is ready.
type rest struct {
	mu    sync.Mutex
	timer *time.Timer
}

// later starts the wait anew.
func (r *rest) later() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		r.timer = time.AfterFunc(restAfter, debug.FreeOSMemory)
		return
	}
	r.timer.Reset(restAfter)
}

// stop ends the wait.
func (r *rest) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
}
