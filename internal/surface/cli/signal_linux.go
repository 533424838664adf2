package cli

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

const signalPipe = int(unix.SIGPIPE)

func signalNumber(name string) int { return int(unix.SignalNum(name)) }

// ignoreBrokenPipes makes a write to a pipe without a reader an error instead of the
// program's end, until restore.
func ignoreBrokenPipes() (restore func()) {
	in := make(chan os.Signal, 1)
	signal.Notify(in, unix.SIGPIPE)
	return func() { signal.Stop(in) }
}
