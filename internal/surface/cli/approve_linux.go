package cli

import "os"

// ours reports whether this process may ask on the terminal: one in the background would
// be stopped by reading it.
func ours(f *os.File) bool { return foreground(f) }
