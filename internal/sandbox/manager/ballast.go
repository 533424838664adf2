package manager

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"airlock/internal/statedb"
)

// ballastSize is enough for a few rows here and in the record.
const ballastSize = 4 << 20

// The ballast is a file that is of no use but for the room it takes: what sandboxes write can fill
// the disk, and to remove one, rows have to be written first.
func (m *Manager) ballast() string { return filepath.Join(m.opts.Dir, "ballast") }

// keepBallast makes it where there is none. On a disk that has no room for it, there is none.
func (m *Manager) keepBallast() {
	f, err := os.OpenFile(m.ballast(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, err = f.Write(make([]byte, ballastSize))
	if errors.Join(err, f.Close()) != nil {
		_ = os.Remove(m.ballast())
	}
}

// withBallast writes what has to be written to make room, also on a full disk.
func (m *Manager) withBallast(write func() error) error {
	err := write()
	if !statedb.Full(err) {
		return err
	}
	if gone := os.Remove(m.ballast()); gone != nil {
		if errors.Is(gone, fs.ErrNotExist) {
			return err
		}
		return errors.Join(err, gone)
	}
	m.lighter.Store(true)
	return write()
}
