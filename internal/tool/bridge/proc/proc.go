// Package proc runs an agent's process through a guest agent, on the host or in a sandbox,
// and says how that went. It knows what a process is, and nothing of what it says.
package proc

import (
	"io"
	"time"

	"airlock/agent"
)

// A Run is one attempt at running an agent.
type Run struct {
	Client *agent.Client

	// Params are what to run: Argv, Cwd, Env with ClearEnv, User, MaxProcs and, for an agent
	// that is given all of it at once, Stdin. TimeoutMS is not: Limit is.
	Params agent.ExecParams

	Limit     time.Duration // after which it is ended; above 0
	MaxOutput int64         // bytes of stdout, beyond which Do ends it; above 0

	// Grace is how long it is left alone after Limit, or after ctx's end, for who tells it
	// that its time is over (Running.Over); 0: it is ended at once.
	Grace time.Duration

	// Stderr takes what it writes there, as it comes. It may be nil; its errors end nothing.
	Stderr io.Writer

	Signals <-chan string // handed on to it; may be nil
}

// An Outcome is how a run went.
type Outcome struct {
	Result   agent.ExecResult // but for its output; Stderr says why it was not started
	Err      error            // its fate is not known, or what it was given or printed met an error
	Stdout   []byte           // of at most MaxOutput bytes
	Stderr   string           // its last part, of at most 64 KiB: UTF-8
	TooMuch  bool             // it printed more than MaxOutput, and was ended
	TimedOut bool             // Limit (or ctx's deadline) passed, and it was ended
	Canceled bool             // ctx ended first, and so did it
}
