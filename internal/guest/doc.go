// Package guest is the guest's side of the guest protocol: it runs commands and code,
// reads and writes files and lists folders for whoever holds the other end of a
// connection. It is what `airlock-agent` is made of.
//
// The agent usually is PID 1 of a sandbox. It trusts its client, which owns the
// sandbox, and distrusts everything that it starts: whatever a command prints, forks
// or leaves behind, the agent's memory stays bounded and its answers come.
//
// The package knows the protocol (package agent) and its transport (package rpc). It
// must not know sandboxes, drivers, change sets or policies, and it imports no HTTP.
// It runs on Linux; elsewhere New and Main say so.
package guest

import "log/slog"

// Name is what hello calls this program.
const Name = "airlock-agent"

// Options adjust an Agent. The zero value, and nil, are what a sandbox's agent uses
// when it is not alone in its process.
type Options struct {
	// MaxFrame bounds one line and one raw payload, both ways; 0: agent.DefaultMaxFrame.
	MaxFrame int64

	// MaxCommands bounds the commands that run at the same time, over all
	// connections; 0: 64.
	MaxCommands int

	// ReapOrphans says that this process is the agent and nothing else: every child
	// that ends is collected, whoever started it. It must be off in a process that also
	// starts programs by other means, such as a test.
	ReapOrphans bool

	// User is who a command runs as that names no user, and who owns the files and
	// folders that the file methods make, as agent.ExecOptions.User says it; "": the
	// agent's own.
	User string

	// Version is what hello reports; "": devel.
	Version string

	// Logger takes what goes wrong without an answer to carry it; nil discards.
	Logger *slog.Logger
}

func (o *Options) logger() *slog.Logger {
	if o == nil || o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

func (o *Options) version() string {
	if o != nil && o.Version != "" {
		return o.Version
	}
	return "devel"
}
