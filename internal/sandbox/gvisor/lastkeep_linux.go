package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/container"

	"airlock/agent"
	"airlock/internal/mux"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

// last is what a keeper does more for a sandbox that lasts.
type last struct {
	k       *keeper
	plan    *lastPlan
	session *mux.Session
	sock    *net.UnixListener

	guestIn, guestOut *os.File // the keeper's ends of the guest agent's standard streams
	theirs            []*os.File

	ops    sync.Mutex  // one at a time of what freezes the sandbox
	paused atomic.Bool // by request; changed under ops

	mu       sync.Mutex
	calls    int
	lastCall time.Time // when the last one ended, or was made
	times    sandbox.Times
	timesSet chan struct{} // has one when times changed
	ending   *Ending       // once it is to end, or has
	gate     json.RawMessage
	began    time.Time

	over  chan struct{} // closed when the sandbox is to end, or has
	gone  chan struct{} // closed when nothing is left of it
	conns sync.WaitGroup
}

func newLast(k *keeper, p *lastPlan) *last {
	return &last{
		k: k, plan: p, times: p.Times, lastCall: time.Now(), began: time.Now(),
		timesSet: make(chan struct{}, 1), over: make(chan struct{}), gone: make(chan struct{}),
	}
}

// streams makes the guest's standard input and output: pipes whose other ends the keeper has.
func (l *last) streams() error {
	toGuest, in, err := launch.Pipe()
	if err != nil {
		return err
	}
	out, fromGuest, err := launch.Pipe()
	if err != nil {
		return errors.Join(err, toGuest.Close(), in.Close())
	}
	l.guestIn, l.guestOut = in, out
	l.theirs = []*os.File{toGuest, fromGuest}
	os.Stdin, os.Stdout = toGuest, fromGuest // which the engine hands on
	return nil
}

// serve begins to take connections. The guest runs.
func (l *last) serve(notes []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastDeadline)
	defer cancel()
	l.plan.About.Engine = engineVersion()
	l.plan.About.Notes = append(l.plan.About.Notes, notes...)
	for _, f := range l.theirs {
		f.Close()
	}
	session, err := mux.Dial(ctx, duplex{l.guestOut, l.guestIn})
	if err != nil {
		return fmt.Errorf("reach the guest agent: %w", err)
	}
	l.session = session
	if err := l.listen(); err != nil {
		return err
	}
	go l.accept()
	if len(l.plan.Gate) > 0 {
		if err := l.startGate(ctx); err != nil {
			return err
		}
	}
	go l.watchTimes()
	go l.watchSession()
	restLater()
	return nil
}

// watchSession ends a sandbox whose guest agent does not speak any more: nobody could use it.
func (l *last) watchSession() {
	select {
	case <-l.over:
		return
	case <-l.session.Done():
	}
	// Its end may be why, and is then the better reason.
	select {
	case <-l.over:
	case <-time.After(2 * settleTime):
		l.endKeeping(&Ending{Reason: EndKilled, At: time.Now(), Text: "its guest agent does not speak any more"})
	}
}

// listen binds the socket. By way of the folder's descriptor: its path may be longer than
// a socket's may.
func (l *last) listen() error {
	dir, err := os.Open(l.k.plan.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	old := unix.Umask(0o177)
	sock, err := net.ListenUnix("unix", &net.UnixAddr{Name: sockPath(dir), Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	sock.SetUnlinkOnClose(false) // the folder goes as a whole
	l.sock = sock
	return nil
}

func sockPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), sockName)
}

func (l *last) accept() {
	for {
		conn, err := l.sock.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // no descriptors, say: others end
			continue
		}
		l.conns.Go(func() {
			defer conn.Close()
			if mine(conn) {
				l.handle(conn, false)
			}
		})
	}
}

// mine reports whether the other end is the same person's, or root's.
func mine(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && (cred.Uid == uint32(os.Geteuid()) || cred.Uid == 0)
	})
	return ok
}

