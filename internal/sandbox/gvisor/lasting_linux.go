package gvisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// lasting is a sandbox that lasts, as a program that opened it sees it.
type lasting struct {
	about about
	watch *net.UnixConn // ends with the sandbox
	quiet bool

	done chan struct{}
	mu   sync.Mutex
	err  error
	free bool // Release was called
}

// Keep makes a sandbox that lasts.
func (d *Driver) Keep(ctx context.Context, spec *sandbox.LastingSpec) (sandbox.Lasting, error) {
	return d.keep(ctx, spec, "")
}

// Restore makes a sandbox that goes on from what was saved in dir.
func (d *Driver) Restore(ctx context.Context, spec *sandbox.LastingSpec, dir string) (sandbox.Lasting, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("restore a sandbox: the folder %q is not absolute", dir)
	}
	return d.keep(ctx, spec, dir)
}

func (d *Driver) keep(ctx context.Context, spec *sandbox.LastingSpec, restore string) (sandbox.Lasting, error) {
	b, engine, err := d.newLasting(ctx, spec)
	if err != nil {
		return nil, err
	}
	b.lasting.Restore = restore
	if restore != "" {
		if b.saved, err = readSaved(restore); err != nil {
			return nil, err
		}
		b.agents, b.lasting.SavedBy = b.saved.Agents, b.saved.Engine
	} else if b.agents, err = d.agentFolder(ctx); err != nil {
		return nil, err
	}
	b.lasting.Agents = b.agents
	if err := b.start(ctx, engine); err != nil {
		return nil, errors.Join(err, b.abandon())
	}
	return b.handOver(ctx)
}

// newLasting is newBox for a sandbox that lasts.
func (d *Driver) newLasting(ctx context.Context, spec *sandbox.LastingSpec) (*box, string, error) {
	b, engine, err := d.newBox(ctx, &spec.Spec)
	if err != nil {
		return nil, "", err
	}
	b.lasting = &lastPlan{
		Times: spec.Times, Expired: spec.Expired, Gate: spec.Gate, GateInput: spec.GateInput,
		Ended: filepath.Join(d.endedDir(), b.spec.ID),
	}
	return b, engine, nil
}

// handOver leaves a sandbox that runs to its keeper, and opens it as anybody does.
func (b *box) handOver(ctx context.Context) (sandbox.Lasting, error) {
	l, err := b.driver.openDir(ctx, b.dir)
	if err == nil {
		_, err = b.call(ctx, request{Op: opKeep})
	}
	if err != nil {
		return nil, errors.Join(err, b.abandon())
	}
	b.letGo()
	return l, nil
}

// readSaved reads what lies beside a checkpoint's files.
func readSaved(dir string) (*saved, error) {
	data, err := os.ReadFile(filepath.Join(dir, savedName))
	if err != nil {
		return nil, fmt.Errorf("restore a sandbox: %w", err)
	}
	s := &saved{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("restore a sandbox: %s: %w", savedName, err)
	}
	return s, nil
}

func (d *Driver) endedDir() string { return filepath.Join(d.opts.StateDir, "ended") }

// Ended is how a sandbox that lasted ended, as its keeper wrote it down; false: it did not, because
// it was killed itself, or runs.
func (d *Driver) Ended(id string) (Ending, bool) {
	if !sandbox.ValidID(id) {
		return Ending{}, false
	}
	data, err := os.ReadFile(filepath.Join(d.endedDir(), id))
	if err != nil {
		return Ending{}, false
	}
	var e Ending
	return e, json.Unmarshal(data, &e) == nil && e.Reason != ""
}

// Forget removes what Ended reads.
func (d *Driver) Forget(id string) {
	if sandbox.ValidID(id) {
		_ = os.Remove(filepath.Join(d.endedDir(), id)) // a sweep removes it later
	}
}

// Open finds a sandbox that runs.
func (d *Driver) Open(ctx context.Context, id string) (sandbox.Lasting, error) {
	if !sandbox.ValidID(id) {
		return nil, fmt.Errorf("%q is not a sandbox's ID", id)
	}
	l, err := d.openDir(ctx, filepath.Join(d.runDir(), id))
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *Driver) openDir(ctx context.Context, dir string) (*lasting, error) {
	conn, err := dialKeeper(dir)
	if err != nil {
		return nil, err
	}
	if _, err := ask(ctx, conn, &lastRequest{Op: lastWatch}, nil, false); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return newLasting(ctx, conn, false)
}

