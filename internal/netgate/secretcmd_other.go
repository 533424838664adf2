//go:build !unix

package netgate

import "os/exec"

// own does nothing where there are no process groups.
func own(*exec.Cmd) {}
