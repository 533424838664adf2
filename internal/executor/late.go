package executor

import (
	"context"
	"errors"
	"sync"
	"time"
)

// resultLag is how long a result may wait for the next call's rows, to be written along
// with them: each transaction waits for the disk, and an answer need not.
const resultLag = 50 * time.Millisecond

// lateResults are results that are queued and may not be on the disk yet. It is safe for
// concurrent use.
type lateResults struct {
	mu      sync.Mutex
	waiting []*pending
	timer   *time.Timer
	failed  error
}

// add takes what is left to wait for, if anything is, and sees to it that it is not left
// for long.
func (l *lateResults) add(p *pending) {
	if p.wait == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, p)
	if l.timer == nil {
		l.timer = time.AfterFunc(resultLag, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.writeLocked()
		})
	}
}

// flush waits until everything is on the disk, and says what is not.
func (l *lateResults) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeLocked()
	err := l.failed
	l.failed = nil
	return err
}

func (l *lateResults) writeLocked() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	for _, p := range l.waiting {
		if err := p.check(ctx); err != nil {
			l.failed = errors.Join(l.failed, notRecorded(err))
		}
	}
	l.waiting = nil
}
