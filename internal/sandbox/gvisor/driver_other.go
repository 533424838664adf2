//go:build !linux

package gvisor

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"

	"airlock/internal/sandbox"
)

// Options are the settings of a Driver; see the Linux build.
type Options struct {
	StateDir  string
	Engine    func(ctx context.Context) (string, error)
	Agent     string
	Env       []string
	EngineLog string

	UpperMemory int64

	Logger *slog.Logger
}

// Driver refuses: gVisor runs on Linux.
type Driver struct{}

// New makes a Driver that refuses.
func New(*Options) *Driver { return &Driver{} }

// Dispatch does nothing here.
func Dispatch(string) {}

// StaticEngine finds none here.
func StaticEngine(string, io.Writer) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", unavailable() }
}

func unavailable() error {
	return &sandbox.Unavailable{
		Reason: "the engine, gVisor, runs on Linux, and this is " + runtime.GOOS,
		Mend:   "run airlock on a Linux machine or in a Linux virtual machine",
	}
}

// Name is "gvisor".
func (*Driver) Name() string { return "gvisor" }

// Start refuses.
func (*Driver) Start(context.Context, *sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, unavailable()
}

// Sweep finds nothing.
func (*Driver) Sweep(context.Context) ([]string, error) { return nil, nil }

// Check says that there is nothing here.
func (*Driver) Check(context.Context) []sandbox.Finding {
	return []sandbox.Finding{{Name: "engine", Text: unavailable().Error()}}
}

// Keep refuses.
func (*Driver) Keep(context.Context, *sandbox.LastingSpec) (sandbox.Lasting, error) {
	return nil, unavailable()
}

// Restore refuses.
func (*Driver) Restore(context.Context, *sandbox.LastingSpec, string) (sandbox.Lasting, error) {
	return nil, unavailable()
}

// Open finds none.
func (*Driver) Open(context.Context, string) (sandbox.Lasting, error) {
	return nil, sandbox.ErrNoSandbox
}

// Attach refuses.
func (*Driver) Attach(context.Context, net.Conn) (sandbox.Lasting, error) {
	return nil, unavailable()
}

// Running finds none.
func (*Driver) Running(context.Context) ([]string, error) { return nil, nil }

// Ended knows of none.
func (*Driver) Ended(string) (Ending, bool) { return Ending{}, false }

// Forget does nothing.
func (*Driver) Forget(string) {}

// Ahead starts nothing.
func (*Driver) Ahead(context.Context) {}

// Close has nothing to end.
func (*Driver) Close() {}

// Fork refuses.
func (*Driver) Fork(context.Context, sandbox.Lasting, []*sandbox.LastingSpec) ([]sandbox.Lasting, error) {
	return nil, unavailable()
}