// Attach is Open for the network's gate.
func (d *Driver) Attach(ctx context.Context, conn net.Conn) (sandbox.Lasting, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("attach to a sandbox: not a Unix socket")
	}
	l, err := newLasting(ctx, c, true)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// newLasting reads about the sandbox and waits for its end on conn, to which lastWatch has been said.
func newLasting(ctx context.Context, conn *net.UnixConn, quiet bool) (*lasting, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	r := bufio.NewReaderSize(conn, 64<<10)
	rep, err := readReply(r)
	if !stop() {
		return nil, errors.Join(ctx.Err(), conn.Close())
	}
	if err == nil && rep.About == nil {
		err = errors.New("the keeper does not say what it keeps")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l := &lasting{about: *rep.About, watch: conn, quiet: quiet, done: make(chan struct{})}
	go l.listen(r)
	return l, nil
}

// dialKeeper connects to the keeper of the sandbox in dir.
func dialKeeper(dir string) (*net.UnixConn, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sandbox.ErrNoSandbox
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: sockPath(f), Net: "unix"})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, sandbox.ErrNoSandbox
	}
	return conn, err
}

// ask writes a request with a file that goes along, if there is one, and reads the reply if that is wanted.
func ask(ctx context.Context, conn *net.UnixConn, req *lastRequest, file *os.File, read bool) (*lastReply, error) {
	data, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := conn.WriteMsgUnix(append(data, '\n'), oob, nil); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrEnded, err)
	}
	if !read {
		return nil, nil
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	rep, err := readReply(oneByte{conn})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return rep, err
}

// lineReader reads a line.
type lineReader interface {
	ReadSlice(delim byte) ([]byte, error)
}

// oneByte reads lines and nothing after them: the connection is a guest agent's then, which
// speaks only when it is spoken to, so that a line comes alone.
type oneByte struct{ conn *net.UnixConn }

func (o oneByte) ReadSlice(delim byte) ([]byte, error) {
	var line []byte
	buf := make([]byte, 64<<10)
	for len(line) < maxLastLine {
		n, err := o.conn.Read(buf)
		line = append(line, buf[:n]...)
		if n > 0 && line[len(line)-1] == delim {
			return line, nil
		}
		if err != nil {
			return line, err
		}
	}
	return line, errors.New("the keeper's reply is too long")
}

func readReply(r lineReader) (*lastReply, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrEnded, err)
	}
	rep := &lastReply{}
	if err := json.Unmarshal(line, rep); err != nil {
		return nil, fmt.Errorf("the keeper's reply: %w", err)
	}
	switch rep.Code {
	case codeNotSaved:
		return nil, notSaved(rep.Error)
	case codePaused:
		return nil, sandbox.ErrPaused
	}
	return rep, rep.err()
}

// do makes a request on a connection of its own.
func (l *lasting) do(ctx context.Context, req *lastRequest, file *os.File) (*lastReply, error) {
	conn, err := dialKeeper(l.about.Dir)
	if err != nil {
		return nil, l.why(err)
	}
	defer conn.Close()
	rep, err := ask(ctx, conn, req, file, true)
	return rep, l.why(err)
}

// why gives the reason for which the sandbox ended, if err came of that.
func (l *lasting) why(err error) error {
	if err == nil || !errors.Is(err, sandbox.ErrEnded) && !errors.Is(err, sandbox.ErrNoSandbox) {
		return err
	}
	select {
	case <-l.done:
		if e := l.Err(); e != nil {
			return e
		}
	case <-time.After(settleTime):
	}
	return err
}

// listen waits for the end.
func (l *lasting) listen(r *bufio.Reader) {
	rep, err := readReply(r)
	l.mu.Lock()
	switch {
	case l.free:
		l.err = nil
	case err != nil || rep.Ended == nil:
		l.err = sandbox.ErrEnded
	default:
		l.err = rep.Ended.err()
	}
	l.mu.Unlock()
	close(l.done)
}

func (l *lasting) ID() string            { return l.about.ID }
func (l *lasting) Identity() string      { return l.about.Identity }
func (l *lasting) Started() time.Time    { return l.about.Started }
func (l *lasting) Notes() []string       { return l.about.Notes }
func (l *lasting) Done() <-chan struct{} { return l.done }

