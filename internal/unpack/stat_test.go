//go:build unix

package unpack_test

import (
	"io/fs"
	"syscall"
)

func blocks(st fs.FileInfo) int64 { return int64(st.Sys().(*syscall.Stat_t).Blocks) }
func nlink(st fs.FileInfo) uint64 { return uint64(st.Sys().(*syscall.Stat_t).Nlink) }
