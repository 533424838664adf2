// Command airlock-agent serves the guest protocol inside a sandbox. All of it is in
// package guest, which the airlock program can be as well.
package main

import (
	"context"
	"os"

	"airlock/internal/guest"
)

// version is stamped in by the Makefile.
var version = "devel"

func main() {
	os.Exit(guest.Main(context.Background(), version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
