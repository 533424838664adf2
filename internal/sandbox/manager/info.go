package manager

import (
	"time"

	"airlock/internal/sandbox"
)

// States of a sandbox.
const (
	Creating  = "creating"
	Ready     = sandbox.Ready
	Paused    = sandbox.Paused
	Destroyed = "destroyed"
)

// Why a sandbox has ended.
const (
	Removed     = "removed"
	Expired     = "expired"
	Idle        = "idle"
	OutOfMemory = "out_of_memory"
	Killed      = "killed" // from outside
	Failed      = "failed" // it was never whole
)

// LabelPool marks the sandboxes of a pool, which a person did not make. Its value says whose.
const LabelPool = "airlock.pool"

// A Request says what sandbox to make. The zero value of a field is its default.
type Request struct {
	Labels map[string]string `json:"labels,omitempty"`

	// WorkDir is where commands start. Over the host: an absolute folder, required, but from a
	// template or snapshot. With an image: absolute inside; default: the image's, or "/".
	WorkDir string `json:"workdir,omitempty"`

	Image    string `json:"image,omitempty"` // a reference; "": the host's files
	Pull     string `json:"pull,omitempty"`  // "missing" ("" too), "always", "never"
	Template string `json:"template,omitempty"`

	Env      map[string]string `json:"env,omitempty"` // beside the image's
	Hide     []string          `json:"hide,omitempty"`
	Show     []string          `json:"show,omitempty"`
	ReadOnly []string          `json:"readonly,omitempty"`
	Hostname string            `json:"hostname,omitempty"`

	Limits Limits `json:"limits,omitzero"`
	Times  Times  `json:"times,omitzero"`
	Net    Net    `json:"net,omitzero"`

	// Progress takes what is done meanwhile that takes its time; nil discards. It is passed on to
	// Options.Images, whose type it has.
	Progress any `json:"-"`
}

// Limits bound a sandbox. Zero is no limit.
type Limits struct {
	Memory  int64         `json:"memory,omitempty"` // bytes
	CPUs    float64       `json:"cpus,omitempty"`
	Procs   int64         `json:"procs,omitempty"`
	Disk    int64         `json:"disk,omitempty"`       // bytes
	Files   int64         `json:"files,omitempty"`      // of each process
	Output  int64         `json:"output,omitempty"`     // bytes, of each command
	Timeout time.Duration `json:"timeout_ns,omitempty"` // of each command
}

// engine is the part of them that a driver holds.
func (l *Limits) engine() sandbox.Limits {
	return sandbox.Limits{Memory: l.Memory, CPUs: l.CPUs, Procs: l.Procs, Disk: l.Disk, Files: l.Files}
}

// Times end or pause a sandbox by themselves; see sandbox.Times.
type Times struct {
	TTL      time.Duration `json:"ttl_ns,omitempty"`
	TTLThen  string        `json:"ttl_then,omitempty"`
	Idle     time.Duration `json:"idle_ns,omitempty"`
	IdleThen string        `json:"idle_then,omitempty"`
}

func (t *Times) engine() sandbox.Times {
	return sandbox.Times{Life: t.TTL, LifeThen: t.TTLThen, Idle: t.Idle, IdleThen: t.IdleThen}
}

// Modes of Net.
const (
	NetNone  = "none"
	NetAllow = "allow"
	NetHost  = "host"
)

// Net says what a sandbox reaches, and by what it is reached. What the words mean is the
// business of Options.Gate. It holds no value of a secret.
type Net struct {
	Mode    string   `json:"mode,omitempty"`    // NetNone ("" too), NetAllow or NetHost
	Allow   []string `json:"allow,omitempty"`   // HOST[:PORT]
	Publish []string `json:"publish,omitempty"` // PORT[:HOSTPORT]
	Secrets []string `json:"secrets,omitempty"` // NAME=SOURCE[@HOST,…]
}

