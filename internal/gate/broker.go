package gate

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Why an answer to a broker's question is refused.
var (
	ErrNoRequest = errors.New("there is no such question; it was answered, has expired or never was")
	ErrDigest    = errors.New("the answer is to something else than what is asked")
	ErrTooMany   = errors.New("too many questions are open")
)

// maxPending is how many questions may be open at once.
const maxPending = 100

// A Broker is an Approver for front ends that list questions and answer them later, such
// as a web page: it keeps each until somebody resolves it or it expires. The zero
// Broker is ready. It is safe for concurrent use.
type Broker struct {
	Now func() time.Time // nil: time.Now

	mu   sync.Mutex
	open []*pending
}

type pending struct {
	request Request
	answer  chan Answer // of one
}

// Approve waits until the request is resolved.
func (b *Broker) Approve(ctx context.Context, r *Request) (Answer, error) {
	p := &pending{*r, make(chan Answer, 1)}
	b.mu.Lock()
	if len(b.open) >= maxPending {
		b.mu.Unlock()
		return Answer{}, fmt.Errorf("%w (%d)", ErrTooMany, maxPending)
	}
	b.open = append(b.open, p)
	b.mu.Unlock()
	defer b.drop(p)
	select {
	case a := <-p.answer:
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

func (b *Broker) drop(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = slices.DeleteFunc(b.open, func(o *pending) bool { return o == p })
}

// Pending lists the open questions, the oldest first.
func (b *Broker) Pending() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Request, 0, len(b.open))
	for _, p := range b.open {
		if b.now().Before(p.request.Expires) {
			out = append(out, p.request)
		}
	}
	return out
}

// Resolve answers a question, once: the digest must be the one that was shown. The error
// is ErrNoRequest or ErrDigest.
func (b *Broker) Resolve(id, digest string, approved bool, by, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.open, func(p *pending) bool { return p.request.ID == id })
	if i < 0 || !b.now().Before(b.open[i].request.Expires) {
		return ErrNoRequest
	}
	p := b.open[i]
	if subtle.ConstantTimeCompare([]byte(digest), []byte(p.request.Digest)) != 1 {
		return ErrDigest
	}
	b.open = slices.Delete(b.open, i, i+1) // under the lock: there is no second answer
	p.answer <- Answer{ID: id, Digest: digest, Approved: approved, By: by, Reason: reason}
	return nil
}

func (b *Broker) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

// First asks all approvers at once; the first answer, yes or no, wins, and the others are
// told to stop. One that fails does not answer for the others: only where all fail is
// there an error, which is ErrNobody's where none had anybody to ask.
func First(approvers ...Approver) Approver { return first(approvers) }

type first []Approver

func (f first) Approve(ctx context.Context, r *Request) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	type reply struct {
		answer Answer
		err    error
	}
	replies := make(chan reply, len(f))
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for _, a := range f {
		asking.Go(func() {
			own := *r
			answer, err := a.Approve(ctx, &own)
			replies <- reply{answer, err}
		})
	}
	err := ErrNobody
	for range f {
		got := <-replies
		if got.err == nil {
			return got.answer, nil
		}
		if !errors.Is(got.err, ErrNobody) {
			err = got.err
		}
	}
	return Answer{}, err
}
