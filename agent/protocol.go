// Package agent is the guest protocol as a program meets it: the methods, their
// parameters and results, and Client, which speaks to a guest agent over any
// byte stream. docs/protocol.md states the protocol; this package is its Go form.
//
// The package knows nothing of sandboxes, drivers or change sets.
package agent

import "time"

// GuestPort is the vsock port a guest agent listens on.
const GuestPort = 52

// ProtocolVersion is what hello announces. Version 1.0 is the original protocol,
// which has no hello; a peer that does not know hello speaks 1.0.
const ProtocolVersion = "1.1"

// Methods of protocol 1.0.
const (
	MethodPing      = "ping"
	MethodExec      = "exec"
	MethodExecCode  = "exec_code"
	MethodReadFile  = "read_file"
	MethodWriteFile = "write_file"
	MethodListDir   = "list_dir"
)

// Methods that 1.1 adds. All are requests, so that each has an answer and with
// it flow control; the guest's only notification is NotifyOutput.
const (
	MethodHello  = "hello"  // HelloParams → HelloResult
	MethodCancel = "cancel" // CancelParams → CancelResult: end the work of a request in flight
	MethodInput  = "input"  // InputParams → Empty: feed an exec whose params had Input
	MethodResize = "resize" // ResizeParams → Empty: a terminal's new size
	MethodSignal = "signal" // SignalParams → Empty: signal an exec's process group
	MethodStat   = "stat"   // StatParams → FileInfo
	MethodMkdir  = "mkdir"  // MkdirParams → Success
	MethodRename = "rename" // RenameParams → Success
	MethodRemove = "remove" // RemoveParams → Success

	NotifyOutput = "output" // OutputParams: output of an exec with Stream, before its response
)

// EnvExec is set in the environment of a command with EndRest or Detach, to a word of its own: by it the
// guest knows what the command started and what left its session.
const EnvExec = "AIRLOCK_EXEC"

// Capabilities that HelloResult lists. A client asks for a feature only where the
// guest announced it.
const (
	CapExec   = "exec"   // argv, cwd, env, stdin, user, timeout_ms
	CapStream = "stream" // output notifications
	CapInput  = "input"  // input, signal
	CapTTY    = "tty"    // tty, resize
	CapCancel = "cancel"
	CapFiles  = "files" // read_file/write_file with encoding, ranges, mode; stat, mkdir, rename, remove
	CapRaw    = "raw"   // raw frames
	CapRest   = "rest"  // end_rest
)

// Limits of the protocol.
const (
	MaxOutput       = 1 << 20                    // bytes of stdout, and of stderr, in an ExecResult
	TruncatedMarker = "\n... [output truncated]" // appended to a stream that was cut
	DefaultMaxFrame = 64 << 20                   // bytes of one line, and of one raw payload
	MaxChunk        = 4 << 20                    // bytes of file content in one ranged read or write
)

// Empty is the params or result of a method that has none: {}.
type Empty struct{}

// PingResult answers ping.
type PingResult struct {
	Pong bool `json:"pong"`
}

// Success answers the methods that only succeed or fail.
type Success struct {
	Success bool `json:"success"`
}

// HelloParams opens the extensions on a connection. It is optional: without it the
// connection speaks 1.0 and no frame has a raw payload.
type HelloParams struct {
	Protocol string `json:"protocol"`         // the newest version the client speaks
	Client   string `json:"client,omitempty"` // name and version, for the log
	Raw      bool   `json:"raw,omitempty"`    // the client takes and sends raw frames from here on
}

// HelloResult is what the guest is and can do.
type HelloResult struct {
	Protocol     string   `json:"protocol"` // the version both speak: the older of the two newest
	Agent        string   `json:"agent"`    // "airlock-agent"
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities"`
	MaxFrame     int64    `json:"max_frame"` // bytes; a longer line ends the connection
	PID          int      `json:"pid"`
	OS           string   `json:"os"`
	Arch         string   `json:"arch"`
}

// TTY asks for a pseudo-terminal of this size.
type TTY struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ExecOptions are the extensions that exec and exec_code share. The zero value is
// what protocol 1.0 does.
type ExecOptions struct {
	Cwd       string            `json:"cwd,omitempty"`        // absolute; default: the agent's own
	Env       map[string]string `json:"env,omitempty"`        // added to, or replacing, the agent's environment
	ClearEnv  bool              `json:"clear_env,omitempty"`  // start from an empty environment
	Stdin     string            `json:"stdin,omitempty"`      // given whole; default: empty (/dev/null)
	User      string            `json:"user,omitempty"`       // name, uid, or uid:gid; default: the one the agent was set up with, usually its own
	Groups    []uint32          `json:"groups,omitempty"`     // supplementary groups; default: those of User
	TimeoutMS int64             `json:"timeout_ms,omitempty"` // the whole process group is ended; 0: none
	Stream    bool              `json:"stream,omitempty"`     // output comes as notifications, not in the result
	Input     bool              `json:"input,omitempty"`      // stdin stays open for input requests
	TTY       *TTY              `json:"tty,omitempty"`        // run on a pseudo-terminal; implies Stream; stdout and stderr are one
	MaxProcs  int64             `json:"max_procs,omitempty"`  // processes that this command and its children may have at once; 0: no limit
	EndRest   bool              `json:"end_rest,omitempty"`   // when it has ended, end what it left running, before the result

	Detach     bool   `json:"detach,omitempty"`      // answered when it has started; it goes on without the connection, in the list of processes
	KeepOutput int64  `json:"keep_output,omitempty"` // of a detached one: bytes of its newest output that are kept; default DefaultKeepOutput
	Label      string `json:"label,omitempty"`       // a word for the list of processes, at most 64 bytes
}

