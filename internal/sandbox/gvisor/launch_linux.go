package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/sandbox"
)

func (b *box) start(ctx context.Context, engine string) error {
	if b.dir != "" {
		// It is there already.
	} else if err := b.makeDir(); err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	// The keeper takes some milliseconds to come up; what it needs is written meanwhile.
	if err := b.launch(engine); err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	plan, err := b.prepare()
	if err != nil {
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	if b.lasting != nil {
		if err := b.prepareLasting(plan); err != nil {
			return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
		}
	}
	stop := context.AfterFunc(ctx, func() { b.cmd.Process.Kill() })
	defer stop()
	rep, err := b.call(ctx, request{Op: opStart, Plan: plan}, nil)
	if err != nil {
		err = b.explain(ctx, err)
		if _, ok := errors.AsType[*sandbox.Unavailable](err); ok {
			return err // it says all there is
		}
		return fmt.Errorf("start sandbox %s: %w", b.spec.ID, err)
	}
	b.notes = append(b.notes, rep.Notes...)
	if b.lasting != nil {
		return nil // the keeper has reached the guest agent
	}
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
	if _, ok := errors.AsType[*sandbox.Unavailable](err); ok {
		return err
	}
	text, _ := os.ReadFile(filepath.Join(b.dir, "log"))
	if line := lastLine(string(text)); line != "" && !strings.Contains(line, "level=INFO") {
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
	go b.watch()
	go b.listen()
	if b.lasting != nil {
		// Its keeper makes streams of its own.
		return errors.Join(fromHost.Close(), fromGuest.Close())
	}
	b.client = agent.NewClient(duplex{fromGuest, fromHost}, &agent.Options{Logger: b.driver.log, NoHandshake: true})
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
	_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20) // a smaller pipe works too, slower
	if err := unix.SetNonblock(int(w.Fd()), true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the agent's connection: %w", err), r.Close(), w.Close())
	}
	return r, w, nil
}

// duplex is the agent's connection: the keeper's stdout and stdin. Not embedded: a file has
// more ways to write than Write.
type duplex struct{ out, in *os.File }

func (d duplex) Read(p []byte) (int, error)  { return d.out.Read(p) }
func (d duplex) Write(p []byte) (int, error) { return d.in.Write(p) }

func (d duplex) Close() error { return errors.Join(d.in.Close(), d.out.Close()) }

func (d duplex) SetReadDeadline(t time.Time) error  { return d.out.SetReadDeadline(t) }
func (d duplex) SetWriteDeadline(t time.Time) error { return d.in.SetWriteDeadline(t) }
