package image

import "io"

const (
	aheadSize = 256 << 10 // bytes of a piece
	aheadMost = 4         // pieces that are read before they are asked for
)

// An ahead is a reader that a goroutine of its own reads, so that one processor decompresses and hashes while
// another one writes files.
type ahead struct {
	full chan piece
	free chan []byte
	stop chan struct{}
	done chan struct{}

	now    piece
	rest   []byte // of now
	closed bool
}

// A piece is what was read, and the error that came behind it.
type piece struct {
	buf []byte
	err error
}

func readAhead(r io.Reader) *ahead {
	a := &ahead{
		full: make(chan piece, aheadMost), free: make(chan []byte, aheadMost),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	for range aheadMost {
		a.free <- make([]byte, aheadSize)
	}
	go func() {
		defer close(a.done)
		for {
			select {
			case <-a.stop:
				return
			case buf := <-a.free:
				n, err := fill(r, buf[:aheadSize])
				a.full <- piece{buf[:n], err} // as many fit in as there are
				if err != nil {
					return
				}
			}
		}
	}()
	return a
}

// fill reads until buf is full or there is an error.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.buf != nil {
			a.free <- a.now.buf
		}
		a.now = <-a.full
		a.rest = a.now.buf
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// close waits until nobody reads any more. It may be called twice; Read may not be called afterwards.
func (a *ahead) close() {
	if !a.closed {
		a.closed = true
		close(a.stop)
	}
	<-a.done
}
