package changes

import (
	"bytes"
	"os"
)

func setWalker(h *hostFS, on bool) { h.walker.Store(on) }

// ReadJournalBytes reads a journal and says how far it came.
func ReadJournalBytes(data []byte) (phase string, ops int, err error) {
	j, err := readJournal(bytes.NewReader(data))
	if j == nil {
		return "", 0, err
	}
	return j.phase, len(j.ops), err
}

// What the tests of commit and undo reach into.

// OnStep has f called before each step; plain is as if names could not be exchanged.
func (o *CommitOptions) OnStep(f func(string), plain bool) { o.test = testHooks{f, plain} }

func (o *UndoOptions) OnStep(f func(string), plain bool) { o.test = testHooks{f, plain} }

// HostLstat is Lstat below root, with or without openat2.
func HostLstat(root string, p Path, walk bool) (*Node, error) {
	h, err := openHost(root)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	setWalker(h, walk)
	return h.Lstat(p)
}

// HostOpen is Open below root, with or without openat2.
func HostOpen(root string, p Path, walk bool) (*os.File, error) {
	h, err := openHost(root)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	setWalker(h, walk)
	return h.Open(p)
}
