package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// Options are the settings of a Driver. StateDir is required.
type Options struct {
	// StateDir holds what running sandboxes need; the sandbox never sees it.
	StateDir string
	// Engine names the program that runs as the engine (see Engine): a static build of
	// airlock. Empty: this program.
	Engine func(ctx context.Context) (string, error)
	// Agent is the guest agent's executable. Empty: the engine itself.
	Agent string
	// Env is the environment of the agent inside; empty by default.
	Env []string
	// EngineLog is an existing folder for the engine's own debug logs. Empty: none.
	EngineLog string
	// Logger; nil discards.
	Logger *slog.Logger
}

// Driver makes gVisor sandboxes. It is safe for concurrent use.
type Driver struct {
	opts Options
	log  *slog.Logger
}

// New makes a Driver.
func New(opts *Options) *Driver {
	d := &Driver{opts: *opts, log: opts.Logger}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// Name is "gvisor".
func (d *Driver) Name() string { return "gvisor" }

func (d *Driver) runDir() string { return filepath.Join(d.opts.StateDir, "run") }

// Start makes a sandbox.
func (d *Driver) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Sandbox, error) {
	if !filepath.IsAbs(spec.WorkDir) {
		return nil, fmt.Errorf("start sandbox: the working folder %q is not absolute", spec.WorkDir)
	}
	engine, err := d.engine(ctx)
	if err != nil {
		return nil, err
	}
	sb := &box{driver: d, spec: *spec, done: make(chan struct{}), replies: make(chan reply, 1)}
	if sb.spec.ID == "" {
		sb.spec.ID = sandbox.NewID()
	}
	if !sandbox.ValidID(sb.spec.ID) {
		return nil, fmt.Errorf("start sandbox: %q is not a sandbox's ID", sb.spec.ID)
	}
	if _, err := d.Sweep(ctx); err != nil {
		d.log.WarnContext(ctx, "sweep failed", "error", err)
	}
	if err := sb.start(ctx, engine); err != nil {
		return nil, errors.Join(err, sb.abandon())
	}
	return sb, nil
}

func (d *Driver) engine(ctx context.Context) (string, error) {
	if d.opts.Engine != nil {
		return d.opts.Engine(ctx)
	}
	return "/proc/self/exe", nil
}

// box is one sandbox and the process that keeps it.
type box struct {
	driver  *Driver
	spec    sandbox.Spec
	dir     string // of this sandbox, below the driver's run folder
	lock    *os.File
	started time.Time
	cmd     *exec.Cmd
	control *net.UnixConn
	client  *agent.Client
	notes   []string

	calls   sync.Mutex // one request to the keeper at a time
	replies chan reply

	done    chan struct{} // closed when the keeper has ended
	mu      sync.Mutex
	ended   *ending // what the keeper said of the sandbox's end
	closing bool
	waitErr error

	closeOnce sync.Once
	closeErr  error
}

func (b *box) start(ctx context.Context, engine string) error {
	plan, err := b.prepare()
	if err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	if err := b.launch(engine); err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	stop := context.AfterFunc(ctx, func() { b.cmd.Process.Kill() })
	defer stop()
	rep, err := b.call(ctx, request{Op: opStart, Plan: plan}, nil)
	if err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, b.explain(ctx, err))
	}
	b.notes = append(b.notes, rep.Notes...)
	if _, err := b.client.Hello(ctx); err != nil {
		return fmt.Errorf("start sandbox %s: the guest agent does not answer: %w", b.spec.ID, b.explain(ctx, err))
	}
	return nil
}

// explain adds to an error of the start what the keeper's log says of it.
func (b *box) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *sandbox.Unavailable
	if errors.As(err, &u) {
		return err
	}
	text, _ := os.ReadFile(filepath.Join(b.dir, "log"))
	if line := lastLine(string(text)); line != "" {
		return fmt.Errorf("%w (the engine said: %s)", err, line)
	}
	return err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := lines[len(lines)-1]
	if len(line) > 500 {
		line = line[:500] + "…"
	}
	return line
}

