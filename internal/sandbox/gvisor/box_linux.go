package gvisor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

// box is one sandbox and the process that keeps it.
type box struct {
	driver  *Driver
	spec    sandbox.Spec
	dir     string // of this sandbox, below the driver's run folder
	lock    *os.File
	started time.Time
	noted   time.Time // when that was, with the clock that nobody sets
	keeper  *launch.Keeper
	control *net.UnixConn
	client  *agent.Client
	notes   []string
	lasting *lastPlan // of one that lasts
	saved   *saved    // what it is restored from
	agents  string    // of one that lasts: see agentFolder

	calls   sync.Mutex // one request to the keeper at a time
	late    int        // replies to come that nobody waits for any more; calls guards it
	replies chan reply
	heard   chan struct{} // closed when nothing more is read of the keeper

	done    chan struct{} // closed when the keeper has ended
	mu      sync.Mutex
	ended   *ending // what the keeper said of the sandbox's end
	closing bool

	closeOnce sync.Once
	closeErr  error
}

// lastWords is how long a keeper that has ended is listened to, should somebody else hold
// its end of the connection. A machine may stand still for a second, and the reason would be lost.
const lastWords = 5 * time.Second

// watch waits for the keeper's end.
func (b *box) watch() {
	_, _ = b.keeper.Process.Wait() // why it ended, it has said itself
	// What it said last, which is how the sandbox ended, is read before anybody asks.
	b.control.SetReadDeadline(time.Now().Add(lastWords))
	select {
	case <-b.heard:
	case <-time.After(2 * lastWords):
	}
	close(b.done)
}

// listen reads what the keeper says: replies, and how the sandbox ended.
func (b *box) listen() {
	defer close(b.heard)
	defer close(b.replies)
	buf := make([]byte, 256<<10)
	for {
		n, err := b.control.Read(buf)
		if err != nil || n == 0 {
			return
		}
		var m reply
		if json.Unmarshal(buf[:n], &m) != nil {
			return
		}
		if m.Ended != nil {
			b.mu.Lock()
			b.ended = m.Ended
			b.mu.Unlock()
			continue
		}
		b.replies <- m
	}
}

// call makes a request of the keeper, with the files that belong to it.
func (b *box) call(ctx context.Context, req request, files ...*os.File) (reply, error) {
	b.calls.Lock()
	defer b.calls.Unlock()
	data, err := json.Marshal(req)
	if err != nil {
		return reply{}, err
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := b.control.WriteMsgUnix(data, oob, nil); err != nil {
		return reply{}, b.endErr(err)
	}
	for {
		select {
		case rep, ok := <-b.replies:
			if !ok {
				return reply{}, b.endErr(io.ErrUnexpectedEOF)
			}
			if b.late > 0 {
				b.late-- // to one of before
				continue
			}
			return rep, rep.err()
		case <-ctx.Done():
			b.late++
			return reply{}, ctx.Err()
		}
	}
}

// endErr says what the end of the sandbox makes of an error.
func (b *box) endErr(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended != nil {
		return b.ended.err()
	}
	return fmt.Errorf("%w: %w", sandbox.ErrEnded, err)
}

// letGo leaves a sandbox that lasts to its keeper.
func (b *box) letGo() {
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.control.Close()
	b.lock.Close()
	b.keeper.Forget()
}

func (b *box) ID() string            { return b.spec.ID }
func (b *box) Client() *agent.Client { return b.client }
func (b *box) Started() time.Time {
	return sandbox.SteadyStart(b.started, b.noted, time.Now(), time.Since(b.noted))
}
func (b *box) Done() <-chan struct{} { return b.done }
func (b *box) Notes() []string       { return b.notes }

// Identity is empty for root, whose agent is root as well, and in an image, where
// everybody is.
func (b *box) Identity() string {
	if os.Geteuid() == 0 || b.spec.Root != "" {
		return ""
	}
	return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
}

func (b *box) Err() error {
	select {
	case <-b.done:
	default:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended != nil:
		return b.ended.err()
	case b.closing:
		return nil
	default:
		return sandbox.ErrEnded
	}
}

// Upper writes the upper layer.
func (b *box) Upper(ctx context.Context, w io.Writer) error {
	return readUpper(ctx, b.spec.ID, w, func(pw *os.File) error {
		_, err := b.call(ctx, request{Op: opUpper}, pw)
		return b.settle(err)
	})
}

// readUpper copies to w what call has the keeper write into a pipe.
func readUpper(ctx context.Context, id string, w io.Writer, call func(*os.File) error) error {
	r, pw, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("read what sandbox %s changed: %w", id, err)
	}
	defer r.Close()
	_, _ = unix.FcntlInt(pw.Fd(), unix.F_SETPIPE_SZ, 1<<20) // a smaller pipe works too, slower
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		if err != nil {
			r.Close() // the writer gets EPIPE instead of waiting for a reader that is gone
		}
		copied <- err
	}()
	called := make(chan error, 1)
	go func() { called <- call(pw) }()
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	// Our end is closed once the keeper has its own; the copy then ends with the tar.
	err = <-called
	pw.Close()
	copyErr := <-copied
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil:
		err = copyErr
	}
	if err != nil {
		return fmt.Errorf("read what sandbox %s changed: %w", id, err)
	}
	return nil
}

// settleTime is how long the reason of a sandbox's end may lag behind its effects.
const settleTime = time.Second

// settle gives the reason for which the sandbox ended, if err came of its end.
func (b *box) settle(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-b.done:
		return b.endErr(err)
	case <-time.After(settleTime):
		return err
	}
}

// Close ends the sandbox: the keeper sees the control socket close, ends everything,
// removes its cgroup and goes; then the folder is removed.
func (b *box) Close() error {
	b.closeOnce.Do(func() {
		b.mu.Lock()
		b.closing = true
		b.mu.Unlock()
		b.closeErr = b.abandon()
	})
	return b.closeErr
}

// keeperGrace is how long a keeper may take to end everything before it is killed; its
// children then die with it, and Sweep removes what it could not.
const keeperGrace = 10 * time.Second

func (b *box) abandon() error {
	if b.control != nil {
		b.control.CloseWrite()
	}
	if b.keeper != nil {
		select {
		case <-b.done:
		case <-time.After(keeperGrace):
			b.keeper.Process.Kill()
			<-b.done
		}
	}
	if b.client != nil {
		b.client.Close()
	}
	if b.control != nil {
		b.control.Close()
	}
	if b.keeper != nil {
		b.keeper.Forget()
	}
	if b.dir == "" {
		return nil
	}
	if b.lock != nil {
		defer b.lock.Close()
	}
	if b.spec.Limits != (sandbox.Limits{}) {
		// A keeper that was killed left it.
		if err := removeCgroup(cgroupOf(b.spec.ID)); err != nil {
			b.driver.log.Warn("left to the next sweep", "error", err)
			return nil
		}
	}
	return removeRun(b.dir)
}
