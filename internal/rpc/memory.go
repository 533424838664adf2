package rpc

import (
	"errors"
	"sync"
)

// errNoMemory is a large frame for which the shared memory does not suffice now.
var errNoMemory = errors.New("the memory for large frames is taken; try again later")

// Memory is what the large frames of several connections may hold together, from their
// first bytes until their requests are answered. A nil Memory is without limit.
type Memory struct {
	mu   sync.Mutex
	left int64
}

// NewMemory returns a Memory of so many bytes. It should hold a few frames of the
// largest size.
func NewMemory(bytes int64) *Memory { return &Memory{left: bytes} }

// take reports whether n bytes could be had.
func (m *Memory) take(n int64) bool {
	if m == nil || n <= 0 {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > m.left {
		return false
	}
	m.left -= n
	return true
}

func (m *Memory) give(n int64) {
	if m == nil || n <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += n
}
