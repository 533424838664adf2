package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"airlock/internal/changes"
	"airlock/internal/hostview"
	"airlock/internal/sandbox"
)

// ErrOwnFiles: a sandbox is laid over an image's files, so that there is nothing on the
// host that its changes are changes of.
var ErrOwnFiles = errors.New("it has its own files, from an image, and no changes of the host's; airlock sandbox cp copies files out of it")

// A Lived says of a sandbox that lasts what its change set depends on. Of the host it
// goes by what is there when it is asked.
type Lived struct {
	ID      string
	Image   string    // what it is laid over; "": the host's files
	WorkDir string    // absolute; its changes are the work
	Hidden  []string  // what it does not see, as it was made
	Hide    []string  // what was asked to be hidden
	Show    []string  // and not to be hidden
	Started time.Time // Lasting's
	Command []string  // what the set is listed as
}

// Living reads what a sandbox that lives has changed into the set of its ID, in the place
// of what was read before. What it has let out already, and is as it was then, is no
// change. The sandbox is frozen while that is read, and goes on whatever comes of it.
//
// The errors are ErrOwnFiles, changes.ErrBusy and changes.ErrInterrupted, where the set
// that is there has to be committed or undone first, and those of the sandbox.
func (r *Runner) Living(ctx context.Context, sb sandbox.Lasting, of *Lived) (*changes.Set, error) {
	own := *of
	own.ID, own.Started = sb.ID(), sb.Started()
	return r.lived(ctx, &own, true, sb.Upper)
}

// Expired reads the tar of the upper layer that a sandbox left behind whose time was over.
func (r *Runner) Expired(ctx context.Context, name string, of *Lived) (*changes.Set, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("what sandbox %s left: %w", of.ID, err)
	}
	defer f.Close()
	return r.lived(ctx, of, false, func(_ context.Context, w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// lived reads an upper layer into the set of a sandbox that lives or lived.
func (r *Runner) lived(ctx context.Context, of *Lived, live bool, upper func(context.Context, io.Writer) error) (*changes.Set, error) {
	if of.Image != "" {
		return nil, fmt.Errorf("sandbox %s: %w", of.ID, ErrOwnFiles)
	}
	own := r.own()
	hidden, err := r.never(of, own)
	if err != nil {
		return nil, err
	}
	store, err := r.Store()
	if err != nil {
		return nil, err
	}
	w, err := store.Renew(ctx, of.header(r.UID, live))
	if err != nil {
		return nil, err
	}
	opts := r.readOptions(of.Started, hidden)
	opts.Ignore = own // the way to the guest agent leads through them, and is made inside
	if err := readInto(ctx, upper, w, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox %s: %w", of.ID, err), w.Abort())
	}
	set, err := w.Finish()
	if err != nil {
		return nil, fmt.Errorf("keep what was changed: %w", err)
	}
	return set, nil
}

func (of *Lived) header(uid uint32, live bool) changes.Header {
	return changes.Header{
		ID: of.ID, Created: time.Now(), Command: of.Command, WorkDir: changes.Path(of.WorkDir), UID: uid,
		Live: live, Started: of.Started,
	}
}

// never lists what can never come out of a sandbox: what it was not shown, where secrets
// would be, and Airlock's own folders.
func (r *Runner) never(of *Lived, own []string) ([]string, error) {
	rules := &hostview.Rules{Homes: r.Homes, State: r.State, Settings: r.Settings, WorkDir: of.WorkDir, Hide: of.Hide, Show: of.Show}
	guarded, err := hostview.Guarded(rules)
	if err != nil {
		return nil, err
	}
	list := slices.Concat(of.Hidden, guarded, own)
	slices.Sort(list)
	return slices.Compact(list), nil
}

// own are Airlock's folders, and where they are.
func (r *Runner) own() []string {
	var list []string
	for _, p := range r.State {
		if real, err := filepath.EvalSymlinks(p); err == nil && real != p {
			list = append(list, real)
		}
		list = append(list, p)
	}
	return slices.DeleteFunc(list, func(p string) bool { return !changes.Path(p).Valid() })
}

// Forked gives the set of a fork what is known of its parent's commits.
func (r *Runner) Forked(ctx context.Context, parent, child string) error {
	store, err := r.Store()
	if err != nil {
		return err
	}
	return store.Inherit(ctx, parent, r.newcomer(child))
}

// Saved writes that into the folder of a snapshot, and Restored gives it to the set of a
// sandbox that goes on from there.
func (r *Runner) Saved(ctx context.Context, id, dir string) error {
	store, err := r.Store()
	if err != nil {
		return err
	}
	return store.Bequeath(ctx, id, dir)
}

// Restored is Saved's other side.
func (r *Runner) Restored(ctx context.Context, dir, id string) error {
	store, err := r.Store()
	if err != nil {
		return err
	}
	return store.Receive(ctx, r.newcomer(id), dir)
}

// Anew forgets what a sandbox changed that begins again over the files as they are.
func (r *Runner) Anew(ctx context.Context, id string) error {
	store, err := r.Store()
	if err != nil {
		return err
	}
	return store.Forget(ctx, id, true)
}

// Ended notes that a sandbox lives no more: what was read of its changes last stays.
func (r *Runner) Ended(ctx context.Context, id string) error {
	store, err := r.Store()
	if err != nil {
		return err
	}
	return store.Ended(ctx, id)
}

// newcomer is the header of a set that nothing was read of yet.
func (r *Runner) newcomer(id string) changes.Header {
	return changes.Header{ID: id, Created: time.Now(), UID: r.UID, Live: true}
}
