package tool

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"airlock/agent"
)

// A Tool is a named operation, with one or more actions. It is safe for concurrent use.
type Tool interface {
	Info() *Info

	// Invoke makes a call whose arguments the registry has found valid. It returns soon
	// after ctx is done and leaves nothing running. What goes wrong is a Result that is
	// not OK; meta's duration_ms is the registry's to add.
	Invoke(ctx context.Context, m *Machine, call Call) Result
}

// Info is what is known of a tool without calling it. It does not change.
type Info struct {
	Name        string   `json:"name"` // "fs.read_file"
	Description string   `json:"description"`
	Kind        Kind     `json:"kind"`
	Source      string   `json:"source,omitempty"` // where one that is not built in comes from
	Actions     []Action `json:"actions"`          // one at least

	// WorkDir is where the tool's calls are made: absolute. "" is wherever who calls is.
	WorkDir string `json:"working_directory,omitempty"`

	// HostNetwork wants a sandbox for the tool's calls that reaches what the host reaches.
	HostNetwork bool `json:"host_network,omitempty"`
}

// A Kind is a kind of tool.
type Kind string

// The kinds of tool.
const (
	Builtin Kind = "builtin"
	Plugin  Kind = "plugin"
	Bridge  Kind = "bridge"
)

// An Action is one thing a tool can do, and all that the gate must know of it.
type Action struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema (draft-07) of the arguments, an object

	// Risk is what the action does at worst. RiskWritesInside means: where its paths are.
	Risk Risk `json:"risk"`

	// Command names the argument that is a shell line, which the gate then reads. Paths and
	// Hosts name arguments that are, or are lists of, paths and hosts.
	Command string   `json:"command,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`

	// Needs are what of the host's the action cannot do without.
	Needs []Need `json:"needs,omitempty"`

	// Place is where the action is made unless somebody says otherwise.
	Place Place `json:"place"`
}

// A Place is where an action can be made.
type Place string

// The places. The zero value is AnyPlace.
const (
	AnyPlace Place = ""     // a sandbox by default, the host when told so
	HostOnly Place = "host" // it is about the host, and means nothing in a sandbox
)

// A Machine is where a call is made: the host or a sandbox, always through a guest agent,
// so that a tool need not know which.
type Machine struct {
	Client  *agent.Client
	Where   Where
	User    string            // for agent.ExecOptions.User; "" is the agent's own
	WorkDir string            // absolute; relative paths are relative to it
	Env     map[string]string // the whole environment of what is run
	Stdin   io.Reader         // of a command; nil: empty
	TTY     *agent.TTY        // run commands on a terminal of this size; nil: none
	Signals <-chan string     // handed on to the command that runs ("SIGINT"); may be nil
	Resizes <-chan agent.TTY  // new sizes of TTY, handed on as well; may be nil

	// Stdout and Stderr take what a command writes, as it comes, beside the Result. They
	// may be nil.
	Stdout, Stderr io.Writer

	// Hidden reports whether a path, resolved, is one that must be shown as absent. A sandbox
	// hides by itself, and has none. Nil: nothing is.
	Hidden func(path string) bool

	// Back reaches back to who called; nil: there is nobody.
	Back Back

	// MaxTime bounds each call, whatever it asks for; 0: no bound.
	MaxTime time.Duration

	// MaxProcs is how many processes each command that a call runs may have at once, with
	// its children; 0: no bound.
	MaxProcs int64
}
