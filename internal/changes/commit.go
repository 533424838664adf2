package changes

import (
	"errors"
	"fmt"
	"strings"
)

// What callers of Commit, Undo and Recover branch on.
var (
	ErrNoMatch     = errors.New("nothing in the change set is at or below this path")
	ErrRefused     = errors.New("this change can never be committed")
	ErrInterrupted = errors.New("a commit or undo was interrupted and must be finished first")
	ErrNotUndoable = errors.New("there is nothing to undo")
	ErrRolledBack  = errors.New("everything is as it was before")
)

// CommitOptions are for Commit and Recover. Nil means the zero value.
type CommitOptions struct {
	// Root is the folder that stands for "/"; "" is "/". Tests use another one.
	Root string

	// Paths are what to commit, each with everything below it, whatever its scope; none
	// means everything of scope Work.
	Paths []Path

	// Force commits over conflicts, and only those of Paths that are named: without
	// Paths it is an error, because "overwrite whatever you find" is never what a
	// person has looked at. What is overwritten is kept like everything else that a
	// commit replaces, so Undo brings it back. It never removes what the set does not
	// list, and never goes through a folder that has become a link.
	Force bool

	// Refuse says why a change of a set is not to be let out, and "" where it may be; nil
	// refuses none. What is refused is treated like a change that can never be committed.
	Refuse func(set *Header, c *Change) string

	// DryRun checks everything, and touches nothing.
	DryRun bool

	test testHooks
}

// testHooks are what only tests set.
type testHooks struct {
	step  func(name string) // called before every single step
	plain bool              // as if the file system could not exchange two names
}

// A CommitReport says what a commit did; after a DryRun, what it would do.
type CommitReport struct {
	ID        string       `json:"id"`
	State     State        `json:"state"`             // the set's, from now on
	Committed []Committing `json:"committed"`         // in the order of the set
	Along     []Path       `json:"along,omitempty"`   // of Committed, what was not asked for but is needed
	Already   []Path       `json:"already,omitempty"` // the host has it: by an earlier commit, or by itself
	Left      []Left       `json:"left,omitempty"`    // asked for, and left out
	Notes     []Note       `json:"notes,omitempty"`   // what a person must see
	Remaining int          `json:"remaining"`         // changes of scope Work that could still be committed
}

// A Committing is one path that was let out.
type Committing struct {
	Path Path `json:"path"`
	Kind Kind `json:"kind"`
}

// A Left is a change that was asked for but not done.
type Left struct {
	Path   Path   `json:"path"`
	Reason string `json:"reason"`
}

// A NoteKind is one of the Note… constants.
type NoteKind string

// What is notable about a path.
const (
	NoteSetID     NoteKind = "set-id"     // it runs with its owner's or group's rights now
	NoteOwner     NoteKind = "owner"      // it has the committing user's owner or group, not the sandbox's
	NoteSetIDLost NoteKind = "set-id-off" // and so its set-uid or set-gid bit was taken off
	NoteHardLinks NoteKind = "hard-links" // its other names on the host keep the old content
	NoteLinkCopy  NoteKind = "link-copy"  // in the sandbox it was a hard link; here it is a file of its own
	NoteMerged    NoteKind = "merged"     // a folder that was there already
	NoteForced    NoteKind = "forced"     // a conflict was overridden
	NoteKept      NoteKind = "kept"       // it was left in place, or its overwritten state is kept where Text says
)

// A Note is a remark about a path.
type Note struct {
	Path Path     `json:"path"`
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// A Conflict is a path on which the host has moved on.
type Conflict struct {
	Path   Path   `json:"path"`
	Reason string `json:"reason"`
	Advice string `json:"advice"`
}

// A ConflictError lists every path for which the host is not as it has to be. Unless the
// error is ErrInterrupted too, nothing was changed or everything was put back.
type ConflictError struct {
	ID        string
	Conflicts []Conflict
}

// Error lists every path: a conflict that is not shown cannot be decided on.
func (e *ConflictError) Error() string {
	var b strings.Builder
	if len(e.Conflicts) == 1 {
		fmt.Fprintf(&b, "change set %s: one path is in conflict:", e.ID)
	} else {
		fmt.Fprintf(&b, "change set %s: %d paths are in conflict:", e.ID, len(e.Conflicts))
	}
	for _, c := range e.Conflicts {
		fmt.Fprintf(&b, "\n  %s: %s; %s", shown(c.Path), c.Reason, c.Advice)
	}
	return b.String()
}

const (
	adviceCommit = "compare the two, then name the path and force it, or discard the change"
	adviceUndo   = "look at it, then force the undo (the present state is kept), or leave it"
	adviceFolder = "put the folder back as it was, or commit other paths"
)
