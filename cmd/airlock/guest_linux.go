package main

import (
	"context"
	"os"
	"path/filepath"

	"airlock/internal/guest"
)

// guestAgent runs the guest agent if that is the name the program was started under.
func guestAgent(args []string) (code int, ok bool) {
	if filepath.Base(args[0]) != "airlock-agent" {
		return 0, false
	}
	return guest.Main(context.Background(), version, args[1:], os.Stdin, os.Stdout, os.Stderr), true
}
