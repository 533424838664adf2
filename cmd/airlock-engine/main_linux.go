// Command airlock-engine is the part of airlock that runs sandboxes, and nothing else: the
// engine, its keeper and the guest agent. airlock is all of it by itself; where this
// program lies beside it, sandboxes start sooner, because each of the engine's processes
// brings up less.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"airlock/internal/guest"
	"airlock/internal/sandbox/gvisor"
)

// version is stamped in by the Makefile.
var version = "devel"

func main() {
	gvisor.Dispatch(os.Args[0])
	if filepath.Base(os.Args[0]) == guest.Name {
		os.Exit(guest.Main(context.Background(), version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("airlock-engine", version)
		return
	}
	fmt.Fprintln(os.Stderr, "airlock-engine is started by airlock, beside which it lies; it does nothing by itself")
	os.Exit(2)
}
