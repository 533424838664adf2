//go:build !linux

package material

import "runtime"

var osReleaseFiles []string

// system is what the standard library tells.
func system() string { return runtime.GOOS + " " + runtime.GOARCH }