// ExecParams are exec's: a shell line in Cmd (sh -c), or a program in Argv.
type ExecParams struct {
	Cmd  string   `json:"cmd,omitempty"`
	Argv []string `json:"argv,omitempty"`
	ExecOptions
}

// ExecCodeParams are exec_code's.
type ExecCodeParams struct {
	Lang string `json:"lang"` // python, python3, node, javascript, js, bash, sh, rust; in any case
	Code string `json:"code"`
	ExecOptions
}

// ExecResult answers exec and exec_code. The first three are protocol 1.0's.
type ExecResult struct {
	ExitCode int    `json:"exit_code"` // -1: not started, or ended by a signal (protocol 1.0)
	Stdout   string `json:"stdout"`    // at most MaxOutput bytes and the marker
	Stderr   string `json:"stderr"`

	Signal     string `json:"signal,omitempty"`      // "SIGKILL": the signal that ended it
	TimedOut   bool   `json:"timed_out,omitempty"`   // TimeoutMS passed
	Canceled   bool   `json:"canceled,omitempty"`    // a cancel request ended it
	NotStarted string `json:"not_started,omitempty"` // "not_found", "not_executable", "failed": why ExitCode is -1
	DurationMS int64  `json:"duration_ms,omitempty"`

	Process string `json:"process,omitempty"` // of a detached one: its name, and ExitCode is 0
}

// Success reports whether the command ran and exited with 0.
func (r *ExecResult) Success() bool { return r.ExitCode == 0 }

// CancelParams name a request in flight on the same connection.
type CancelParams struct {
	ID uint64 `json:"id"`
}

// CancelResult says whether there was such a request. Its own response still comes.
type CancelResult struct {
	Canceled bool `json:"canceled"`
}

// InputParams carry bytes for an exec's stdin: Data as base64, or the frame's raw payload.
// The answer comes when the process can take more.
type InputParams struct {
	ID   uint64 `json:"id"` // the exec request's id
	Data []byte `json:"data,omitempty"`
	EOF  bool   `json:"eof,omitempty"` // close stdin after Data
}

// ResizeParams give an exec's terminal a new size.
type ResizeParams struct {
	ID uint64 `json:"id"`
	TTY
}

// SignalParams signal an exec's process group.
type SignalParams struct {
	ID     uint64 `json:"id"`
	Signal string `json:"signal"` // "SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGTSTP", "SIGSTOP"
}

// OutputParams carry what an exec printed: Data as base64, or the frame's raw payload.
type OutputParams struct {
	ID     uint64 `json:"id"`
	Stream string `json:"stream"`           // "stdout" or "stderr"; a terminal's is "stdout"
	Offset int64  `json:"offset,omitempty"` // to attach: of its first byte, in order over both streams; what is skipped is no longer kept
	Data   []byte `json:"data,omitempty"`
}

// Encodings of file content.
const (
	EncodingUTF8   = ""       // content is text; bytes that are not UTF-8 are an error (protocol 1.0)
	EncodingBase64 = "base64" // content is base64
	EncodingRaw    = "raw"    // content is the frame's raw payload; needs hello with raw
)

// ReadFileParams are read_file's. Path alone is protocol 1.0.
type ReadFileParams struct {
	Path     string `json:"path"`
	Encoding string `json:"encoding,omitempty"`
	Offset   int64  `json:"offset,omitempty"`
	Limit    int64  `json:"limit,omitempty"` // at most MaxChunk; 0 without Offset: the whole file
}

// ReadFileResult answers read_file.
type ReadFileResult struct {
	Content string `json:"content"`
	EOF     bool   `json:"eof,omitempty"`  // nothing follows; set for ranged reads
	Size    int64  `json:"size,omitempty"` // of the whole file, as stat gives it; set for ranged reads
}

// WriteFileParams are write_file's. Path and Content are protocol 1.0: the file is
// created with mode 0644 or replaced in place.
type WriteFileParams struct {
	Path     string  `json:"path"`
	Content  string  `json:"content"`
	Encoding string  `json:"encoding,omitempty"`
	Mode     *uint32 `json:"mode,omitempty"`   // permission bits, set whether or not the file existed
	Offset   *int64  `json:"offset,omitempty"` // write there and keep the rest; nil: truncate first
}

// ListDirParams are list_dir's.
type ListDirParams struct {
	Path string `json:"path"`
}

// FileEntry is one name in a folder.
type FileEntry struct {
	Name  string `json:"name"`
	IsDir bool   `json:"is_dir"`
	Size  uint64 `json:"size"` // 0 for folders
}

// ListDirResult answers list_dir, sorted by name.
type ListDirResult struct {
	Entries []FileEntry `json:"entries"`
}

// StatParams are stat's.
type StatParams struct {
	Path   string `json:"path"`
	Follow bool   `json:"follow,omitempty"` // follow a symbolic link at the end of Path
}

// FileInfo answers stat.
type FileInfo struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"` // "file", "dir", "symlink", "fifo", "socket", "device"
	Size   int64     `json:"size"`
	Mode   uint32    `json:"mode"` // the low twelve bits of st_mode
	UID    uint32    `json:"uid"`
	GID    uint32    `json:"gid"`
	MTime  time.Time `json:"mtime"`
	Target string    `json:"target,omitempty"` // of a symbolic link
}

// MkdirParams are mkdir's.
type MkdirParams struct {
	Path    string  `json:"path"`
	Mode    *uint32 `json:"mode,omitempty"` // default 0755
	Parents bool    `json:"parents,omitempty"`
}

// RenameParams are rename's.
type RenameParams struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// RemoveParams are remove's.
type RemoveParams struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`
}
