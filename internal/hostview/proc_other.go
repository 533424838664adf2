//go:build !linux

package hostview

// ForeignProc reports false: there is no such file system.
func ForeignProc(string) bool { return false }
