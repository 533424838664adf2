//go:build !linux

package manager

// exchange gives a folder its place, and what is there the other's.
func exchange(from, to string) error { return replace(from, to) }
