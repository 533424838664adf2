//go:build !linux && !darwin

package manager

// freeSpace is not known: no driver makes sandboxes here.
func freeSpace(string) (int64, error) { return -1, nil }
