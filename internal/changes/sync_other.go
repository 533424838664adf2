//go:build !linux

package changes

import (
	"io/fs"
	"os"
	"path/filepath"
)

// syncAll waits until every file below dir is on the disk.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return syncDir(name)
		}
		return syncFile(name)
	})
}

// nameless gives data as a file without a name, where the system can take it away.
func nameless(dir string, data []byte) (*os.File, error) {
	f, err := os.CreateTemp(dir, "read-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // what stays goes with the set
	return filled(f, data)
}
