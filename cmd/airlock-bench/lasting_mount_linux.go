package main

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// unmountNet lets go of what the engine mounts in its own folder and leaves there: a network without anything, once
// for all its sandboxes, and perhaps more than once.
func unmountNet(root string) {
	for range 16 {
		if err := unix.Unmount(filepath.Join(root, "null-netns"), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINTR) {
			return // it is not mounted, or never was
		}
	}
}
