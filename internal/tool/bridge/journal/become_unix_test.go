//go:build unix

package journal_test

import "syscall"

// become makes this process another user's.
func become(user int) {
	if err := syscall.Setuid(user); err != nil {
		panic(err)
	}
}
