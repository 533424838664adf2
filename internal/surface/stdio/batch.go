package stdio

import (
	"context"
	"sync"
)

// A batch is calls that run at once and are answered in their order.
type batch struct {
	mu      sync.Mutex
	change  *sync.Cond // of what follows
	begun   int
	answers [][]byte // nil: not there yet, or written
	held    int      // bytes of answers
	maxHeld int
	failed  bool
	ended   bool // no further call is to begin
}

// batch makes calls, and writes their answers as one line, each as soon as those before it
// are written. The calls' context may end before that of the writing.
func (s *Server) batch(ctx, running context.Context, calls []call, o *outlet) (failed bool, err error) {
	if len(calls) == 0 {
		return false, o.write(ctx, []byte("[]\n"))
	}
	jobs, held := s.Jobs, s.MaxHeld
	if jobs < 1 {
		jobs = defaultJobs
	}
	if held < 1 {
		held = defaultHeld
	}
	running, stop := context.WithCancel(running)
	defer stop()
	b := &batch{answers: make([][]byte, len(calls)), maxHeld: held}
	b.change = sync.NewCond(&b.mu)
	var workers sync.WaitGroup
	for range min(jobs, len(calls)) {
		workers.Go(func() {
			for i, more := b.begin(); more; i, more = b.begin() {
				text, ok := s.one(running, &calls[i])
				b.finish(i, text, ok)
			}
		})
	}
	for i := range calls {
		text := b.wait(i)
		size := len(text)
		if i == 0 {
			text = append([]byte("["), text...)
		}
		if i < len(calls)-1 {
			text = append(text, ',')
		} else {
			text = append(text, "]\n"...)
		}
		if err = o.write(ctx, text); err != nil {
			break
		}
		b.written(size)
	}
	stop()
	b.end()
	workers.Wait()
	return b.failed, err
}

// begin gives the next call to make. The one whose answer is written next has always begun
// already when another waits for room: calls begin in their order.
func (b *batch) begin() (i int, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.held > b.maxHeld && !b.ended {
		b.change.Wait()
	}
	if b.ended || b.begun == len(b.answers) {
		return 0, false
	}
	b.begun++
	return b.begun - 1, true
}

func (b *batch) finish(i int, text []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[i] = text
	b.held += len(text)
	b.failed = b.failed || !ok
	b.change.Broadcast()
}

// wait gives an answer when it is there.
func (b *batch) wait(i int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.answers[i] == nil {
		b.change.Wait()
	}
	text := b.answers[i]
	b.answers[i] = nil
	return text
}

func (b *batch) written(size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= size
	b.change.Broadcast()
}

func (b *batch) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.change.Broadcast()
}