func (l *lasting) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Connect opens a connection to the guest agent.
func (l *lasting) Connect(ctx context.Context) (net.Conn, error) {
	conn, err := dialKeeper(l.about.Dir)
	if err != nil {
		return nil, l.why(err)
	}
	if _, err := ask(ctx, conn, &lastRequest{Op: lastConnect, Quiet: l.quiet}, nil, true); err != nil {
		conn.Close()
		return nil, l.why(err)
	}
	return conn, nil
}

// Client is a client on a connection of its own.
func (l *lasting) Client(ctx context.Context) (*agent.Client, error) {
	conn, err := l.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := agent.NewClient(conn, &agent.Options{NoHandshake: true})
	if _, err := c.Hello(ctx); err != nil {
		c.Close()
		return nil, l.why(fmt.Errorf("the guest agent does not answer: %w", err))
	}
	return c, nil
}

func (l *lasting) Status(ctx context.Context) (*sandbox.Status, error) {
	rep, err := l.do(ctx, &lastRequest{Op: lastStatus}, nil)
	if err != nil {
		return nil, err
	}
	if rep.Status == nil {
		return nil, errors.New("the keeper does not say how the sandbox is")
	}
	return rep.Status, nil
}

func (l *lasting) Pause(ctx context.Context) error {
	_, err := l.do(ctx, &lastRequest{Op: lastPause}, nil)
	return err
}

func (l *lasting) Resume(ctx context.Context) error {
	_, err := l.do(ctx, &lastRequest{Op: lastResume}, nil)
	return err
}

// Hold pauses the sandbox until it is released, or this program ends.
func (l *lasting) Hold(ctx context.Context) (release func() error, err error) {
	conn, err := dialKeeper(l.about.Dir)
	if err != nil {
		return nil, l.why(err)
	}
	if _, err := ask(ctx, conn, &lastRequest{Op: lastHold}, nil, true); err != nil {
		conn.Close()
		return nil, l.why(err)
	}
	return conn.Close, nil
}

func (l *lasting) Touch(ctx context.Context, times *sandbox.Times) error {
	_, err := l.do(ctx, &lastRequest{Op: lastTouch, Times: times}, nil)
	return err
}

// Upper writes the upper layer.
func (l *lasting) Upper(ctx context.Context, w io.Writer) error {
	return readUpper(ctx, l.about.ID, w, func(pw *os.File) error {
		_, err := l.do(ctx, &lastRequest{Op: lastUpper}, pw)
		return err
	})
}

func (l *lasting) Checkpoint(ctx context.Context, dir string) error {
	_, err := l.do(ctx, &lastRequest{Op: lastCheckpoint, Dir: dir}, nil)
	return err
}

func (l *lasting) GateInput(ctx context.Context) ([]byte, error) {
	rep, err := l.do(ctx, &lastRequest{Op: lastGateInput}, nil)
	if err != nil {
		return nil, err
	}
	return rep.Input, nil
}

// End ends the sandbox. One that has ended already is ended.
func (l *lasting) End(ctx context.Context) error {
	_, err := l.do(ctx, &lastRequest{Op: lastEnd}, nil)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-l.done:
		return nil
	case <-time.After(keeperGrace):
		return err
	}
}

// Release lets go.
func (l *lasting) Release() error {
	l.mu.Lock()
	l.free = true
	l.mu.Unlock()
	err := l.watch.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Running lists the sandboxes whose keeper runs.
func (d *Driver) Running(context.Context) ([]string, error) {
	entries, err := os.ReadDir(d.runDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if !sandbox.ValidID(e.Name()) {
			continue
		}
		dir := filepath.Join(d.runDir(), e.Name())
		if _, err := os.Lstat(filepath.Join(dir, lastingMark)); err != nil {
			continue // of airlock run, say
		}
		lock, free, err := takeLock(filepath.Join(dir, "lock"), 0)
		if err != nil {
			continue // it is being removed
		}
		if free {
			lock.Close()
			continue
		}
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// lastingMark is a file in the folder of a sandbox that lasts, or is to.
const lastingMark = "lasting"

var (
	_ sandbox.Keeping = (*Driver)(nil)
	_ sandbox.Holder  = (*lasting)(nil)
)
