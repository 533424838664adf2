package changes

import (
	"bytes"
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
