package netgate

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleTimeout  = 30 * time.Minute // without a byte, where some could come
	lingerAfter  = 30 * time.Second // without a byte, after one side's end that the other could not be told of
	tunnelBuffer = 32 << 10
)

// tunnel copies both ways until both sides have ended, one has broken, nothing comes any more, or ctx ends; then both
// are closed. sent and received count from near to far and back.
func tunnel(ctx context.Context, near, far net.Conn, idle time.Duration) (sent, received int64) {
	t := &tunneling{near: near, far: far, idle: idle}
	stop := context.AfterFunc(ctx, t.close)
	defer stop()
	t.start()
	var copying sync.WaitGroup
	copying.Go(func() { t.copy(far, near, &t.sent) })
	copying.Go(func() { t.copy(near, far, &t.received) })
	copying.Wait()
	t.close()
	return t.sent.Load(), t.received.Load()
}

type tunneling struct {
	near, far      net.Conn
	idle           time.Duration
	moved          atomic.Bool // a byte, since the watch last looked
	sent, received atomic.Int64

	mu     sync.Mutex
	closed bool
	linger bool
	watch  *time.Timer
}

func (t *tunneling) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = time.AfterFunc(t.idle, t.expire)
}

func (t *tunneling) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if t.watch != nil {
		t.watch.Stop()
	}
	_ = t.near.Close()
	_ = t.far.Close()
}

// expire closes a tunnel in which nothing moved since it looked last.
func (t *tunneling) expire() {
	if !t.moved.Swap(false) {
		t.close()
		return
	}
	t.rearm(false)
}

func (t *tunneling) rearm(linger bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.linger = t.linger || linger
	if t.linger {
		t.watch.Reset(min(t.idle, lingerAfter))
	} else {
		t.watch.Reset(t.idle)
	}
}

// copy copies one direction and passes its end on. Where that cannot be told by half, the other direction is given
// time to run out.
func (t *tunneling) copy(dst, src net.Conn, count *atomic.Int64) {
	_, err := io.CopyBuffer(&telling{dst, t, count}, struct{ io.Reader }{src}, make([]byte, tunnelBuffer))
	if err != nil {
		t.close()
		return
	}
	if closeWrite(dst) != nil {
		t.rearm(true)
	}
}

// A telling tells a tunnel what is written.
type telling struct {
	dst   io.Writer
	t     *tunneling
	count *atomic.Int64
}

func (w *telling) Write(p []byte) (int, error) {
	n, err := w.dst.Write(p)
	w.count.Add(int64(n))
	w.t.moved.Store(true)
	return n, err
}
