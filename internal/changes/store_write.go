package changes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
)

// A Writer writes one set. Until Finish the set is invisible; one that was never
// finished leaves nothing behind, even where the process dies (OpenStore and Sweep
// clear up). A Writer is for one goroutine.
type Writer struct {
	store  *Store
	header Header
	draft  string // "" until something had to be written
	lock   *flock.Flock
	hash   hash.Hash
	buf    []byte
	blobs  map[string]bool // true: a change refers to it
	pack   pack            // holds the small ones
	list   []Change
	failed error
	done   bool

	live   *renewal // of a sandbox that lives; nil: of one that has ended
	unlock func()   // gives the set's lock back; may be nil
}

// Create begins the set with the id in h. Finish or Abort must follow. State and the
// counts are set by Finish.
func (s *Store) Create(h Header) (*Writer, error) {
	if !ValidID(h.ID) {
		return nil, fmt.Errorf("change set: %q is not an id", h.ID)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, h.ID)); err == nil {
		return nil, fmt.Errorf("change set %s: exists already", h.ID)
	}
	return &Writer{store: s, header: h, blobs: map[string]bool{}, pack: pack{at: map[string]extent{}}}, nil
}

// begin makes the draft folder at the first need of it: a sandbox that changed
// nothing costs no disk operation at all.
func (w *Writer) begin() error {
	if w.draft != "" {
		return nil
	}
	unlock, err := w.store.lockStore()
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := os.MkdirTemp(w.store.dir, draftPrefix+w.header.ID+"-")
	if err != nil {
		return err
	}
	w.draft = dir
	w.lock = flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	if ok, err := w.lock.TryLock(); err != nil || !ok {
		return fmt.Errorf("lock %s: %w", dir, errors.Join(err, ErrBusy))
	}
	return os.Mkdir(filepath.Join(dir, blobFolder), 0o700)
}

// fail spoils the set for good.
func (w *Writer) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

func (w *Writer) usable() error {
	if w.failed != nil {
		return w.failed
	}
	if w.done {
		return fmt.Errorf("change set %s: is finished", w.header.ID)
	}
	return nil
}

// Add puts a change into the set. A blob it names must have been written.
func (w *Writer) Add(c Change) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("change set %s: %w", w.header.ID, err)
	}
	if c.Blob != "" {
		if _, ok := w.blobs[c.Blob]; !ok {
			return fmt.Errorf("change set %s: the content of %q was not written", w.header.ID, c.Path)
		}
		w.blobs[c.Blob] = true
	}
	w.list = append(w.list, c)
	return nil
}

// check is what holds for every change of a set, read or written.
func (c *Change) check() error {
	switch {
	case !c.Path.Valid():
		return fmt.Errorf("%q is not an absolute, clean path", c.Path)
	case c.Blob != "" && !validBlob(c.Blob):
		return fmt.Errorf("%q: %q names no content", c.Path, c.Blob)
	case c.HardLink != "" && !c.HardLink.Valid():
		return fmt.Errorf("%q: link to %q", c.Path, c.HardLink)
	}
	switch c.Kind {
	case Added, Modified, Metadata:
		if c.New == nil {
			return fmt.Errorf("%q: %s without what it became", c.Path, c.Kind)
		}
	case Deleted:
		if c.New != nil {
			return fmt.Errorf("%q: deleted, yet there", c.Path)
		}
	default:
		return fmt.Errorf("%q: kind %q", c.Path, c.Kind)
	}
	return nil
}

// Finish makes the set visible, after all of it has reached the disk, and gives it
// back. A set without changes is of state None and is not stored. After an error
// nothing is left behind.
func (w *Writer) Finish() (*Set, error) {
	set, err := w.finish()
	if err != nil {
		w.failed = err
		return nil, errors.Join(fmt.Errorf("change set %s: %w", w.header.ID, err), w.Abort())
	}
	return set, nil
}

func (w *Writer) finish() (*Set, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	slices.SortFunc(w.list, func(a, b Change) int { return strings.Compare(string(a.Path), string(b.Path)) })
	for i := range w.list {
		if i > 0 && w.list[i].Path == w.list[i-1].Path {
			return nil, fmt.Errorf("%q is in it twice", w.list[i].Path)
		}
	}
	set := Set{Header: w.header, Changes: w.list}
	set.count()
	w.header = set.Header
	w.header.State = Kept
	if w.live != nil {
		return w.finishLive()
	}
	if len(w.list) == 0 {
		w.header.State = None
		return &Set{Header: w.header}, w.Abort()
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	if err := w.writeDraft(); err != nil {
		return nil, err
	}
	target := filepath.Join(w.store.dir, w.header.ID)
	if _, err := os.Lstat(target); err == nil {
		return nil, errors.New("exists already")
	}
	if err := os.Rename(w.draft, target); err != nil {
		return nil, err
	}
	w.draft, w.done = "", true
	if err := errors.Join(w.lock.Close(), syncDir(w.store.dir)); err != nil {
		return nil, err
	}
	return &Set{Header: w.header, Changes: w.list}, nil
}

// writeDraft writes what the draft still lacks and waits until it is on the disk.
func (w *Writer) writeDraft() error {
	files, err := w.finishBlobs()
	if err != nil {
		return err
	}
	if err := writeLines(filepath.Join(w.draft, changesFile), w.list); err != nil {
		return err
	}
	if w.live != nil {
		err = writeLines(filepath.Join(w.draft, outFile), w.live.outs)
	} else {
		err = writeHeader(w.draft, storedHeader{Version: formatVersion, Header: w.header, Changes: len(w.list)})
	}
	if err != nil {
		return err
	}
	if len(files) > syncEachMax {
		return syncAll(w.draft)
	}
	for _, name := range files {
		if err := syncFile(name); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(filepath.Join(w.draft, blobFolder)), syncDir(w.draft))
}

func writeLines(name string, list []Change) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<16)
	enc := json.NewEncoder(out)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return fmt.Errorf("%q: %w", list[i].Path, err)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// Abort throws an unfinished set away. After Finish, or a second time, it does nothing.
func (w *Writer) Abort() error {
	w.done = true
	if w.unlock != nil {
		defer w.unlock()
	}
	if w.draft == "" {
		return nil
	}
	err := errors.Join(w.pack.close(), os.RemoveAll(w.draft))
	w.draft = ""
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
	}
	return err
}
