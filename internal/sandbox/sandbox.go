// Package sandbox says what a sandbox is: a running, isolated machine laid over files
// of the host, with a connected guest agent in it. It holds no implementation: drivers
// make sandboxes, and pass sandboxtest's suite.
package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"io"
	"strings"
	"time"

	"airlock/agent"
)

// Limits bound what a sandbox may use. Zero is no limit.
type Limits struct {
	Memory int64   // bytes, all that runs in the sandbox together with what runs it
	CPUs   float64 // processors' worth of time; 0.5 is half of one
	Procs  int64   // processes and threads at once, of one command and its children

	// Of sandboxes that last alone.
	Disk  int64 // bytes that what is written may take: the upper layer
	Files int64 // open files at once, of one process
}

// A Spec says what sandbox to make. The zero value of a field is its default.
type Spec struct {
	ID      string // of NewID's form; empty: a fresh one
	WorkDir string // absolute folder that exists inside: where commands start. Required

	// Root is the folder that the sandbox is laid over: an image's root file system, which
	// nobody changes while the sandbox lives. It has the folders dev, proc, sys and tmp, and its commands
	// run as root inside. Default: the host's root, as the person who started it.
	Root string

	Hide     []string // absolute paths that the sandbox sees as absent; they need not exist
	ReadOnly []string // absolute, existing paths that cannot be changed
	Limits   Limits
	Hostname string // default: the host's own

	// HostNetwork lets it reach what the host reaches: other machines, and also what listens
	// on the host's loopback. Default: no network at all.
	HostNetwork bool
}

// A Sandbox is one machine. It is safe for concurrent use.
type Sandbox interface {
	ID() string

	// Client speaks to the guest agent. It ends with the sandbox.
	Client() *agent.Client

	// Identity is who commands run as when they should be the person who started
	// the sandbox: the value of agent.ExecOptions.User.
	Identity() string

	// Started is when the sandbox began to look at the host's files, on the clock
	// that file systems stamp changes with; where that was set back since, as SteadyStart says.
	Started() time.Time

	// Upper freezes what runs in the sandbox and writes what it changed as a tar of the
	// overlay's upper layer. The sandbox stays frozen; only Close may follow.
	Upper(ctx context.Context, w io.Writer) error

	// Done is closed when the sandbox has ended, by Close or by itself; Err then says
	// why: nil after Close, an error that is ErrOutOfMemory or ErrEnded otherwise.
	Done() <-chan struct{}
	Err() error

	// Notes are sentences for the person on what could not be held here, such as a
	// limit without a cgroup. They are the same for the sandbox's whole life.
	Notes() []string

	// Close ends everything in the sandbox and removes all traces of it. It may be
	// called twice, also at once, and does not return before the last process has ended.
	Close() error
}

// A Driver makes sandboxes of one kind. It is safe for concurrent use.
type Driver interface {
	// Name is the kind, as in "gvisor".
	Name() string

	// Start makes a sandbox and returns when its guest agent answers. When ctx ends
	// before that, nothing is left behind; afterwards ctx has no effect. Errors that
	// a person can mend are *Unavailable.
	Start(ctx context.Context, spec *Spec) (Sandbox, error)

	// Sweep removes what sandboxes left behind whose owner no longer runs, and says
	// what it removed.
	Sweep(ctx context.Context) ([]string, error)

	// Check says what this machine offers the driver.
	Check(ctx context.Context) []Finding
}

// A Finding is one line of what a driver found out about the machine.
type Finding struct {
	Name string // "user namespaces"
	OK   bool
	Warn bool   // OK, but with less than there could be
	Text string // what was found
	Mend string // what to do, where there is something to do
}

// NewID makes an ID: sixteen characters of a–z and 2–7, eighty random bits. All IDs
// have one length, because the engine finds sandboxes by prefix.
func NewID() string {
	var b [10]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// ValidID reports whether id has NewID's form.
func ValidID(id string) bool {
	if len(id) != 16 {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