// handle answers one connection. One that is quiet is the gate's: what it asks for is no call.
func (l *last) handle(conn *net.UnixConn, quiet bool) {
	conn.SetReadDeadline(time.Now().Add(lastDeadline))
	line, file, err := readRequest(conn)
	if err != nil {
		return
	}
	if file != nil {
		defer file.Close()
	}
	conn.SetReadDeadline(time.Time{})
	var req lastRequest
	if err := json.Unmarshal(line, &req); err != nil {
		_ = writeLine(conn, lastReply{reply: reply{Error: "not a request: " + err.Error()}})
		return
	}
	switch req.Op {
	case lastConnect:
		l.connect(conn, quiet || req.Quiet)
	case lastWatch:
		l.watchers(conn)
	case lastHold:
		l.hold(conn)
	case lastEnd:
		l.end(&Ending{Reason: EndRemoved, At: time.Now()})
		<-l.gone
		_ = writeLine(conn, lastReply{})
	default:
		_ = writeLine(conn, l.answer(&req, file)) // whoever asked may be gone
	}
}

// readRequest reads one line, and the file that may come with its first bytes.
func readRequest(conn *net.UnixConn) ([]byte, *os.File, error) {
	var line []byte
	var file *os.File
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	for len(line) < maxLastLine {
		n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
		if oobn > 0 && file == nil {
			for i, f := range received(oob[:oobn]) {
				if i > 0 {
					f.Close()
					continue
				}
				file = f
			}
		}
		line = append(line, buf[:n]...)
		if n > 0 && line[len(line)-1] == '\n' {
			return line, file, nil
		}
		if err != nil || n == 0 {
			break
		}
	}
	if file != nil {
		file.Close()
	}
	return nil, nil, errors.New("no request came")
}

