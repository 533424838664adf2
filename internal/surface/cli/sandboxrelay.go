package cli

import (
	"io"
	"sync"
)

// A relay reads an input for one reader after the other: what one has not taken, the next
// one gets. Keys that mean "let go" end it, where detach is set.
type relay struct {
	chunks chan []byte   // of the input; closed at its end, unless somebody let go
	letGo  chan struct{} // closed when the keys came

	mu   sync.Mutex
	rest []byte // taken from chunks, and not yet by a reader
}

// The keys by which a person lets go of a terminal inside, as of a docker container's.
const (
	detachFirst  = 0x10 // Ctrl-P
	detachSecond = 0x11 // Ctrl-Q
)

// relayDepth is how many chunks wait for a reader, so that the keys are seen before it
// takes what was typed ahead of them.
const relayDepth = 64

// newRelay reads in until its end, which may be after the relay is of use: the goroutine
// that waits in a Read ends with it.
func newRelay(in io.Reader, detach bool) *relay {
	r := &relay{chunks: make(chan []byte, relayDepth), letGo: make(chan struct{})}
	go func() {
		keys := &detachKeys{}
		for {
			buf := make([]byte, 32<<10)
			n, err := in.Read(buf)
			chunk, over := buf[:n], false
			if detach {
				chunk, over = keys.filter(chunk)
			}
			if err != nil && keys.held {
				chunk = append(chunk, detachFirst)
			}
			if over {
				select {
				case r.chunks <- chunk:
				default: // nobody has taken what was typed before that either
				}
				close(r.letGo) // which is not the end of the input
				return
			}
			if len(chunk) > 0 {
				r.chunks <- chunk
			}
			if err != nil {
				close(r.chunks)
				return
			}
		}
	}()
	return r
}

// detachKeys looks for the two keys in what is typed. The first is held back until it is
// known what follows it.
type detachKeys struct{ held bool }

func (k *detachKeys) filter(typed []byte) (out []byte, over bool) {
	for _, c := range typed {
		switch {
		case k.held && c == detachSecond:
			return out, true
		case k.held && c == detachFirst:
			out = append(out, detachFirst)
		case c == detachFirst:
			k.held = true
		default:
			if k.held {
				out = append(out, detachFirst)
				k.held = false
			}
			out = append(out, c)
		}
	}
	return out, false
}

// reader is the input for one that may end before the input does.
func (r *relay) reader() *relayReader { return &relayReader{r: r, quit: make(chan struct{})} }

type relayReader struct {
	r    *relay
	quit chan struct{}
	once sync.Once
}

// stop ends it: a Read that waits takes nothing.
func (r *relayReader) stop() { r.once.Do(func() { close(r.quit) }) }

func (r *relayReader) Read(p []byte) (int, error) {
	r.r.mu.Lock()
	defer r.r.mu.Unlock()
	if len(r.r.rest) == 0 {
		select {
		case <-r.quit:
			return 0, io.EOF
		default:
		}
		select {
		case chunk, ok := <-r.r.chunks:
			if !ok {
				return 0, io.EOF
			}
			r.r.rest = chunk
		case <-r.quit:
			return 0, io.EOF
		}
	}
	n := copy(p, r.r.rest)
	r.r.rest = r.r.rest[n:]
	return n, nil
}
