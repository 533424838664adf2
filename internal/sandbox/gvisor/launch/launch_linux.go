package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Package unix would do, but its own variables are set later than this package's, which are in a hurry.
const fSetPipeSize = 1031 // F_SETPIPE_SZ

// KeeperName is the argv[0] under which the program is the keeper of one sandbox.
const KeeperName = "airlock-keeper"

// ControlFD is the keeper's descriptor of its control socket.
const ControlFD = 3

// A Keeper is a process that waits for a plan, and this side of what it is connected to.
type Keeper struct {
	Engine  string // its program
	Process *os.Process

	// Control is a socket of packets; the keeper ends when nobody has it any more.
	Control *os.File

	// Its standard input and output, which are the guest agent's later.
	In, Out *os.File

	said *os.File // the pipe that its standard error is until it has its log
}

// Start starts a keeper.
func Start(engine string) (k *Keeper, err error) {
	var theirs, ours []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			for _, f := range ours {
				f.Close()
			}
			err = fmt.Errorf("start the engine: %w", err)
		}
	}()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	control, controlled := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	ours, theirs = append(ours, control), append(theirs, controlled)
	toGuest, in, err := Pipe()
	if err != nil {
		return nil, err
	}
	ours, theirs = append(ours, in), append(theirs, toGuest)
	out, fromGuest, err := Pipe()
	if err != nil {
		return nil, err
	}
	ours, theirs = append(ours, out), append(theirs, fromGuest)
	said, errs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for its errors: %w", err)
	}
	ours, theirs = append(ours, said), append(theirs, errs)
	p, err := os.StartProcess(engine, []string{KeeperName}, &os.ProcAttr{
		Dir: "/", Env: Environ(), Files: []*os.File{toGuest, fromGuest, errs, controlled},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	return &Keeper{Engine: engine, Process: p, Control: control, In: in, Out: out, said: said}, nil
}

// Environ is what the engine's processes get of the environment: nothing that a
// person would mind, since the sandbox's monitor is the first thing an attacker meets.
func Environ() []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"GODEBUG", "GOTRACEBACK"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Pipe makes one direction of the guest agent's connection, with room for a big frame.
func Pipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make the agent's connection: %w", err)
	}
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), fSetPipeSize, 1<<20) // a smaller pipe works too, slower
	if err := syscall.SetNonblock(int(w.Fd()), true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the agent's connection: %w", err), r.Close(), w.Close())
	}
	return r, w, nil
}

// gone reports that nobody has the other end of the control socket any more.
func (k *Keeper) gone() bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(k.Control.Fd()), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN // it says nothing before it is spoken to
}

// saidTime is how long is waited for the end of what a keeper has said, which its own end is. Nothing is read after it, not even
// what was there before.
const saidTime = 5 * time.Second

// Said is what the keeper wrote to its standard error before it had its log, once it has ended.
func (k *Keeper) Said() string {
	_ = k.said.SetReadDeadline(time.Now().Add(saidTime))
	text, _ := io.ReadAll(io.LimitReader(k.said, 64<<10))
	return string(text)
}

// Forget closes what only Said needs.
func (k *Keeper) Forget() { k.said.Close() }

// End ends a keeper that was given no plan.
func (k *Keeper) End() {
	for _, f := range []*os.File{k.Control, k.In, k.Out, k.said} {
		f.Close()
	}
	_ = k.Process.Kill() // it would end by itself, a little later
	_, _ = k.Process.Wait()
}
