package guest

import (
	"bytes"
	"testing"
)

// A model of a keep that keeps everything.
type allKept struct {
	data    []byte
	streams []byte
}

func (m *allKept) add(stream int, p []byte) {
	m.data = append(m.data, p...)
	m.streams = append(m.streams, bytes.Repeat([]byte{byte(stream)}, len(p))...)
}

// agree reads all that k keeps, in pieces of this size, and holds it against the model.
func agree(t *testing.T, k *keep, m *allKept, piece int) {
	t.Helper()
	first, end := k.span()
	if end != int64(len(m.data)) || first < 0 || first > end || end-first > k.max || int64(cap(k.buf)) > 2*k.max+64 {
		t.Fatalf("it keeps %d to %d of %d, in %d bytes", first, end, len(m.data), cap(k.buf))
	}
	buf := make([]byte, piece)
	at := int64(0)
	for {
		n, from, stream, _ := k.read(buf, at)
		if n == 0 {
			break
		}
		if at < first && from != first || at >= first && from != at {
			t.Fatalf("read at %d began at %d; it keeps %d to %d", at, from, first, end)
		}
		at = from + int64(n)
		if !bytes.Equal(buf[:n], m.data[from:at]) {
			t.Fatalf("bytes %d to %d are not those that came", from, at)
		}
		for i, s := range m.streams[from:at] {
			if int(s) != stream {
				t.Fatalf("byte %d is of stream %d, and was read as %d's", from+int64(i), s, stream)
			}
		}
	}
	if at != end && end != first {
		t.Fatalf("reading ended at %d of %d", at, end)
	}
}

// FuzzKeep adds what the input says: pairs of a length and a stream.
func FuzzKeep(f *testing.F) {
	f.Add([]byte{3, 200, 1, 7, 255, 0}, uint16(10))
	f.Add(bytes.Repeat([]byte{2, 5}, 100), uint16(1))
	f.Add(bytes.Repeat([]byte{2, 3}, 3000), uint16(5000))
	f.Fuzz(func(t *testing.T, sizes []byte, limit uint16) {
		k, m := newKeep(int64(limit)+1), &allKept{}
		for i, size := range sizes {
			p := bytes.Repeat([]byte{byte(i), byte(i >> 8), size}, int(size>>1))
			k.add(int(size&1), p)
			m.add(int(size&1), p)
		}
		agree(t, k, m, 1+len(sizes)%100)
	})
}

func TestStreamsThatTakeTurnsAreKeptWithinBounds(t *testing.T) {
	k, m := newKeep(1<<19), &allKept{}
	for i := range 1 << 20 {
		p := []byte{byte(i)}
		k.add(i&1, p)
		m.add(i&1, p)
	}
	if n := cap(k.bites); n > 40_000 {
		t.Errorf("there are %d bites", n)
	}
	if first, end := k.span(); end-first < minBites/2 {
		t.Errorf("only %d bytes are kept", end-first)
	}
	agree(t, k, m, 1000)
}

func TestWhoWaitsIsToldOfMore(t *testing.T) {
	k := newKeep(10)
	_, _, _, changed := k.read(make([]byte, 1), 0)
	select {
	case <-changed:
		t.Fatal("nothing came")
	default:
	}
	k.add(0, []byte("x"))
	<-changed
}
