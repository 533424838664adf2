package manager

import (
	"context"
	"log/slog"
	"time"

	"airlock/internal/sandbox"
)

// Options are what a Manager works with.
type Options struct {
	Dir    string // the state folder; required
	Driver sandbox.Keeping

	// Images gives root file systems; nil: there are none.
	Images Images

	// View says what a sandbox over the host in a working folder does not see, and the folder with
	// its links resolved. Nil: it sees everything.
	View func(workdir string, hide, show []string) (resolved string, hidden []string, err error)

	// Gate says what runs beside a sandbox; nil: a sandbox that needs a gate is refused.
	Gate func(ctx context.Context, req *GateRequest) (*Gate, error)

	// Record writes a row before a step is taken, which its error prevents; nil: none. A step's
	// kind is "sandbox_" and its verb: create, fork, snapshot, restore, pause, resume, remove,
	// discard, times, template, snapshot_remove, template_remove, ended.
	Record func(ctx context.Context, kind, id string, data any) error

	// Ended is how a sandbox ended, as far as that was written down; false: nobody knows. What is known
	// stays known, whatever is swept, until Forget. Both may be nil.
	Ended  func(id string) (Ending, bool)
	Forget func(id string)

	// Changes keeps the change sets of sandboxes over the host; nil: nobody does.
	Changes Changes

	// MaxSnapshots and MaxBytes bound what is saved of sandboxes, snapshots and templates together.
	// 0: 64, and 32 GiB. Negative: no bound.
	MaxSnapshots int
	MaxBytes     int64

	// Orphan reports whether a sandbox that lives belongs to nobody any more, as one of a pool (LabelPool) whose
	// program has ended does; it is ended then. Nil: none is.
	Orphan func(info *Info) bool

	// Defaults are the bounds of a sandbox that is asked for without them; nil: none.
	Defaults func() Limits

	// Wait is how long a step waits for another one at the same sandbox; 0: 30 s.
	Wait time.Duration

	// Parallel is how many sandboxes one Manager makes at a time; 0: four, or twice the processors.
	Parallel int

	Logger *slog.Logger // nil discards
}

// Images gives root file systems of images. It is safe for concurrent use, also by several
// programs.
type Images interface {
	// Use makes an image ready, and holds it for an owner until that releases it. pull is Request's,
	// progress what Request.Progress was. Its errors name the image.
	Use(ctx context.Context, ref, pull, owner string, progress any) (*Image, error)

	// Hold holds for another owner what is held for one already.
	Hold(ctx context.Context, digest, owner string) (*Image, error)

	// Release says that an owner needs no image any more. It may be said twice, and of one that
	// never had any.
	Release(ctx context.Context, owner string) error

	// Owners are those who hold an image.
	Owners(ctx context.Context) ([]string, error)
}

// An Image is one that is ready.
type Image struct {
	Digest  string // of the image
	Root    string // folder of the root file system, which nobody writes to
	Env     map[string]string
	WorkDir string
	User    string
}

// A GateRequest asks for the gate of a sandbox.
type GateRequest struct {
	ID  string
	Net Net

	// Env is what a sandbox was given whose state this one goes on from: placeholders and the
	// proxy's address stay what they are. Nil: it is a new one.
	Env map[string]string
	// Input is the gate's of the sandbox that this one is a fork of, or was before it began anew: it has the
	// secrets. What Net says holds nevertheless: a fork's ports are others. Nil: secrets are read anew.
	Input []byte
}

// A Gate is what runs beside a sandbox: see sandbox.LastingSpec.
type Gate struct {
	Argv  []string
	Input []byte
	Env   map[string]string // for what runs in the sandbox
	// Ports reads what the gate said when it was ready: sandbox.Status' Gate. Nil: it publishes none.
	Ports func(said []byte) ([]Port, error)
}

// Changes keeps the change sets of sandboxes that live. All is said of a sandbox over the host while its
// steps are held up.
type Changes interface {
	// Expired is given the upper layer of a sandbox that ended because its time was over, and
	// keeps its set. The file goes when it has returned without an error, and is put aside for ErrUnreadable.
	Expired(ctx context.Context, info *Info, tar string) error
	// Forked gives a child what its parent's commits left behind, before it is used.
	Forked(ctx context.Context, parent, child string) error
	// Saved puts that into a snapshot's folder, from which Restored gives it to a new sandbox.
	Saved(ctx context.Context, id, dir string) error
	Restored(ctx context.Context, dir, id string) error
	// Anew says that a sandbox begins again over the files as they are.
	Anew(ctx context.Context, id string) error
	// Ended says that a sandbox was removed: nobody asks for its living set any more.
	Ended(ctx context.Context, id string) error
}

// An Ending is how a sandbox ended.
type Ending struct {
	Reason string    // Removed, Expired, Idle, OutOfMemory, Killed
	Time   time.Time // zero: not known
	Text   string    // for the person; may be empty
}

// Forker is what a driver can that forks faster than by a checkpoint in a folder and a restore for each. The
// result has the place of each spec, nil where it failed, and the error says why.
type Forker interface {
	Fork(ctx context.Context, parent sandbox.Lasting, specs []*sandbox.LastingSpec) ([]sandbox.Lasting, error)
}
