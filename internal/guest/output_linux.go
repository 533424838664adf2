package guest

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	quiet       = 50 * time.Millisecond // silence after which an output that others hold open is left
	settleLimit = time.Second           // a child that goes on printing is left after this
	maxLeft     = 512                   // pipes of background children that are kept drained
)

// past is a deadline that has passed: it wakes a read.
var past = time.Unix(1, 0)

// A sink takes what a command prints. Only the pump that feeds it calls it.
type sink interface {
	take(p []byte)
}

// A capture keeps the beginning of a stream: enough for agent.MaxOutput bytes of text,
// never more, whatever comes.
type capture struct {
	buf []byte
}

// captureLimit leaves room for the character that the protocol's limit may cut.
const captureLimit = agent.MaxOutput + utf8.UTFMax

func (c *capture) take(p []byte) {
	room := captureLimit - len(c.buf)
	c.buf = append(c.buf, p[:min(room, len(p))]...)
}

// text is the stream as a result carries it. The limit holds for the text, after bytes
// that are not UTF-8 became U+FFFD.
func (c *capture) text() string {
	s, cut := lossy(c.buf, agent.MaxOutput)
	if cut {
		s += agent.TruncatedMarker
	}
	return s
}

// A stream sends output to the client as it comes. A client that takes nothing blocks
// the command, through its pipe.
type stream struct {
	ctx    context.Context //nolint:containedctx // ends the last sends of a call, after the call's own
	peer   rpc.Peer
	id     uint64
	name   string
	broken bool // the client takes no more: the rest is read and dropped
}

func (s *stream) take(p []byte) {
	if s.broken {
		return
	}
	params := agent.OutputParams{ID: s.id, Stream: s.name}
	var raw []byte
	if s.peer.RawAllowed() {
		raw = p
	} else {
		params.Data = p
	}
	s.broken = s.peer.Notify(s.ctx, agent.NotifyOutput, params, raw) != nil
}

// An outlet is where one output of a job goes: to the client, or into its answer; and once the job
// goes on without a connection, where it is kept.
type outlet struct {
	c      *call
	stream int     // its place among streamNames
	live   *stream // nil: it is held for the answer

	mu   sync.Mutex
	held capture
	kept *keep
}

func (o *outlet) take(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept == nil && o.live == nil {
		o.held.take(p)
		return
	}
	if o.kept == nil {
		o.live.take(p)
		if !o.live.broken || !o.c.from.s.cut() {
			return
		}
		// Nobody has had this: the copy of the sandbox goes on from here.
		o.kept = o.c.job.outputOnCut()
	}
	o.kept.add(o.stream, p)
}

// keep has the output kept from now on, with what was held for the answer.
func (o *outlet) keep(k *keep) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept == nil || len(o.held.buf) > 0 {
		o.kept = k
		k.add(o.stream, o.held.buf)
		o.held.buf = nil
	}
}

// text is what was held for the answer.
func (o *outlet) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held.text()
}

// A pump moves one output of a command into its sink, in a goroutine of its own.
type pump struct {
	src  *os.File
	sink sink
	done chan struct{} // closed when the sink has all that belongs to the answer

	// exact leaves out what is printed after the command's end, by what it left behind.
	exact bool
	once  sync.Once     // of settle
	known chan struct{} // closed when it is known how much belongs to the answer
}

// pump starts to read src, which it closes. The pump ends at the end of the stream; or,
// once settle was called, when everything that was there has been taken and nothing
// more came for a while. In that case somebody in the background holds the other end:
// the agent goes on reading, to nowhere, so that it does not die of SIGPIPE.
func (a *Agent) pump(src *os.File, to sink, exact bool) *pump {
	p := &pump{src: src, sink: to, done: make(chan struct{}), exact: exact, known: make(chan struct{})}
	go func() {
		know := sync.OnceFunc(func() { close(p.known) })
		over := p.run(&a.chunks, know)
		know()
		kept := !over && a.left.add(src)
		close(p.done)
		if kept {
			a.left.drain(src)
			return
		}
		src.Close()
	}()
	return p
}

// settle says that the command has ended. It does not wait, and may be called twice.
func (p *pump) settle() { p.once.Do(func() { p.src.SetReadDeadline(past) }) }

// run reports whether the stream is over. It calls know once it has noticed settle.
func (p *pump) run(chunks *sync.Pool, know func()) bool {
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	var (
		ended time.Time // when settle was noticed
		must  int64     // of what was in the pipe then, bytes still to be taken
	)
	for {
		if !ended.IsZero() {
			p.src.SetReadDeadline(time.Now().Add(quiet))
		}
		n, err := p.src.Read(chunk[:])
		if !ended.IsZero() && errors.Is(err, os.ErrDeadlineExceeded) {
			// A goroutine that was held up for longer than the silence gets here without
			// having tried to read.
			n, err = p.tryRead(chunk[:], err)
		}
		if n > 0 {
			taken := int64(n)
			if p.exact && !ended.IsZero() {
				taken = min(taken, max(must, 0))
			}
			if taken > 0 {
				p.sink.take(chunk[:taken])
			}
			must -= int64(n)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if ended.IsZero() {
				ended, must = time.Now(), p.pending()
				know()
				continue
			}
			return false
		case err != nil:
			return true
		case !ended.IsZero() && must <= 0 && time.Since(ended) > settleLimit:
			return false
		}
	}
}

// tryRead reads what is there already, whatever the deadline; none is the error where there is nothing.
func (p *pump) tryRead(chunk []byte, none error) (n int, err error) {
	conn, err := p.src.SyscallConn()
	if err != nil {
		return 0, none
	}
	failed := conn.Control(func(fd uintptr) {
		err = retry(func() (err error) {
			n, err = unix.Read(int(fd), chunk)
			return err
		})
	})
	switch {
	case failed != nil || err != nil:
		return 0, none
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// pending is how many bytes wait in the pipe.
func (p *pump) pending() int64 {
	conn, err := p.src.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return int64(n)
}

// leftovers are outputs that background children hold open after their command's answer.
type leftovers struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	files  map[*os.File]struct{}
	closed bool
}

func newLeftovers() *leftovers {
	return &leftovers{files: map[*os.File]struct{}{}}
}

// add reports whether f is to be drained; otherwise there are too many already.
func (l *leftovers) add(f *os.File) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.files) >= maxLeft {
		return false
	}
	l.files[f] = struct{}{}
	l.wg.Add(1)
	return true
}

// drain reads f, which was added, to its end.
func (l *leftovers) drain(f *os.File) {
	defer l.wg.Done()
	f.SetReadDeadline(time.Time{})
	buf := make([]byte, 4096)
	for {
		if _, err := f.Read(buf); err != nil {
			break
		}
	}
	l.mu.Lock()
	delete(l.files, f)
	l.mu.Unlock()
	f.Close()
}

func (l *leftovers) close() {
	l.mu.Lock()
	l.closed = true
	for f := range l.files {
		f.Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}
