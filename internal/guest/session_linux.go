package guest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	startWait   = 5 * time.Second // for an exec whose input overtook it
	rememberIDs = 64              // execs that ended, so that late input is told so at once
)

// A session is one connection. It implements rpc.Handler.
type session struct {
	a   *Agent
	cut func() bool // the connection was cut off: its client knows nothing of it

	mu      sync.Mutex
	runs    map[uint64]running // without a process: the command is about to start
	ended   []uint64           // the last execs, oldest first
	changed chan struct{}      // closed and replaced when runs changes
}

// running is a command that input, resize and signal reach.
type running struct {
	*process
	input bool // it may be fed
}

func newSession(a *Agent, conn any) *session {
	s := &session{a: a, cut: func() bool { return false }, runs: map[uint64]running{}, changed: make(chan struct{})}
	if c, ok := conn.(interface{ Cut() bool }); ok {
		s.cut = c.Cut
	}
	return s
}

// A method answers one request of a session.
type method func(s *session, ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error)

// methodOf is the protocol's table of methods; nil is a method that it does not have.
func methodOf(name string) method {
	switch name {
	case agent.MethodPing:
		return (*session).ping
	case agent.MethodExec:
		return (*session).exec
	case agent.MethodExecCode:
		return (*session).execCode
	case agent.MethodReadFile:
		return (*session).readFile
	case agent.MethodWriteFile:
		return (*session).writeFile
	case agent.MethodListDir:
		return (*session).listDir
	case agent.MethodHello:
		return (*session).hello
	case agent.MethodCancel:
		return (*session).cancel
	case agent.MethodInput:
		return (*session).input
	case agent.MethodResize:
		return (*session).resize
	case agent.MethodSignal:
		return (*session).signal
	case agent.MethodStat:
		return (*session).stat
	case agent.MethodMkdir:
		return (*session).mkdir
	case agent.MethodRename:
		return (*session).rename
	case agent.MethodRemove:
		return (*session).remove
	case agent.MethodProcesses:
		return (*session).processes
	case agent.MethodAttach:
		return (*session).attach
	case agent.MethodEnd:
		return (*session).endProcess
	case agent.MethodDial:
		return (*session).dial
	case agent.MethodListen:
		return (*session).listen
	case agent.MethodAccept:
		return (*session).accept
	case agent.MethodPack:
		return (*session).pack
	case agent.MethodUnpack:
		return (*session).unpack
	}
	return nil
}

// Handle implements rpc.Handler.
func (s *session) Handle(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	m := methodOf(req.Method)
	if m == nil {
		return nil, rpc.Errorf(rpc.CodeMethodNotFound, "method not found: %s", req.Method)
	}
	return m(s, ctx, peer, req)
}

func (s *session) ping(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	if err := decode(req, &agent.Empty{}); err != nil {
		return nil, err
	}
	return agent.PingResult{Pong: true}, nil
}

func (s *session) hello(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p agent.HelloParams
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if p.Raw {
		peer.AllowRaw()
	}
	s.a.log.DebugContext(ctx, "client said hello", "client", p.Client, "protocol", p.Protocol, "raw", p.Raw)
	return agent.HelloResult{
		Protocol:     commonVersion(p.Protocol),
		Agent:        Name,
		Version:      s.a.version,
		Capabilities: capabilities(),
		MaxFrame:     s.a.maxFrame,
		PID:          os.Getpid(),
		OS:           runtime.GOOS,
		Arch:         runtime.GOARCH,
	}, nil
}

// commonVersion is the older of the client's version and ours. A version that cannot be
// read is taken for a newer one: its client has to cope with ours.
func commonVersion(theirs string) string {
	var major, minor, ourMajor, ourMinor int
	if _, err := fmt.Sscanf(theirs, "%d.%d", &major, &minor); err != nil || major < 0 || minor < 0 {
		return agent.ProtocolVersion
	}
	_, _ = fmt.Sscanf(agent.ProtocolVersion, "%d.%d", &ourMajor, &ourMinor)
	if major < ourMajor || major == ourMajor && minor < ourMinor {
		return fmt.Sprintf("%d.%d", major, minor)
	}
	return agent.ProtocolVersion
}