// gated reports whether a gate is needed beside the sandbox.
func (n *Net) gated() bool {
	return n.Mode == NetAllow || len(n.Publish) > 0 || len(n.Secrets) > 0
}

// A Port is a published one: Host, on the host's loopback, leads to Guest.
type Port struct {
	Guest int `json:"guest"`
	Host  int `json:"host"`
}

// Info is everything known of a sandbox.
type Info struct {
	ID     string            `json:"id"`
	State  string            `json:"state"`
	Reason string            `json:"reason,omitempty"` // of a destroyed one
	Error  string            `json:"error,omitempty"`  // of a failed one, or what could not be kept of it
	Busy   string            `json:"busy,omitempty"`   // the step that another command is doing with it
	Labels map[string]string `json:"labels,omitempty"`

	WorkDir  string   `json:"workdir"`
	Image    string   `json:"image,omitempty"`        // as it was asked for
	Digest   string   `json:"image_digest,omitempty"` // what it was
	Template string   `json:"template,omitempty"`
	From     string   `json:"from,omitempty"` // "fork:ID" or "snapshot:NAME"
	Hide     []string `json:"hide,omitempty"` // as asked for
	Show     []string `json:"show,omitempty"`
	ReadOnly []string `json:"readonly,omitempty"`
	Hostname string   `json:"hostname,omitempty"`

	// Hidden is the whole list of what it does not see of the host.
	Hidden []string `json:"hidden,omitempty"`

	// Env is what its commands are given beside what the person has: the image's, the gate's and
	// what was asked for. User is who they are; "" is Lasting.Identity's.
	Env  map[string]string `json:"env,omitempty"`
	User string            `json:"user,omitempty"`

	Created time.Time  `json:"created"`
	Started time.Time  `json:"started,omitzero"` // Lasting.Started
	Ended   *time.Time `json:"ended,omitempty"`

	Limits Limits   `json:"limits"`
	Times  Times    `json:"times"`
	Net    Net      `json:"net"`
	Ports  []Port   `json:"ports,omitempty"`
	Notes  []string `json:"notes,omitempty"`

	// Status is how it is now; nil where that was not asked for, or cannot be had.
	Status *sandbox.Status `json:"status,omitempty"`

	root string // what it is laid over; "": the host's
}

// OverHost reports whether it is laid over the host's files, and so has a change set.
func (i *Info) OverHost() bool { return i.Image == "" }

// Alive reports whether it has not ended.
func (i *Info) Alive() bool { return i.State != Destroyed }

// A Box is an open sandbox: what runs, and what is known of it. Release lets go of it.
type Box struct {
	sandbox.Lasting
	Info Info
}

// User is who commands in it run as unless told otherwise.
func (b *Box) User() string {
	if b.Info.User != "" {
		return b.Info.User
	}
	return b.Identity()
}

// A Snapshot is what was saved of a sandbox.
type Snapshot struct {
	Name    string    `json:"name"`
	Named   bool      `json:"named"` // by a person; the others make room when there are too many
	Created time.Time `json:"created"`
	Size    int64     `json:"size"`    // bytes on the disk
	Sandbox Info      `json:"sandbox"` // as it was
}

// A Template is what sandboxes start from.
type Template struct {
	Name    string    `json:"name"`
	Request Request   `json:"request"`
	Run     []string  `json:"run,omitempty"`
	Created time.Time `json:"created"`           // when it was built
	Saved   bool      `json:"saved"`             // its state; else Run is run in each sandbox anew
	Note    string    `json:"note,omitempty"`    // why it is not saved
	Size    int64     `json:"size"`              // bytes on the disk
	Sandbox *Info     `json:"sandbox,omitempty"` // what was saved
}

// A Stat is how one sandbox is.
type Stat struct {
	ID     string          `json:"id"`
	State  string          `json:"state"`
	Status *sandbox.Status `json:"status,omitempty"` // nil: it has ended, or does not answer
	Error  string          `json:"error,omitempty"`
}
