//go:build !linux

package changes

import (
	"io/fs"
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
