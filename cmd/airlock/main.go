// Command airlock runs what an AI asks for in a sandbox over your files, shows what it
// changed, and lets out only what you commit.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"

	"airlock/internal/sandbox/gvisor"
	"airlock/internal/surface/cli"
)

// version is stamped in by the Makefile.
var version = "devel"

const gcPercent = 400

func main() {
	// The program is started again under other names: as the engine's processes on the
	// host, and as the guest agent inside.
	gvisor.Dispatch(os.Args[0])
	if code, ok := guestAgent(os.Args); ok {
		os.Exit(code)
	}
	if isNetGate(os.Args) {
		os.Exit(netGate())
	}
	// Most of what it does is short and leaves little behind: collect it less often.
	debug.SetGCPercent(gcPercent)
	os.Exit(run(context.Background(), arguments(os.Args)))
}

// arguments are what the program was given: linked as ai, it is airlock ai.
func arguments(args []string) []string {
	if name := strings.TrimSuffix(filepath.Base(args[0]), ".exe"); name == "ai" {
		return append([]string{"ai"}, args[1:]...)
	}
	return args[1:]
}

func run(ctx context.Context, args []string) int {
	p, end, err := wire()
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock:", err)
		return 125
	}
	code := cli.Run(ctx, p, args)
	signal.Ignore(os.Interrupt) // the record is being closed, and nothing else is left to end
	end()
	return code
}
