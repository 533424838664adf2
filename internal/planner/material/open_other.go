//go:build !linux

package material

import (
	"io/fs"
	"os"
	"path/filepath"
)

// open opens a regular file, and gives its path with every link resolved.
func open(name string) (*os.File, string, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, "", cause(err)
	}
	before, err := os.Lstat(real)
	if err != nil {
		return nil, "", cause(err)
	}
	switch mode := before.Mode(); {
	case mode.IsDir():
		return nil, "", errFolder
	case mode&fs.ModeNamedPipe != 0:
		return nil, "", special("a named pipe")
	case mode&fs.ModeSocket != 0:
		return nil, "", special("a socket")
	case !mode.IsRegular():
		return nil, "", special("a device")
	}
	f, err := os.Open(real)
	if err != nil {
		return nil, "", cause(err)
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, "", fs.ErrNotExist // something else was put in its place meanwhile
	}
	return f, real, nil
}