func (s *session) cancel(_ context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		ID *uint64 `json:"id"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if p.ID == nil {
		return nil, missing("id")
	}
	return agent.CancelResult{Canceled: peer.Cancel(*p.ID)}, nil
}

// begin says that request id is going to have a process.
func (s *session) begin(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id] = running{}
	s.ended = slices.DeleteFunc(s.ended, func(e uint64) bool { return e == id })
	s.changedLocked()
}

// add makes a process reachable by input, resize and signal.
func (s *session) add(id uint64, p running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id] = p
	s.changedLocked()
}

// end says that request id is over, whether or not it came to have a process.
func (s *session) end(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, id)
	if len(s.ended) >= rememberIDs {
		s.ended = slices.Delete(s.ended, 0, 1)
	}
	s.ended = append(s.ended, id)
	s.changedLocked()
}

func (s *session) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// find returns the process of request id. A request that is sent right behind its exec
// may be handled before it, so there is a short wait for an id that was never seen.
func (s *session) find(ctx context.Context, id uint64) (running, error) {
	var timeout <-chan time.Time
	for {
		s.mu.Lock()
		p, known := s.runs[id]
		ended, changed := slices.Contains(s.ended, id), s.changed
		s.mu.Unlock()
		if p.process != nil {
			return p, nil
		}
		if ended {
			return running{}, fmt.Errorf("request %d: %w", id, errEnded)
		}
		if known {
			timeout = nil // its end, too, is a change
		} else if timeout == nil {
			t := time.NewTimer(startWait)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-changed:
		case <-timeout:
			return running{}, rpc.Errorf(rpc.CodeInvalidParams, "id %d: no such command on this connection", id)
		case <-ctx.Done():
			return running{}, ctx.Err()
		}
	}
}

func (s *session) input(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.InputParams
		ID *uint64 `json:"id"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if p.ID == nil {
		return nil, missing("id")
	}
	data := p.Data
	if req.Raw != nil {
		if len(data) > 0 {
			return nil, invalid("data: the bytes are in the payload or in data, not in both")
		}
		data = req.Raw
	}
	proc, err := s.find(ctx, *p.ID)
	if err != nil {
		return nil, err
	}
	if !proc.input || proc.stdin == nil || !proc.stdin.open {
		return nil, invalid("id %d: the command was started without input", *p.ID)
	}
	if err := proc.stdin.write(ctx, data, p.EOF); err != nil {
		return nil, fmt.Errorf("request %d: %w", *p.ID, err)
	}
	return agent.Empty{}, nil
}

func (s *session) resize(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		ID   *uint64 `json:"id"`
		Rows *uint16 `json:"rows"`
		Cols *uint16 `json:"cols"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	switch {
	case p.ID == nil:
		return nil, missing("id")
	case p.Rows == nil:
		return nil, missing("rows")
	case p.Cols == nil:
		return nil, missing("cols")
	}
	proc, err := s.find(ctx, *p.ID)
	if err != nil {
		return nil, err
	}
	if proc.master == nil {
		return nil, invalid("id %d: the command has no terminal", *p.ID)
	}
	if err := resize(proc.master, agent.TTY{Rows: *p.Rows, Cols: *p.Cols}); err != nil {
		return nil, fmt.Errorf("request %d: resize: %w", *p.ID, err)
	}
	return agent.Empty{}, nil
}

// signals are those that a client may send.
func signalNamed(name string) (unix.Signal, bool) {
	allowed := []unix.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGKILL, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP, unix.SIGSTOP,
	}
	for _, sig := range allowed {
		if unix.SignalName(sig) == name {
			return sig, true
		}
	}
	return 0, false
}

func (s *session) signal(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		ID     *uint64 `json:"id"`
		Signal *string `json:"signal"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	switch {
	case p.ID == nil:
		return nil, missing("id")
	case p.Signal == nil:
		return nil, missing("signal")
	}
	sig, ok := signalNamed(*p.Signal)
	if !ok {
		return nil, invalid("signal: %q is not one that can be sent", clip(*p.Signal))
	}
	proc, err := s.find(ctx, *p.ID)
	if err != nil {
		return nil, err
	}
	select {
	case <-proc.done:
		return nil, fmt.Errorf("request %d: %w", *p.ID, errEnded)
	default:
	}
	if !s.a.reaper.signal(proc.child, sig) {
		return nil, fmt.Errorf("request %d: %w", *p.ID, errEnded)
	}
	return agent.Empty{}, nil
}
