package mux

import "sync"

// Memory of what is on its way is shared by all sessions, and goes back where nothing is.
// A pool holds no state: what it gives out is empty.
var (
	pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}
	queues = sync.Pool{New: func() any { return new([queueSize]byte) }}
)

// smallPiece is enough for most lines. What comes a byte at a time fills it up.
const smallPiece = 512

const queueSize = outLimit + maxFrame

// newPiece is room for what came: for n bytes, where that is little.
func newPiece(n int) []byte {
	if n <= smallPiece {
		return make([]byte, 0, smallPiece)
	}
	return pieces.Get().(*[pieceSize]byte)[:0]
}

func oldPiece(p []byte) {
	if cap(p) == pieceSize {
		pieces.Put((*[pieceSize]byte)(p[:pieceSize]))
	}
}

// newQueue is room for frames that wait to be written.
func newQueue() []byte { return queues.Get().(*[queueSize]byte)[:0] }

func oldQueue(q []byte) {
	if cap(q) == queueSize {
		queues.Put((*[queueSize]byte)(q[:queueSize]))
	}
}
