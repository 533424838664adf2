package main

import "golang.org/x/sys/unix"

// keepMemory keeps the person's other programs, and a dump of memory, from the secrets in this process.
func keepMemory() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // where that cannot be, it is as any program of the person's
}
