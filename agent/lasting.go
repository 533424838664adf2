package agent

import "time"

// What sandboxes that last add to protocol 1.1. docs/protocol.md states it.

// Methods for processes that outlive the connection that started them.
const (
	MethodProcesses = "processes" // Empty → ProcessesResult
	MethodAttach    = "attach"    // AttachParams → ExecResult, with output notifications before it, as exec with Stream
	MethodEnd       = "end"       // EndParams → Empty: end a process, or forget one that has ended
)

// Methods that make a stream of bytes of the connection. Each is the connection's last request:
// after its response (one line, without raw payload) both directions are the stream's.
const (
	MethodDial   = "dial"   // DialParams → Empty: a connection to a port inside
	MethodAccept = "accept" // AcceptParams → AcceptResult, when somebody inside connects
	MethodPack   = "pack"   // PackParams → Empty: then a tar from the guest
	MethodUnpack = "unpack" // UnpackParams → Empty: then a tar to the guest, and one line of JSON, UnpackResult, back
)

// MethodListen opens a port inside for MethodAccept. It stays open while the agent lives; asked for again, it is there.
const MethodListen = "listen" // ListenParams → ListenResult

// Capabilities of these methods.
const (
	CapProcesses = "processes" // ExecOptions' Detach, KeepOutput and Label; processes, attach, end
	CapTunnels   = "tunnels"   // dial, listen, accept
	CapArchives  = "archives"  // pack, unpack
)

// Bounds of processes without a connection.
const (
	DefaultKeepOutput = 1 << 20  // bytes of its newest output that are kept for attach
	MaxKeepOutput     = 16 << 20 // the most
	MaxProcesses      = 256      // that run without a connection, in one guest
	MaxEnded          = 64       // that have ended and are remembered; the oldest is forgotten first
)

// ProcessInfo is a command that the guest runs or remembers: one without a connection, or one that a request in flight waits for.
type ProcessInfo struct {
	Process  string      `json:"process"` // its name, "p1": unique for the life of the agent
	PID      int         `json:"pid"`     // in the guest; 0: it was not started
	Label    string      `json:"label,omitempty"`
	Argv     []string    `json:"argv,omitempty"` // at most 4 KiB of it
	Cmd      string      `json:"cmd,omitempty"`  // a shell line, or code; at most 4 KiB of it
	Lang     string      `json:"lang,omitempty"` // of code
	Detached bool        `json:"detached"`       // it goes on without a connection
	Running  bool        `json:"running"`
	TTY      bool        `json:"tty,omitempty"`
	Input    bool        `json:"input,omitempty"` // its stdin is open
	Started  time.Time   `json:"started"`
	Ended    *time.Time  `json:"ended,omitempty"`
	First    int64       `json:"first"`            // offset of the oldest byte of output that is kept
	Output   int64       `json:"output"`           // bytes of output so far, both streams
	Result   *ExecResult `json:"result,omitempty"` // of one that has ended; without output
}

// ProcessesResult answers processes: the oldest first.
type ProcessesResult struct {
	Processes []ProcessInfo `json:"processes"`
	// EndedMS is how long ago the last of those that have ended did so, by a clock that nobody sets, as Ended's can be.
	// Nil: none has, or the guest does not say.
	EndedMS *int64 `json:"ended_ms,omitempty"`
}

// AttachParams are attach's. Its output begins at From, in order over both streams, or with the oldest that is kept where
// that is later; then it goes on live. Any number may be attached. When the request is canceled, or its connection goes, the process goes on. input, resize and signal take
// the request's id.
type AttachParams struct {
	Process string `json:"process"`
	From    int64  `json:"from,omitempty"` // offset; negative: so many bytes before the end
	Input   bool   `json:"input,omitempty"`
	TTY     *TTY   `json:"tty,omitempty"`     // a new size for its terminal
	NoWait  bool   `json:"no_wait,omitempty"` // what is kept, and then the answer, with exit code -1 where it still runs
}

// EndParams are end's: SIGTERM to the process's group, and to what it left behind, and after GraceMS (default 2000, negative: at once) SIGKILL. It is answered when the process
// is gone. Forget takes it off the list; one that had ended already is only forgotten.
type EndParams struct {
	Process string `json:"process"`
	GraceMS int64  `json:"grace_ms,omitempty"`
	Forget  bool   `json:"forget,omitempty"`
}

// DialParams name a port inside: "tcp" and "127.0.0.1:8080", or "unix" and a path.
type DialParams struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

// ListenParams name an address on the guest's loopback, "127.0.0.1:3128", port 0 for any.
type ListenParams struct {
	Address string `json:"address"`
}

// ListenResult is the address that is listened on, which is the listener's name.
type ListenResult struct {
	Address string `json:"address"`
}

// AcceptParams name a listener by its address.
type AcceptParams struct {
	Address string `json:"address"`
}

// AcceptResult says who connected.
type AcceptResult struct {
	Peer string `json:"peer"`
}

// PackParams name what is packed: a file, a link or a folder with all in it. Entries are named by the base of Path and below it; "." is the folder
// itself. The tar is PAX, with modes, times, numeric owners, links, hard links, FIFOs; sockets and devices are left out and named in the last
// global header's "AIRLOCK.skipped". A tar that ends without its two zero blocks is cut off; why is in a global header's "AIRLOCK.error" where the guest could still say.
type PackParams struct {
	Path   string `json:"path"`
	Follow bool   `json:"follow,omitempty"` // a link at the end of Path is followed
}

// UnpackParams say where a tar goes. Names are taken below Path and nowhere else, whatever the tar, or what lies there, says: no "..", no
// absolute name, no way through a link that leads out.
type UnpackParams struct {
	Path  string `json:"path"`            // an existing folder
	Owner bool   `json:"owner,omitempty"` // give entries the tar's numeric owners, where the agent may; default: the user that new files get
	Clear bool   `json:"clear,omitempty"` // an entry replaces whatever else has its name, but a folder that is not empty
}

// UnpackResult ends unpack.
type UnpackResult struct {
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty"` // why the rest is not there
}
