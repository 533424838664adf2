package agent

import (
	"bytes"
	"strconv"
	"strings"
)

const (
	tarBlock   = 512
	maxTarMeta = 1 << 20 // bytes of a header's records, more than archive/tar takes
	maxNotes   = 64
)

// A follower reads along with a tar, to know where it ends: not at the end of its bytes, but after
// two empty blocks. It looks at no more than that needs, and at the notes in global headers.
type follower struct {
	block [tarBlock]byte
	have  int   // bytes of block
	skip  int64 // bytes of content, with their padding, before the next block
	meta  []byte
	kind  byte // of meta
	more  bool // the next block is the rest of an old sparse file's map

	size  int64 // of the next file, by its records; noSize: by its header
	left  int64 // of meta
	held  int64 // content behind a sparse file's map
	empty int   // empty blocks in a row

	done  bool              // the tar has ended
	lost  bool              // it is none
	notes map[string]string // by their names
}

func newFollower() *follower { return &follower{size: noSize} }

// feed takes the next bytes and says how many of them are the tar's.
func (f *follower) feed(p []byte) (used int) {
	for len(p) > used && !f.done && !f.lost {
		rest := p[used:]
		switch {
		case f.left > 0:
			n := min(int64(len(rest)), f.left)
			f.meta = append(f.meta, rest[:n]...)
			f.left -= n
			used += int(n)
			if f.left == 0 {
				f.records()
			}
		case f.skip > 0:
			n := min(int64(len(rest)), f.skip)
			f.skip -= n
			used += int(n)
		default:
			n := copy(f.block[f.have:], rest)
			f.have += n
			used += n
			if f.have == tarBlock {
				f.have = 0
				f.header()
			}
		}
	}
	if f.lost {
		return len(p)
	}
	return used
}

// What a size in records is that is none. It matters where something of that size comes.
const (
	noSize   = -1 - iota
	negative // what has no content may have it
	badSize  // nothing may
)

// header takes a block that is not content.
func (f *follower) header() {
	b := &f.block
	if f.more {
		f.sparse(b[504] != 0)
		return
	}
	if *b == [tarBlock]byte{} {
		f.empty++
		f.done = f.empty == 2
		return
	}
	size, ok := tarNumber(b[124:136])
	if f.empty > 0 || !ok || !tarSum(b) {
		f.lost = true
		return
	}
	switch kind := b[156]; kind {
	case 'x', 'g':
		if size < 0 || size > maxTarMeta {
			f.lost = true
			return
		}
		f.kind, f.meta, f.left = kind, f.meta[:0], size
		f.skip = padding(size)
		if size == 0 {
			f.records()
		}
		return
	case 'L', 'K':
		f.content(size)
		return
	case '1', '2', '3', '4', '5', '6':
		size = 0
	default:
		if size >= 0 && f.size != noSize {
			size = f.size
		}
	}
	if f.size == badSize {
		f.lost = true
		return
	}
	f.size = noSize
	f.held = size
	if b[156] == 'S' {
		f.sparse(b[482] != 0)
		return
	}
	f.content(size)
}

// sparse says whether another block of a map follows, before the content.
func (f *follower) sparse(more bool) {
	if f.more = more; !more {
		f.content(f.held)
	}
}

func (f *follower) content(size int64) {
	if size < 0 || size > 1<<62 {
		f.lost = true
		return
	}
	f.skip = size + padding(size)
}

func padding(size int64) int64 { return -size & (tarBlock - 1) }

// records reads a header's records: "LENGTH KEY=VALUE\n".
func (f *follower) records() {
	rest := string(f.meta)
	f.meta = nil
	f.size = noSize // those of the last header alone count, and right before what they are of
	for rest != "" {
		text, _, ok := strings.Cut(rest, " ")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || n <= len(text)+1 || n > len(rest) || rest[n-1] != '\n' {
			f.lost = true
			return
		}
		key, value, ok := strings.Cut(rest[len(text)+1:n-1], "=")
		rest = rest[n:]
		name, note := strings.CutPrefix(key, PackNotes)
		switch {
		case !ok:
			f.lost = true
			return
		case f.kind == 'x' && key == "size" && value == "":
			f.size = noSize
		case f.kind == 'x' && key == "size":
			f.size, err = strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil:
				f.size = badSize
			case f.size < 0:
				f.size = negative
			}
		case f.kind == 'g' && note && len(f.notes) < maxNotes:
			if f.notes == nil {
				f.notes = map[string]string{}
			}
			f.notes[name] = value
		}
	}
}

// tarNumber reads a header's number: in octal, or in base 256 where the first bit is set. Any negative one is -1.
func tarNumber(b []byte) (int64, bool) {
	if b[0]&0x80 == 0 {
		text := string(bytes.Trim(b, " \x00"))
		if i := strings.IndexByte(text, 0); i >= 0 {
			text = text[:i]
		}
		if text == "" {
			return 0, true
		}
		n, err := strconv.ParseUint(text, 8, 63)
		return int64(n), err == nil
	}
	if b[0]&0x40 != 0 {
		return -1, true // which matters only where something has that size
	}
	n := int64(b[0] & 0x3f)
	for _, c := range b[1:] {
		if n >= 1<<54 {
			return 0, false
		}
		n = n<<8 | int64(c)
	}
	return n, true
}

// tarSum checks a header's sum, which is of its bytes with the sum's own taken for spaces.
func tarSum(b *[tarBlock]byte) bool {
	want, ok := tarNumber(b[148:156])
	if !ok {
		return false
	}
	var plain, signed int64
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		plain += int64(c)
		signed += int64(int8(c))
	}
	return want == plain || want == signed
}
