package manager_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/sandbox"
)

// A double keeps sandboxes without isolation: each is a real guest agent behind a Unix socket, in this process or
// in one of its own, with a folder "files" that a checkpoint saves and a restore brings back.
type double struct {
	dir   string // short, for sockets' names
	apart bool   // in processes of their own

	mu      sync.Mutex
	inside  map[string]*keeper // those in this process
	serving sync.WaitGroup

	failRestore func(id string) error // may be nil
	unsaved     bool                  // Checkpoint is sandbox.ErrNotSaved

	starting *os.File // processes of their own have it open until they serve; may be nil
}

func (d *double) Name() string           { return "double" }
func (d *double) at(id string) string    { return filepath.Join(d.dir, "run", id) }
func (d *double) files(id string) string { return filepath.Join(d.at(id), "files") }

func (d *double) Keep(ctx context.Context, spec *sandbox.LastingSpec) (sandbox.Lasting, error) {
	return d.start(ctx, spec, "")
}

func (d *double) Restore(ctx context.Context, spec *sandbox.LastingSpec, dir string) (sandbox.Lasting, error) {
	if d.failRestore != nil {
		if err := d.failRestore(spec.ID); err != nil {
			return nil, err
		}
	}
	return d.start(ctx, spec, dir)
}

func (d *double) start(ctx context.Context, spec *sandbox.LastingSpec, from string) (sandbox.Lasting, error) {
	dir := d.at(spec.ID)
	if ctx.Err() != nil {
		return nil, ctx.Err() // afterwards it is short, and not canceled
	}
	ctx = context.WithoutCancel(ctx)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.files(spec.ID), 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "spec.json"), text, 0o600)
	}
	if err == nil && from != "" {
		err = os.CopyFS(d.files(spec.ID), os.DirFS(filepath.Join(from, "files")))
	}
	if err == nil {
		err = d.launch(spec.ID)
	}
	for err == nil {
		l, openErr := d.Open(ctx, spec.ID)
		if openErr == nil {
			return l, nil
		}
		if !errors.Is(openErr, sandbox.ErrNoSandbox) {
			err = openErr
		}
		time.Sleep(time.Millisecond) // until it listens
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// launch starts what serves a sandbox.
func (d *double) launch(id string) error {
	if !d.apart {
		k, err := newKeeper(d.dir, id)
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.inside[id] = k
		d.mu.Unlock()
		d.serving.Go(k.serve)
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "MANAGER_TEST_ROLE=keeper", "MANAGER_TEST_DIR="+d.dir, "MANAGER_TEST_ID="+id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if d.starting != nil {
		cmd.ExtraFiles = []*os.File{d.starting}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // whoever dies leaves it to init
	return nil
}

func (d *double) Open(ctx context.Context, id string) (sandbox.Lasting, error) {
	conn, err := net.Dial("unix", filepath.Join(d.at(id), "sock"))
	if err != nil {
		return nil, sandbox.ErrNoSandbox
	}
	b := &box{d: d, id: id, watch: conn, done: make(chan struct{})}
	r := bufio.NewReader(conn)
	if _, err := fmt.Fprintln(conn, `{"op":"watch"}`); err != nil {
		return nil, sandbox.ErrNoSandbox
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	line, err := r.ReadBytes('\n')
	if !stop() {
		return nil, errors.Join(ctx.Err(), conn.Close())
	}
	if err != nil || json.Unmarshal(line, &b.spec) != nil {
		conn.Close()
		return nil, sandbox.ErrNoSandbox
	}
	go func() {
		_, _ = io.Copy(io.Discard, r)
		close(b.done)
	}()
	return b, nil
}

func (d *double) Attach(context.Context, net.Conn) (sandbox.Lasting, error) {
	return nil, errors.New("there is no gate here")
}

func (d *double) Running(context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "run"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if d.alive(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// alive reports whether a sandbox's keeper has its lock.
func (d *double) alive(id string) bool {
	path := filepath.Join(d.at(id), "lock")
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	l := flock.New(path)
	ok, err := l.TryLock()
	if ok {
		_ = l.Unlock()
	}
	return err == nil && !ok
}

func (d *double) Sweep(context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "run"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(d.at(e.Name()), "lock")); err == nil && !d.alive(e.Name()) {
			if err := os.RemoveAll(d.at(e.Name())); err != nil {
				return out, err
			}
			out = append(out, "the folder of sandbox "+e.Name())
		}
	}
	return out, err
}

// box is an open sandbox.
type box struct {
	d     *double
	id    string
	spec  sandbox.LastingSpec
	watch net.Conn
	done  chan struct{}
}

func (b *box) ID() string            { return b.id }
func (b *box) Identity() string      { return "" }
func (b *box) Started() time.Time    { return time.Unix(1e9, 0).UTC() }
func (b *box) Notes() []string       { return []string{"nothing isolates it"} }
func (b *box) Done() <-chan struct{} { return b.done }
func (b *box) Err() error            { <-b.done; return sandbox.ErrEnded }
func (b *box) Release() error        { err := b.watch.Close(); <-b.done; return err }

func (b *box) Connect(ctx context.Context) (net.Conn, error) {
	conn, _, err := b.ask(ctx, &order{Op: "connect"})
	return conn, err
}

func (b *box) Client(ctx context.Context) (*agent.Client, error) {
	conn, err := b.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := agent.NewClient(conn, nil)
	if _, err := c.Hello(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ask says something to the keeper and reads its answer, a byte at a time: what follows is the guest's.
func (b *box) ask(ctx context.Context, o *order) (net.Conn, *answer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join(b.d.at(b.id), "sock"))
	if err != nil {
		return nil, nil, sandbox.ErrNoSandbox
	}
	text, err := json.Marshal(o)
	if err == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	var line []byte
	for one := make([]byte, 1); err == nil && one[0] != '\n'; line = append(line, one[0]) {
		_, err = conn.Read(one)
	}
	a := &answer{}
	if err == nil {
		err = json.Unmarshal(line, a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, a, nil
}

func (b *box) do(ctx context.Context, o *order) (*answer, error) {
	conn, a, err := b.ask(ctx, o)
	if err == nil {
		conn.Close()
	}
	return a, err
}

func (b *box) Status(ctx context.Context) (*sandbox.Status, error) {
	a, err := b.do(ctx, &order{Op: "status"})
	if err != nil {
		return nil, err
	}
	return &a.Status, nil
}

func (b *box) Pause(ctx context.Context) error { _, err := b.do(ctx, &order{Op: "pause"}); return err }

func (b *box) Resume(ctx context.Context) error {
	_, err := b.do(ctx, &order{Op: "resume"})
	return err
}

func (b *box) Touch(ctx context.Context, t *sandbox.Times) error {
	_, err := b.do(ctx, &order{Op: "touch", Times: t})
	return err
}

func (b *box) Upper(context.Context, io.Writer) error { return errors.New("there is no layer here") }

func (b *box) Checkpoint(ctx context.Context, dir string) error {
	if b.d.unsaved {
		return fmt.Errorf("%w: something is open", sandbox.ErrNotSaved)
	}
	_, err := b.do(ctx, &order{Op: "checkpoint", Dir: dir})
	return err
}

func (b *box) GateInput(ctx context.Context) ([]byte, error) {
	a, err := b.do(ctx, &order{Op: "gate"})
	if err != nil {
		return nil, err
	}
	return a.Gate, nil
}

func (b *box) End(ctx context.Context) error {
	if _, err := b.do(ctx, &order{Op: "end"}); err != nil && !errors.Is(err, sandbox.ErrNoSandbox) && !errors.Is(err, io.EOF) {
		return err
	}
	for b.d.alive(b.id) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond) // until its process has ended
	}
	return os.RemoveAll(b.d.at(b.id))
}

// ending is how one ended, as its keeper wrote it down.
type ending struct{ Reason, Text string }

// endNow has a sandbox end by itself, for a reason.
func (d *double) endNow(t *testing.T, id string, e ending) {
	t.Helper()
	l, err := d.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	if _, err := l.(*box).do(t.Context(), &order{Op: "expire", Ending: e}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	<-l.Done()
	for d.alive(id) {
		time.Sleep(time.Millisecond)
	}
}

// An order is what a keeper is told, an answer what it says.
type order struct {
	Op     string
	Dir    string
	Times  *sandbox.Times
	Ending ending
}

type answer struct {
	Error  string
	Status sandbox.Status
	Gate   []byte
}

// keeper serves one sandbox.
type keeper struct {
	dir, id string
	spec    sandbox.LastingSpec
	guest   *guest.Agent
	lock    *flock.Flock
	sock    net.Listener
	calls   sync.WaitGroup

	mu    sync.Mutex
	state string
	conns map[net.Conn]bool
	ended bool
}

func newKeeper(dir, id string) (*keeper, error) {
	k := &keeper{dir: dir, id: id, state: sandbox.Ready, conns: map[net.Conn]bool{}}
	at := filepath.Join(dir, "run", id)
	text, err := os.ReadFile(filepath.Join(at, "spec.json"))
	if err == nil {
		err = json.Unmarshal(text, &k.spec)
	}
	if err != nil {
		return nil, err
	}
	// It gets its name once it is locked: before, others would take this one for dead, and might even have
	// the lock while they look.
	k.lock = flock.New(filepath.Join(at, "young"))
	if err := errors.Join(k.lock.Lock(), os.Rename(k.lock.Path(), filepath.Join(at, "lock"))); err != nil {
		return nil, err
	}
	if k.guest, err = guest.New(nil); err != nil {
		return nil, err
	}
	k.sock, err = net.Listen("unix", filepath.Join(at, "sock"))
	return k, err
}

func (k *keeper) serve() {
	for {
		conn, err := k.sock.Accept()
		if err != nil {
			break
		}
		k.mu.Lock()
		k.conns[conn] = true
		k.mu.Unlock()
		k.calls.Go(func() {
			defer func() {
				conn.Close()
				k.mu.Lock()
				delete(k.conns, conn)
				k.mu.Unlock()
			}()
			k.call(conn)
		})
	}
	k.guest.Close()
	k.calls.Wait()
	_ = k.lock.Unlock()
}

// end ends it; what was begun is cut.
func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.sock.Close()
	for c := range k.conns {
		c.Close()
	}
}

func (k *keeper) call(conn net.Conn) {
	r := bufio.NewReader(conn)
	line, err := r.ReadBytes('\n')
	var o order
	if err != nil || json.Unmarshal(line, &o) != nil {
		return
	}
	say := func(a any) { _ = json.NewEncoder(conn).Encode(a) }
	switch o.Op {
	case "watch":
		say(&k.spec)
		_, _ = io.Copy(io.Discard, conn)
	case "connect":
		say(&answer{})
		_ = k.guest.Serve(context.Background(), conn)
	case "end":
		k.end()
	case "expire":
		k.expire(o.Ending)
	default:
		a, err := k.handle(&o)
		if err != nil {
			a.Error = err.Error()
		}
		say(&a)
	}
}

func (k *keeper) handle(o *order) (a answer, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch o.Op {
	case "status":
		a.Status = sandbox.Status{State: k.state, Memory: 1 << 20, Disk: 4096, CPU: time.Second, Processes: 1, PIDs: []int{os.Getpid()}}
		a.Status.Gate = k.spec.GateInput
	case "pause":
		k.state = sandbox.Paused
	case "resume":
		k.state = sandbox.Ready
	case "touch":
		if o.Times != nil {
			k.spec.Times = *o.Times
		}
	case "gate":
		a.Gate = k.spec.GateInput
	case "checkpoint":
		err = os.CopyFS(filepath.Join(o.Dir, "files"), os.DirFS(filepath.Join(k.dir, "run", k.id, "files")))
	default:
		err = fmt.Errorf("what is %q?", o.Op)
	}
	return a, err
}

// expire ends it by itself, and leaves what a keeper leaves.
func (k *keeper) expire(e ending) {
	if k.spec.Expired != "" && (e.Reason == "expired" || e.Reason == "idle") {
		_ = os.WriteFile(k.spec.Expired, []byte("a tar of "+k.id), 0o600)
	}
	if text, err := json.Marshal(e); err == nil && e.Reason != "" {
		_ = os.MkdirAll(filepath.Join(k.dir, "ended"), 0o700)
		_ = os.WriteFile(filepath.Join(k.dir, "ended", k.id), text, 0o600)
	}
	k.end()
}

// keeperMain is what a keeper's process runs.
func keeperMain() {
	k, err := newKeeper(os.Getenv("MANAGER_TEST_DIR"), strings.TrimSpace(os.Getenv("MANAGER_TEST_ID")))
	if err != nil {
		os.Exit(1)
	}
	if f := startingFile(); f != nil {
		f.Close()
	}
	k.serve()
}

// startingVariable says that a process has the file that tells who still starts.
const startingVariable = "MANAGER_TEST_STARTING"

// startingFile is the file, which no process that runs inside is to have; nil where there is none.
func startingFile() *os.File {
	if os.Getenv(startingVariable) == "" {
		return nil
	}
	const first = 3 // of those that a process is given
	syscall.CloseOnExec(first)
	return os.NewFile(first, "starting")
}

func (b *box) times() sandbox.Times { return b.spec.Times }
