package lines

import (
	"context"
	"sync"
)

// maxErrors is how many errors may wait for an agent that does not read: answers are as many
// as may be open at once, but errors would be as many as it provokes.
const maxErrors = 32

// An input takes what an agent reads: a process's stdin. Both methods return when the agent
// can take more, which may be never, or soon after ctx is done.
type input interface {
	Input(ctx context.Context, data []byte) error
	CloseInput(ctx context.Context) error
}

// A feed is what waits to be written to an agent. Nobody but its own goroutine waits for
// an agent that does not read. It is safe for concurrent use.
type feed struct {
	wake chan struct{} // holds one token where there may be something to do

	mu     sync.Mutex
	items  []item
	errs   int  // of items, those that are errors
	ending bool // nothing more is taken, and stdin is closed behind items
	broken bool // the agent takes nothing any more
}

// An item is a line on its way.
type item struct {
	line  []byte
	error bool
	gone  func() // called when it does not wait any more; may be nil
}

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

// put adds a line, or drops it where there is nobody to take it.
func (f *feed) put(it item) {
	if f.add(it, false) {
		return
	}
	if it.gone != nil {
		it.gone()
	}
}

// first puts a line before those that wait. It reports whether it still may reach the agent.
func (f *feed) first(line []byte) bool { return f.add(item{line: line}, true) }

func (f *feed) add(it item, first bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending || f.broken || it.error && f.errs >= maxErrors {
		return false
	}
	if it.error {
		f.errs++
	}
	if first {
		f.items = append([]item{it}, f.items...)
	} else {
		f.items = append(f.items, it)
	}
	f.signal()
	return true
}

// deaf reports whether the agent is known to take nothing any more.
func (f *feed) deaf() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken || f.ending
}

// close closes the agent's stdin; what still waits is dropped.
func (f *feed) close() {
	f.mu.Lock()
	f.ending = true
	dropped := f.takeAllLocked()
	f.signal()
	f.mu.Unlock()
	letGo(dropped)
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run writes until stdin is closed, the agent takes no more, or ctx is done.
func (f *feed) run(ctx context.Context, to input) {
	defer f.stop()
	for {
		it, some, ending := f.take()
		switch {
		case some:
			// Who reads the line may ask for the next thing at once, so its place is free by then.
			if it.gone != nil {
				it.gone()
			}
			if to.Input(ctx, it.line) != nil {
				return // it has closed its stdin, or has ended
			}
			continue
		case ending:
			_ = to.CloseInput(ctx) // as above
			return
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (f *feed) take() (it item, some, ending bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items) == 0 {
		return item{}, false, f.ending
	}
	it, f.items = f.items[0], f.items[1:]
	if it.error {
		f.errs--
	}
	return it, true, f.ending
}

// stop drops what waits, and all that comes.
func (f *feed) stop() {
	f.mu.Lock()
	f.broken = true
	dropped := f.takeAllLocked()
	f.mu.Unlock()
	letGo(dropped)
}

func (f *feed) takeAllLocked() []item {
	all := f.items
	f.items, f.errs = nil, 0
	return all
}

func letGo(dropped []item) {
	for _, it := range dropped {
		if it.gone != nil {
			it.gone()
		}
	}
}
