//go:build !linux

package changes

import "os"

// A hostFS stands where Linux has one; see hostfs_linux.go.
type hostFS struct{}

func openHost(string) (*hostFS, error)         { return nil, errHost }
func (*hostFS) Close() error                   { return nil }
func (*hostFS) Lstat(Path) (*Node, error)      { return nil, errHost }
func (*hostFS) Open(Path) (*os.File, error)    { return nil, errHost }
func (*hostFS) ReadDir(Path) ([]string, error) { return nil, errHost }
