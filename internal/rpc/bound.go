package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTimeout is a call whose own time limit passed.
var ErrTimeout = errors.New("response timeout")

// errEnded marks the errors of ended, to tell them from a connection's.
var errEnded = errors.New("ended")

// errUnsent marks an errEnded of a frame of which nothing went out.
var errUnsent = errors.New("before it was sent")

// ended is why a wait that ctx and deadline (zero: none) bound is over, or nil. It wraps
// errEnded, and ctx's error or ErrTimeout.
func ended(ctx context.Context, deadline time.Time) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", errEnded, ErrTimeout)
	}
	return nil
}

// until returns a channel that is ready at the deadline; zero is never.
func until(deadline time.Time) (c <-chan time.Time, stop func()) {
	if deadline.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(deadline))
	return t.C, func() { t.Stop() }
}
