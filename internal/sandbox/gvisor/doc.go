// Package gvisor makes sandboxes with gVisor, which is linked in: the program runs
// again under other names as the engine's processes (Engine), so that nothing has to
// be installed.
//
// A sandbox is four processes: the keeper, which starts the others and removes what
// they need when it is told to or when its driver is gone; the engine's monitor and its
// file server; and, inside the monitor, the guest agent as PID 1. The agent speaks over
// the keeper's stdin and stdout, which the monitor hands on to it.
//
// A sandbox has no network unless its Spec asks for the host's: then commands open TCP and
// UDP sockets of the host, and reach and offer what the person's own programs could,
// services on the host's loopback included. network_linux.go says what stays shut.
//
// The package must not know what a sandbox is used for, nor read what it changed.
package gvisor
