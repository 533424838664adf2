package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"airlock/agent"
)

// A Lasting is a sandbox that goes on when the program that made it ends, and that any
// program of the same person may open. It is safe for concurrent use, also by several programs.
type Lasting interface {
	ID() string

	// Identity is who commands run as unless told otherwise: the value of agent.ExecOptions.User.
	Identity() string

	// Started is when the sandbox began to look at the files below it, on the clock that
	// file systems stamp changes with. A fork's is its parent's.
	Started() time.Time

	// Notes are sentences for the person on what could not be held here.
	Notes() []string

	// Connect opens a connection of its own to the guest agent. One of a paused sandbox is
	// ErrPaused; those that are open wait then. They are cut when the sandbox ends.
	Connect(ctx context.Context) (net.Conn, error)

	// Client is a client on a connection of its own, hello said. The caller closes it.
	Client(ctx context.Context) (*agent.Client, error)

	// Status asks how it is.
	Status(ctx context.Context) (*Status, error)

	// Pause freezes all that runs inside; Resume lets it go on. Both may be said twice.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// Touch counts as a call, and gives it new Times where they are not nil.
	Touch(ctx context.Context, times *Times) error

	// Upper writes what the sandbox changed as a tar of the overlay's upper layer. What runs
	// inside is frozen meanwhile, and goes on afterwards, whatever came of it; but a file in it that
	// is too large to be read ends the sandbox, and Err says so.
	Upper(ctx context.Context, w io.Writer) error

	// Checkpoint saves memory and files into dir, an empty folder, from which Driver's Restore makes
	// sandboxes. What runs inside is frozen meanwhile and goes on afterwards, also when
	// the checkpoint failed; then dir is to be removed. ErrNotSaved is why it cannot be.
	Checkpoint(ctx context.Context, dir string) error

	// GateInput is the spec's, as the keeper has it.
	GateInput(ctx context.Context) ([]byte, error)

	// End ends everything inside and removes all traces of it. It may be said twice, and by two.
	End(ctx context.Context) error

	// Done is closed when the sandbox has ended. Err then says why, as Sandbox's does.
	Done() <-chan struct{}
	Err() error

	// Release lets go of the sandbox without ending it.
	Release() error
}

// A Holder is a Lasting that can be paused for as long as a program looks at it: release lets it go on, unless
// it was paused before, and so does the program's end, however it ends.
type Holder interface {
	Hold(ctx context.Context) (release func() error, err error)
}

// States of a Lasting.
const (
	Ready  = "ready"
	Paused = "paused"
)

// Status is how a Lasting is. Figures that cannot be had are -1.
type Status struct {
	State     string        `json:"state"`     // Ready or Paused
	Calls     int           `json:"calls"`     // connections to its guest agent
	Commands  int           `json:"commands"`  // that run, of any connection or of none
	Idle      time.Duration `json:"idle_ns"`   // for how long there has been neither; 0: there is one
	Memory    int64         `json:"memory"`    // bytes: of what runs inside and of what runs it
	CPU       time.Duration `json:"cpu_ns"`    // processor time so far
	Processes int64         `json:"processes"` // inside, the guest agent's own not counted
	Disk      int64         `json:"disk"`      // bytes that what it wrote takes
	PIDs      []int         `json:"pids"`      // on the host: keeper, file server, monitor

	// Gate is the JSON value that the network's gate said when it was ready; nil without one.
	Gate json.RawMessage `json:"gate,omitempty"`
}

// What happens when a time is over.
const (
	ThenEnd   = "end"
	ThenPause = "pause"
)

// Times end or pause a sandbox by themselves, by a clock that no change of the system's time moves.
type Times struct {
	Life     time.Duration // from its start; 0: none
	LifeThen string        // ThenEnd ("" too) or ThenPause
	Idle     time.Duration // without a call and without a running command; 0: none
	IdleThen string        // ThenEnd ("" too) or ThenPause
}

// A LastingSpec says what Lasting to make.
type LastingSpec struct {
	Spec

	Times Times

	// Expired is an absolute path where the upper layer's tar is written before the sandbox
	// ends because a time is over; "": what it wrote is thrown away then. The tar appears there whole
	// or not at all.
	Expired string

	// Gate is the command line of a program that is started beside the sandbox, kept running while it
	// lives and ended with it: the network's gate. Its standard input is a connection to the
	// sandbox's keeper (see Keeping.Attach) that ends with the sandbox. When it is ready it writes one line of
	// JSON to its standard output (Status' Gate); one that ends before that fails Keep with the last line of its standard error. Nil: none.
	Gate []string
	// GateInput is what the gate can read on its descriptor 3, each time it is started. It may hold
	// secrets: it is kept in the keeper's memory and written nowhere.
	GateInput []byte
}

// A Keeping is a driver of sandboxes that last. It is safe for concurrent use.
type Keeping interface {
	Name() string

	// Keep makes a sandbox and returns when its guest agent answers. When ctx ends before
	// that, nothing is left behind; afterwards ctx has no effect.
	Keep(ctx context.Context, spec *LastingSpec) (Lasting, error)

	// Restore makes a sandbox that goes on from what Checkpoint saved in dir, under spec's ID, with
	// the Root, Hide, ReadOnly and limits of files and disk of the one that was saved.
	Restore(ctx context.Context, spec *LastingSpec, dir string) (Lasting, error)

	// Open finds a sandbox that runs. ErrNoSandbox: none does.
	Open(ctx context.Context, id string) (Lasting, error)

	// Attach is Open for a program that was given a connection as its standard input.
	Attach(ctx context.Context, conn net.Conn) (Lasting, error)

	// Running lists the IDs of the sandboxes that run or are being made.
	Running(ctx context.Context) ([]string, error)

	// Sweep removes what sandboxes left behind whose keeper no longer runs, and says what.
	Sweep(ctx context.Context) ([]string, error)
}

var (
	// ErrNoSandbox: no such sandbox runs.
	ErrNoSandbox = errors.New("no such sandbox runs")
	// ErrNotSaved: the state of what runs in a sandbox cannot be saved.
	ErrNotSaved = errors.New("the sandbox's state cannot be saved")
	// ErrExpired: one of its Times was over.
	ErrExpired = errors.New("the sandbox's time was over")
	// ErrRemoved: somebody ended it.
	ErrRemoved = errors.New("the sandbox was removed")
	// ErrPaused: it does nothing until it is resumed.
	ErrPaused = errors.New("the sandbox is paused")
)
