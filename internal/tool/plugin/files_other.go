//go:build !unix

package plugin

import "io/fs"

// trusted takes everything: without modes and numbers of users, who may write is the
// folder's access list, which its owner keeps.
func trusted(fs.FileInfo) error { return nil }

func mayRun(fs.FileInfo) bool { return true }