// launch starts the keeper: the engine under the name that makes it one. Its stdin and
// stdout are the guest agent's.
func (b *box) launch(engine string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	b.control = conn.(*net.UnixConn)
	toGuest, fromHost, err := guestPipe()
	if err != nil {
		return err
	}
	defer toGuest.Close()
	fromGuest, toHost, err := guestPipe()
	if err != nil {
		fromHost.Close()
		return err
	}
	defer toHost.Close()
	logFile, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()

	b.cmd = &exec.Cmd{
		Path: engine, Args: []string{KeeperName}, Dir: "/", Env: keeperEnv(),
		Stdin: toGuest, Stdout: toHost, Stderr: logFile,
		ExtraFiles:  []*os.File{theirs, b.lock},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := b.cmd.Start(); err != nil {
		fromHost.Close()
		fromGuest.Close()
		return fmt.Errorf("start the engine: %w", err)
	}
	b.client = agent.NewClient(duplex{fromGuest, fromHost}, &agent.Options{Logger: b.driver.log, NoHandshake: true})
	go b.watch()
	go b.listen()
	return nil
}

// keeperEnv is what the engine's processes get of the environment: nothing that a
// person would mind, since the sandbox's monitor is the first thing an attacker meets.
func keeperEnv() []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"GODEBUG", "GOTRACEBACK"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// guestPipe makes one direction of the agent's connection, with room for a big frame.
func guestPipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make the agent's connection: %w", err)
	}
	unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20) // more would be nicer, less works
	unix.SetNonblock(int(w.Fd()), true)
	return r, w, nil
}

// duplex is the agent's connection: the keeper's stdout and stdin.
type duplex struct {
	*os.File
	in *os.File
}

func (d duplex) Write(p []byte) (int, error) { return d.in.Write(p) }

func (d duplex) Close() error { return errors.Join(d.in.Close(), d.File.Close()) }

func (d duplex) SetWriteDeadline(t time.Time) error { return d.in.SetWriteDeadline(t) }

// watch waits for the keeper's end.
func (b *box) watch() {
	err := b.cmd.Wait()
	b.mu.Lock()
	b.waitErr = err
	b.mu.Unlock()
	b.control.SetReadDeadline(time.Now().Add(time.Second)) // what it said last is still read
	close(b.done)
}

// listen reads what the keeper says: replies, and how the sandbox ended.
func (b *box) listen() {
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

// call makes a request of the keeper, with a file if there is one.
func (b *box) call(ctx context.Context, req request, file *os.File) (reply, error) {
	b.calls.Lock()
	defer b.calls.Unlock()
	data, err := json.Marshal(req)
	if err != nil {
		return reply{}, err
	}
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := b.control.WriteMsgUnix(data, oob, nil); err != nil {
		return reply{}, b.endErr(err)
	}
	select {
	case rep, ok := <-b.replies:
		if !ok {
			return reply{}, b.endErr(io.ErrUnexpectedEOF)
		}
		return rep, rep.err()
	case <-ctx.Done():
		return reply{}, ctx.Err()
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

func (b *box) ID() string            { return b.spec.ID }
func (b *box) Client() *agent.Client { return b.client }
func (b *box) Started() time.Time    { return b.started }
func (b *box) Done() <-chan struct{} { return b.done }
func (b *box) Notes() []string       { return b.notes }

// Identity is empty for root, whose agent is root as well.
func (b *box) Identity() string {
	if os.Geteuid() == 0 {
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
	r, pw, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("read what sandbox %s changed: %w", b.spec.ID, err)
	}
	defer r.Close()
	unix.FcntlInt(pw.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		if err != nil {
			r.Close() // the writer gets EPIPE instead of waiting for a reader that is gone
		}
		copied <- err
	}()
	type result struct {
		err error
	}
	called := make(chan result, 1)
	go func() {
		_, err := b.call(ctx, request{Op: opUpper}, pw)
		called <- result{err}
	}()
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Now()) })
	defer stop()
	// Our end is closed once the keeper has its own; the copy then ends with the tar.
	res := <-called
	pw.Close()
	copyErr := <-copied
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("read what sandbox %s changed: %w", b.spec.ID, ctx.Err())
	case copyErr != nil:
		return fmt.Errorf("read what sandbox %s changed: %w", b.spec.ID, copyErr)
	case res.err != nil:
		return fmt.Errorf("read what sandbox %s changed: %w", b.spec.ID, res.err)
	}
	return nil
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
	if b.cmd != nil && b.cmd.Process != nil {
		select {
		case <-b.done:
		case <-time.After(keeperGrace):
			b.cmd.Process.Kill()
			<-b.done
		}
	}
	if b.client != nil {
		b.client.Close()
	}
	if b.control != nil {
		b.control.Close()
	}
	if b.dir == "" {
		return nil
	}
	err := removeRun(b.dir)
	if b.lock != nil {
		b.lock.Close()
	}
	return err
}
