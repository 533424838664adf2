package gvisor

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A sandbox has no network: the monitor is in an empty network namespace of its own, and
// what is inside speaks to the engine's own loopback. With the host's network the monitor
// stays in the host's namespace and makes the sandbox's sockets there. That gives up what
// lies between: what is inside reaches everything that the person's own programs reach,
// services on the host's loopback too, and can listen on the host's addresses itself. What
// it does not get: other sockets than of TCP, UDP and ping (the monitor's system call filter
// has no others), Unix sockets with a name in the namespace (the engine has those inside
// itself), the host's network settings, and its privileged ports.

// network says in the spec which network there is.
func (b *box) network(spec *specs.Spec) {
	if !b.spec.HostNetwork {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
		return
	}
	// Inside a namespace of its own a port below 1024 is nobody's; here it is the host's.
	caps := slices.DeleteFunc(slices.Clone(capabilities), func(c string) bool { return c == "CAP_NET_BIND_SERVICE" })
	spec.Process.Capabilities = &specs.LinuxCapabilities{
		Bounding: caps, Effective: caps, Permitted: caps, Inheritable: caps, Ambient: caps,
	}
}

// engineNetwork is the engine's name for it.
func engineNetwork(host bool) string {
	if host {
		return "host"
	}
	return "none"
}

// giveUpNetwork takes from the keeper, and with that from the monitor that it starts, what
// root may do to the host's network: the engine would keep it for the sandbox's sake. An
// ordinary user's monitor is in a user namespace that the host's network is not part of.
func giveUpNetwork() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, c := range []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW} {
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 {
			return fmt.Errorf("give up the capability %d over the host's network: %w", c, errno)
		}
	}
	return nil
}
