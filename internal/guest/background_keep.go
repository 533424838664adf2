package guest

import (
	"slices"
	"sync"
)

const (
	// Output that changes between the streams more often than every so many bytes is
	// kept for fewer bytes than was asked for.
	bytesPerBite = 256
	minBites     = 1024
)

// The names of a command's outputs.
var streamNames = [2]string{"stdout", "stderr"}

// A keep holds the newest output of a command, in the order in which it came. Its memory is
// bounded, and who adds to it never waits. It is safe for concurrent use.
type keep struct {
	max int64

	mu      sync.Mutex
	buf     []byte        // byte n of the output lies at n modulo max
	first   int64         // offset of the oldest byte that is kept
	end     int64         // offset after the newest
	bites   []bite        // oldest first; from old on they cover what is kept
	old     int           // that are no longer needed
	changed chan struct{} // nil: nobody waits
}

// A bite is output of one stream, up to an offset.
type bite struct {
	end    int64
	stream int
}

func newKeep(size int64) *keep {
	return &keep{max: size}
}

func (k *keep) add(stream int, p []byte) {
	if len(p) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end += int64(len(p))
	if over := int64(len(p)) - k.max; over > 0 {
		p = p[over:]
	}
	for at := k.end - int64(len(p)); len(p) > 0; {
		i := at % k.max
		n := min(int64(len(p)), k.max-i)
		if i+n > int64(len(k.buf)) {
			k.growLocked(i + n)
		}
		copy(k.buf[i:i+n], p)
		p, at = p[n:], at+n
	}
	k.first = max(k.first, k.end-k.max)
	if last := len(k.bites) - 1; last >= 0 && k.bites[last].stream == stream {
		k.bites[last].end = k.end
	} else {
		k.bites = append(k.bites, bite{k.end, stream})
	}
	k.forgetLocked()
	if k.changed != nil {
		close(k.changed)
		k.changed = nil
	}
}

// growLocked makes the buffer n long. It was never longer, so that what is in it stays in its place.
func (k *keep) growLocked(n int64) {
	k.buf = slices.Grow(k.buf, int(n)-len(k.buf))[:n]
}

// forgetLocked takes out what is older than first, and bites where there are too many.
func (k *keep) forgetLocked() {
	for k.bites[k.old].end <= k.first {
		k.old++
	}
	if most := int(max(k.max/bytesPerBite, minBites)); len(k.bites)-k.old > most {
		k.old++
		k.first = k.bites[k.old-1].end
	}
	if k.old > len(k.bites)/2 || k.old > minBites {
		k.bites = slices.Delete(k.bites, 0, k.old)
		k.old = 0
	}
}

// read copies what there is from offset at on, of one stream, and says where it really began: what
// is no longer kept is skipped. Where there is nothing, changed is closed when there is more.
func (k *keep) read(p []byte, at int64) (n int, from int64, stream int, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at = max(at, k.first)
	if at >= k.end {
		if k.changed == nil {
			k.changed = make(chan struct{})
		}
		return 0, at, 0, k.changed
	}
	bites := k.bites[k.old:]
	i, _ := slices.BinarySearchFunc(bites, at, func(b bite, at int64) int {
		if b.end <= at {
			return -1
		}
		return 1
	})
	b := bites[i]
	p = p[:min(int64(len(p)), b.end-at)]
	for n < len(p) {
		n += copy(p[n:], k.buf[(at+int64(n))%k.max:])
	}
	return n, at, b.stream, nil
}

// place is the offset that a request for at means: a negative one counts from the end.
func (k *keep) place(at int64) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at < 0 {
		at = max(k.end+at, 0)
	}
	return min(max(at, k.first), k.end)
}

// span is the offset of the oldest byte, and the one after the newest.
func (k *keep) span() (first, end int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.first, k.end
}
