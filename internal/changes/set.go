// Package changes is what a sandbox did to the files it was laid over: it reads an
// upper layer into a change set, keeps sets, shows them, and lets them out to the
// host (commit), throws them away (discard) or takes a commit back (undo).
//
// The package knows nothing of sandboxes or of who asks. It reads bytes that hostile
// programs wrote: every name, size and order in an upper layer is suspect.
package changes

import "time"

// Kind says what happened to a path.
type Kind string

// The kinds of change. The zero value is none of them and is never committed.
const (
	Added    Kind = "added"
	Modified Kind = "modified" // content, link target or type
	Deleted  Kind = "deleted"
	Metadata Kind = "metadata" // mode, owner, extended attributes or modification time alone
)

// NodeType is the type of a file-system object.
type NodeType string

// The types of node.
const (
	File    NodeType = "file"
	Dir     NodeType = "dir"
	Symlink NodeType = "symlink"
	Fifo    NodeType = "fifo"
	Device  NodeType = "device" // shown, never committed
)

// A Path is an absolute, clean path as the sandbox and the host both see it. It may
// hold any bytes but NUL; in JSON, one that is not UTF-8 is {"base64": "…"}.
type Path string

// A Node describes one file-system object.
type Node struct {
	Type   NodeType          `json:"type"`
	Size   int64             `json:"size"`
	Mode   uint32            `json:"mode"` // the low twelve bits of st_mode
	UID    uint32            `json:"uid"`
	GID    uint32            `json:"gid"`
	MTime  time.Time         `json:"mtime"`
	Target Path              `json:"target,omitempty"` // of a symbolic link
	SHA256 string            `json:"sha256,omitempty"` // of a file's content, hex; "" where it was not read
	Xattrs map[string][]byte `json:"xattrs,omitempty"` // user.* only

	// Of nodes on the host alone: what tells that it is still the same object.
	CTime time.Time `json:"ctime,omitzero"`
	Dev   uint64    `json:"dev,omitempty"`
	Ino   uint64    `json:"ino,omitempty"`
	Nlink uint64    `json:"nlink,omitempty"`
}

// A Scope says whether a change is part of the work or beside it.
type Scope string

// The scopes. Only Work is committed unless a path is named.
const (
	Work    Scope = "work"    // below the working folder
	Outside Scope = "outside" // elsewhere
	Noise   Scope = "noise"   // temporary files and caches, wherever they are
)

// A Change is one path's.
type Change struct {
	Path  Path  `json:"path"`
	Kind  Kind  `json:"kind"`
	Scope Scope `json:"scope"`
	Old   *Node `json:"old,omitempty"` // what the host had while the sandbox ran; nil for Added
	New   *Node `json:"new,omitempty"` // nil for Deleted

	Blob     string `json:"blob,omitempty"`      // names New's content in the set's store
	HardLink Path   `json:"hard_link,omitempty"` // another path of this set that New is the same file as

	// Refused says why this change can never be committed (a device, a hidden path);
	// Conflict says that the host changed the path while the sandbox still ran.
	Refused  string `json:"refused,omitempty"`
	Conflict string `json:"conflict,omitempty"`

	// LetOut numbers the commit that let this out: it is a change again when that is undone.
	LetOut int `json:"let_out,omitempty"`
}

// A State is where a change set is in its life.
type State string

// The states of a set.
const (
	None      State = "none" // nothing was changed
	Kept      State = "kept"
	Committed State = "committed"
	Discarded State = "discarded"
)

// A Header is what is known of a change set beside its changes.
type Header struct {
	ID       string    `json:"id"` // of the sandbox: sixteen characters of a–z and 2–7
	Created  time.Time `json:"created"`
	Command  []string  `json:"command"`
	WorkDir  Path      `json:"work_dir"`
	ExitCode int       `json:"exit_code"`
	UID      uint32    `json:"uid"` // who ran it
	State    State     `json:"state"`

	// Of the sandboxes that last alone. Live: it was there when this was read. Started is
	// when it began to look at the host's files.
	Live    bool      `json:"live,omitempty"`
	Started time.Time `json:"started,omitzero"`

	// Work, Outside and NoiseCount count the changes of each scope.
	Work       int `json:"work"`
	Outside    int `json:"outside"`
	NoiseCount int `json:"noise"`
}

// A Set is a change set that has been read into the store.
type Set struct {
	Header
	// Changes are sorted by path, as bytes; a folder stands before what is in it.
	// A deleted folder's whole content is listed, each path of its own.
	Changes []Change
}