func writeLine(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// answer is the reply to a request that is only that.
func (l *last) answer(req *lastRequest, file *os.File) lastReply {
	fail := func(err error) lastReply {
		r := lastReply{reply: failure(err)}
		switch {
		case errors.Is(err, sandbox.ErrNotSaved):
			r.Code = codeNotSaved
		case errors.Is(err, sandbox.ErrPaused):
			r.Code = codePaused
		}
		return r
	}
	switch {
	case req.Op == lastStatus:
		s, err := l.status()
		r := fail(err)
		r.Status = s
		return r
	case req.Op == lastPause:
		return fail(l.pause())
	case req.Op == lastResume:
		return fail(l.resume())
	case req.Op == lastTouch:
		l.touch(req.Times)
		return lastReply{}
	case req.Op == lastUpper && file != nil:
		return fail(l.upper(file))
	case req.Op == lastCheckpoint && filepath.IsAbs(req.Dir):
		return fail(l.checkpoint(req.Dir))
	case req.Op == lastGateInput:
		return lastReply{Input: l.plan.GateInput}
	default:
		return lastReply{reply: reply{Error: fmt.Sprintf("request %q makes no sense", req.Op)}}
	}
}

// connect joins conn with a new connection to the guest agent.
func (l *last) connect(conn *net.UnixConn, quiet bool) {
	if l.paused.Load() {
		_ = writeLine(conn, lastReply{reply: reply{Error: sandbox.ErrPaused.Error()}, Code: codePaused})
		return
	}
	if !quiet {
		l.call(1)
		defer l.call(-1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastDeadline)
	defer cancel()
	guest, err := l.session.Open(ctx)
	if err != nil {
		_ = writeLine(conn, lastReply{reply: reply{Error: err.Error()}})
		return
	}
	defer guest.Close()
	if writeLine(conn, lastReply{}) != nil {
		return
	}
	join(conn, guest)
}

// join copies both ways until both have ended.
func join(a *net.UnixConn, b net.Conn) {
	var done sync.WaitGroup
	done.Go(func() {
		_, _ = io.Copy(b, a) // an end is an end, whatever it is called
		if h, ok := b.(interface{ CloseWrite() error }); ok {
			_ = h.CloseWrite()
		} else {
			b.Close()
		}
	})
	_, _ = io.Copy(a, b)
	// The guest's side has ended: nothing that still comes is wanted.
	a.Close()
	b.Close()
	done.Wait()
}

func (l *last) call(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls += n
	l.lastCall = time.Now()
}

// watchers tells conn about the sandbox, and at its end how it ended.
func (l *last) watchers(conn *net.UnixConn) {
	about := l.plan.About
	about.Started = l.started()
	if writeLine(conn, lastReply{About: &about}) != nil {
		return
	}
	hung := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // nothing is expected but its end
		close(hung)
	}()
	select {
	case <-l.gone:
		l.mu.Lock()
		e := *l.ending
		l.mu.Unlock()
		_ = writeLine(conn, lastReply{reply: reply{Ended: e.wire()}})
	case <-hung:
	}
}

func (e *Ending) wire() *ending {
	w := &ending{OutOfMemory: e.Reason == EndOutOfMemory, Expired: e.Reason == EndExpired || e.Reason == EndIdle, Removed: e.Reason == EndRemoved}
	if e.Text != "" {
		w.Reason = e.Text
	}
	return w
}

// end has the keeper end the sandbox, if nothing has yet.
func (l *last) end(why *Ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending == nil {
		l.ending = why
		close(l.over)
	}
}

// wait keeps the sandbox until it is to end or has ended, and writes down how it did.
func (l *last) wait() {
	<-l.over
	l.mu.Lock()
	e := *l.ending
	l.mu.Unlock()
	if data, err := json.Marshal(e); err == nil {
		_ = os.MkdirAll(filepath.Dir(l.plan.Ended), 0o700) // without it nobody is told; the sandbox ends all the same
		_ = os.WriteFile(l.plan.Ended, data, 0o600)
	}
}

// finish is called when nothing of the sandbox is left: those who wait are told.
func (l *last) finish() {
	close(l.gone)
	if l.sock != nil {
		l.sock.Close()
	}
	told := make(chan struct{})
	go func() {
		l.conns.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(time.Second): // somebody holds a connection and reads nothing
	}
}

// guest is a client on a connection of its own, for the keeper's own questions.
func (l *last) guest(ctx context.Context) (*agent.Client, error) {
	conn, err := l.session.Open(ctx)
	if err != nil {
		return nil, err
	}
	return agent.NewClient(conn, &agent.Options{NoHandshake: true, MaxFrame: maxAnswer}), nil
}

// maxAnswer bounds what the keeper, whose memory is no part of the sandbox's, reads of the guest's answers.
const maxAnswer = 16 << 20

func (l *last) pause() error {
	l.ops.Lock()
	defer l.ops.Unlock()
	if l.paused.Load() {
		return nil
	}
	if err := l.k.c.Pause(); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	l.paused.Store(true)
	return nil
}

// hold pauses the sandbox until whoever said so lets go of conn, or ends.
func (l *last) hold(conn *net.UnixConn) {
	before := l.paused.Load()
	if err := l.pause(); err != nil {
		_ = writeLine(conn, lastReply{reply: failure(err)})
		return
	}
	if writeLine(conn, lastReply{}) == nil {
		_, _ = io.Copy(io.Discard, conn) // nothing is expected but its end
	}
	if before {
		return
	}
	if err := l.resume(); err != nil {
		fmt.Fprintln(l.k.log, "let it go on:", err)
	}
}

func (l *last) resume() error {
	l.ops.Lock()
	defer l.ops.Unlock()
	if !l.paused.Load() {
		return nil
	}
	if err := l.k.c.Resume(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	l.paused.Store(false)
	l.touch(nil)
	return nil
}

func (l *last) touch(times *sandbox.Times) {
	l.mu.Lock()
	l.lastCall = time.Now()
	if times != nil {
		l.times = *times
	}
	l.mu.Unlock()
	select {
	case l.timesSet <- struct{}{}:
	default:
	}
}

// upper writes the upper layer while the sandbox is frozen, and lets it go on.
func (l *last) upper(file *os.File) error {
	l.ops.Lock()
	defer l.ops.Unlock()
	err := l.k.upper(file)
	if !l.paused.Load() && l.k.c.Status == container.Paused {
		err = errors.Join(err, l.k.c.Resume())
	}
	return err
}
