package guest

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	defaultMaxCommands = 64
	maxInFlight        = 256              // requests of one connection at the same time
	chunkSize          = 32 << 10         // bytes read from a command's output at a time
	frameMemory        = 256 << 20        // bytes of large requests, over all connections
	answerBudget       = 256 << 20        // bytes of file content and folders on their way out, over all connections
	turnWait           = 30 * time.Second // for a part of the budget
	slotWait           = time.Second      // for another command to end
)

// An Agent serves the guest protocol to any number of connections. It is safe for
// concurrent use.
type Agent struct {
	maxFrame int64
	version  string
	user     string   // of commands that name none; "": the agent's own
	owner    *account // of new files; nil: the agent's own
	log      *slog.Logger

	reaper  *reaper
	slots   chan struct{} // one for each command that runs
	frames  *rpc.Memory   // memory of large requests
	budget  *budget       // memory of answers that carry files and folders
	chunks  sync.Pool     // of *[chunkSize]byte
	left    *leftovers    // output pipes that outlived their command
	cgroups *cgroups
	rest    rest
	jobs    *jobs
	tunnels *tunnels
	keeps   atomic.Bool // a command was started whose rest may run on

	mu       sync.Mutex
	closed   bool
	serving  sync.WaitGroup
	stops    map[uint64]context.CancelFunc // of the connections being served
	lastConn uint64
}

// New returns an Agent that serves nothing yet. It fails where opts.User is nobody.
func New(opts *Options) (*Agent, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxFrame <= 0 {
		o.MaxFrame = agent.DefaultMaxFrame
	}
	if o.MaxCommands <= 0 {
		o.MaxCommands = defaultMaxCommands
	}
	owner, err := ownerOf(o.User)
	if err != nil {
		return nil, err
	}
	log := opts.logger()
	a := &Agent{
		user:     o.User,
		owner:    owner,
		maxFrame: o.MaxFrame,
		version:  opts.version(),
		log:      log,
		reaper:   newReaper(o.ReapOrphans),
		slots:    make(chan struct{}, o.MaxCommands),
		frames:   rpc.NewMemory(max(frameMemory, 2*o.MaxFrame)),
		budget:   newBudget(answerBudget),
		left:     newLeftovers(),
		cgroups:  newCgroups(log),
		jobs:     newJobs(),
		tunnels:  newTunnels(),
		stops:    map[uint64]context.CancelFunc{},
	}
	a.reaper.drown = a.cgroups.stifle
	a.chunks.New = func() any { return new([chunkSize]byte) }
	return a, nil
}

// Serve speaks to one client until it goes away, ctx ends or the Agent is closed, and
// closes conn. Before it returns, every command that the connection started and that
// still ran has been ended. What such a command left behind in the background on a
// normal end goes on, unless its end_rest said otherwise.
func (a *Agent) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		conn.Close()
		return os.ErrClosed
	}
	a.lastConn++
	id := a.lastConn
	a.stops[id] = cancel
	a.serving.Add(1)
	a.mu.Unlock()

	a.reaper.acquire()
	defer func() {
		a.reaper.release()
		a.mu.Lock()
		delete(a.stops, id)
		a.mu.Unlock()
		a.serving.Done()
	}()
	return rpc.Serve(ctx, conn, newSession(a, conn), &rpc.ServerOptions{
		MaxFrame:    a.maxFrame,
		Memory:      a.frames,
		MaxInFlight: maxInFlight,
		Inline:      inline,
		Control:     control,
		Last:        last,
		Gone:        goneCheck(conn),
		Logger:      a.log,
	})
}

// Close ends all connections and all commands, also those without a connection, and waits for
// them. It lets go of the output of what commands left running, and removes the control groups that are empty by now.
// It may be called twice.
func (a *Agent) Close() error {
	a.mu.Lock()
	a.closed = true
	for _, stop := range a.stops {
		stop()
	}
	a.mu.Unlock()
	a.jobs.close()
	a.tunnels.close() // before the wait: an accept that was given up may hand its connection back, and wait for somebody
	a.serving.Wait()
	a.rest.stop()
	a.left.close()
	a.cgroups.settle()
	return nil
}

// slot takes one of the places for commands, waiting a little for one.
func (a *Agent) slot(ctx context.Context) error {
	select {
	case a.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(slotWait)
	defer timer.Stop()
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return rpc.Errorf(rpc.CodeBusy, "%d commands run already, and that is the limit", cap(a.slots))
	}
}

// capabilities are what hello announces.
func capabilities() []string {
	return []string{
		agent.CapExec, agent.CapStream, agent.CapInput, agent.CapTTY,
		agent.CapCancel, agent.CapFiles, agent.CapRaw, agent.CapRest,
		agent.CapProcesses,
		agent.CapTunnels, agent.CapArchives,
	}
}

// inline names the methods that answer at once, so that they need no goroutine.
func inline(method string) bool {
	return method == agent.MethodPing || method == agent.MethodHello || method == agent.MethodCancel
}

// control names the methods that steer a request that runs.
func control(method string) bool {
	return method == agent.MethodInput || method == agent.MethodResize || method == agent.MethodSignal
}

// sent calls f when the answer to req has left.
func sent(req *rpc.Request, f func()) {
	before := req.Sent
	req.Sent = func() {
		if before != nil {
			before()
		}
		f()
	}
}

// reserve counts n bytes against the budget until the answer to req has left.
func (s *session) reserve(ctx context.Context, req *rpc.Request, n int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, turnWait, errBusy)
	defer cancel()
	held, err := s.a.budget.acquire(ctx, n)
	if err != nil {
		return context.Cause(ctx)
	}
	sent(req, func() { s.a.budget.release(held) })
	return nil
}

var errBusy = rpc.Errorf(rpc.CodeBusy, "the memory for answers is taken by others that were not read yet")

// A budget is a weighted semaphore: a bound on memory that requests share.
type budget struct {
	size int64

	mu      sync.Mutex
	used    int64
	changed chan struct{} // closed and replaced when memory comes back
}

func newBudget(size int64) *budget {
	return &budget{size: size, changed: make(chan struct{})}
}

// acquire takes n, or all there is where n is more, and waits until that is free. It
// returns what release must be given back.
func (b *budget) acquire(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.size)
	for {
		b.mu.Lock()
		if b.used+n <= b.size {
			b.used += n
			b.mu.Unlock()
			return n, nil
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	close(b.changed)
	b.changed = make(chan struct{})
}
