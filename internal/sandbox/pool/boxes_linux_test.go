package pool_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/leaktest"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/pool"
)

// ownerMode makes this program one that owns a pool below the folder it names, until it is killed.
const ownerMode = "AIRLOCK_TEST_POOL_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerMode); dir != "" {
		own(dir)
	}
	leaktest.Main(m)
}

// boxes makes sandboxes without isolation: each is a real guest agent in this process.
type boxes struct {
	t    *testing.T
	slow time.Duration // what one takes to make

	// before is asked before one is made, and after what was made is told; either may be nil.
	before func(ctx context.Context) error
	after  func(*box)

	making, most atomic.Int64 // at once
	made         atomic.Int64
	mu           sync.Mutex
	all          []*box
}

func (b *boxes) make(ctx context.Context) (sandbox.Lasting, error) {
	now := b.making.Add(1)
	defer b.making.Add(-1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
	if b.before != nil {
		if err := b.before(ctx); err != nil {
			return nil, err
		}
	}
	if b.slow > 0 {
		select {
		case <-time.After(b.slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	g, err := guest.New(nil)
	if err != nil {
		return nil, err
	}
	x := &box{id: sandbox.NewID(), guest: g, done: make(chan struct{}), mute: make(chan struct{})}
	b.mu.Lock()
	b.all = append(b.all, x)
	b.mu.Unlock()
	b.made.Add(1)
	if b.after != nil {
		b.after(x)
	}
	return x, nil
}

// living are the IDs of those that have not ended.
func (b *boxes) living() (ids []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.all {
		select {
		case <-x.done:
		default:
			ids = append(ids, x.id)
		}
	}
	return ids
}

func (b *boxes) each(f func(*box)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.all {
		f(x)
	}
}

// A box is a sandbox.Lasting over its guest agent. What the pool never calls is not there: it
// would be a nil call, and so a failure.
type box struct {
	sandbox.Lasting
	id      string
	guest   *guest.Agent
	serving sync.WaitGroup
	once    sync.Once
	muting  sync.Once
	done    chan struct{}
	mute    chan struct{}                   // closed: nothing that is said to its agent arrives
	refuse  error                           // of Client
	hang    func(ctx context.Context) error // of End; nil: it does not

	releases atomic.Int64
}

func (x *box) ID() string            { return x.id }
func (x *box) Done() <-chan struct{} { return x.done }
func (x *box) Err() error            { return errors.New("ended") }

func (x *box) Client(ctx context.Context) (*agent.Client, error) {
	if x.refuse != nil {
		return nil, x.refuse
	}
	near, far := net.Pipe()
	x.serving.Go(func() { _ = x.guest.Serve(context.Background(), &mutable{Conn: far, mute: x.mute}) })
	c := agent.NewClient(near, nil)
	if _, err := c.Hello(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (x *box) End(ctx context.Context) error {
	if x.hang != nil {
		return x.hang(ctx)
	}
	x.die()
	x.serving.Wait()
	return nil
}

func (x *box) Release() error { x.releases.Add(1); return nil }

// die is its end from outside.
func (x *box) die() {
	x.once.Do(func() {
		x.guest.Close()
		close(x.done)
	})
}

// fallSilent leaves it running, with an agent that hears nothing.
func (x *box) fallSilent() { x.muting.Do(func() { close(x.mute) }) }

// mutable is a connection on which, once it is mute, nothing arrives.
type mutable struct {
	net.Conn
	mute <-chan struct{}
}

func (m *mutable) Read(p []byte) (int, error) {
	for {
		n, err := m.Conn.Read(p)
		select {
		case <-m.mute:
			if err != nil {
				return 0, io.EOF
			}
		default:
			return n, err
		}
	}
}

// patient checks a sandbox as the pool does by default, but for as long as it takes: where a machine stands still for a second,
// what is well would be thrown away, and what a test counts would be other numbers.
func (b *boxes) patient(_ context.Context, w *pool.Warm) error { return w.Client.Ping(b.t.Context()) }

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
