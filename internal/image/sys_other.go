//go:build !linux

package image

import (
	"io/fs"
	"math"
	"os"
	"runtime"
)

func syncFolder(d *os.File) error {
	if runtime.GOOS == "windows" { // has no such operation
		return nil
	}
	return d.Sync()
}

// syncTree and freeBytes know nothing here: root file systems are of use on Linux alone.
func syncTree(string) error { return nil }

func freeBytes(string) (int64, error) { return math.MaxInt64, nil }

func deviceOf(fs.FileInfo) uint64 { return 0 }

func stamp(fs.FileInfo) string { return "" }

func checkOwner(string, fs.FileInfo) error { return nil }
