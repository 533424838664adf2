//go:build !linux

package changes

import (
	"errors"
	"os"
)

// errHost is every host call's answer here.
var errHost = errors.New("files of the host are read and changed on Linux only")

// A hostFS stands where Linux has one; see hostfs_linux.go.
type hostFS struct{}

// hostWorks is nil where commits can be made.
func hostWorks() error { return errHost }

func openHost(string) (*hostFS, error)                         { return nil, errHost }
func (*hostFS) Close() error                                   { return nil }
func (*hostFS) Lstat(Path) (*Node, error)                      { return nil, errHost }
func (*hostFS) Open(Path) (*os.File, error)                    { return nil, errHost }
func (*hostFS) ReadDir(Path) ([]string, error)                 { return nil, errHost }
func (*hostFS) Create(Path) (*os.File, error)                  { return nil, errHost }
func (*hostFS) Mkdir(Path) error                               { return errHost }
func (*hostFS) Symlink(Path, Path) error                       { return errHost }
func (*hostFS) Mkfifo(Path) error                              { return errHost }
func (*hostFS) Remove(Path) error                              { return errHost }
func (*hostFS) MayWrite(Path) error                            { return errHost }
func (*hostFS) swap(Path, Path) error                          { return errHost }
func (*hostFS) chmod(Path, uint32) error                       { return errHost }
func (*hostFS) carry(Path, *os.File)                           {}
func (*hostFS) mount(Path) (uint64, error)                     { return 0, errHost }
func (*hostFS) syncDir(Path, bool) error                       { return errHost }
func (*hostFS) setMeta(Path, *Node) (given, error)             { return given{}, errHost }
func setFileMeta(*os.File, Path, *Node) (given, error)         { return given{}, errHost }
func link(place, place) error                                  { return errHost }
func renameNew(place, place) error                             { return errHost }
func dataRuns(*os.File, int64, func(int64, int64) error) error { return errHost }
