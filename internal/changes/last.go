package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// LastCommitted gives the set whose latest commit, of those that no undo took back or
// that was interrupted, is the newest of all. Where there is none, the error is
// ErrNotUndoable.
func (s *Store) LastCommitted() (string, error) {
	ids, err := s.ids()
	if err != nil {
		return "", err
	}
	var last string
	var when time.Time
	for _, id := range ids {
		dir := filepath.Join(s.dir, id)
		if _, err := os.Lstat(filepath.Join(dir, journalName(1))); err != nil {
			continue // never committed
		}
		done, pending, err := readEntries(dir)
		if err != nil {
			continue // a damaged set must not hide the others; named, it says what is wrong
		}
		m := committer{entries: done}
		stack := m.active()
		if pending != nil {
			stack = append(stack, pending)
		}
		if len(stack) == 0 {
			continue
		}
		if t := stack[len(stack)-1].entry.Time; last == "" || t.After(when) {
			last, when = id, t
		}
	}
	if last == "" {
		return "", fmt.Errorf("no commit stands: %w", ErrNotUndoable)
	}
	return last, nil
}
