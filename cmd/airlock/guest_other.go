//go:build !linux

package main

// guestAgent does nothing here: the guest agent runs on Linux.
func guestAgent([]string) (code int, ok bool) { return 0, false }
