//go:build !linux

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
)

var errNotLinux = errors.New("the guest agent runs on Linux")

// An Agent serves the guest protocol. It exists on Linux only.
type Agent struct{}

// New fails: the agent runs on Linux.
func New(*Options) (*Agent, error) { return nil, errNotLinux }

// Serve fails: the agent runs on Linux.
func (*Agent) Serve(context.Context, io.ReadWriteCloser) error { return errNotLinux }

// Close does nothing.
func (*Agent) Close() error { return nil }

// Main says that the agent runs on Linux and returns 1.
func Main(_ context.Context, _ string, _ []string, _ io.Reader, _, stderr io.Writer) int {
	fmt.Fprintf(stderr, "%s: %v\n", Name, errNotLinux)
	return 1
}
