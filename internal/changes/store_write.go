package changes

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
)

const (
	chunkSize = 128 << 10
	holeSize  = 4 << 10 // the smallest run of zeros worth a hole

	// Above so many files one sync of the whole file system is cheaper than one each.
	syncEachMax = 64
)

var zeros [holeSize]byte

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
	list   []Change
	failed error
	done   bool
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
	return &Writer{store: s, header: h, blobs: map[string]bool{}}, nil
}

// Header is the header the set was begun with.
func (w *Writer) Header() Header { return w.header }

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

// WriteBlob stores the size bytes that r gives and returns their name, which is their
// SHA-256 in hex. Long runs of zeros become holes. What no Change refers to is dropped
// by Finish. An error, a short r among them, spoils the whole set.
func (w *Writer) WriteBlob(r io.Reader, size int64) (blob string, err error) {
	if err := w.usable(); err != nil {
		return "", err
	}
	if w.buf == nil {
		w.buf, w.hash = make([]byte, chunkSize), sha256.New()
	}
	w.hash.Reset()
	switch {
	case size < 0:
		err = fmt.Errorf("size %d", size)
	case size <= chunkSize:
		blob, err = w.writeSmall(r, int(size))
	default:
		blob, err = w.writeLarge(r, size)
	}
	if err != nil {
		w.failed = fmt.Errorf("content: %w", err)
		return "", w.failed
	}
	return blob, nil
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

// sum is the name of what was hashed, and whether the set has it already.
func (w *Writer) sum() (name string, known bool) {
	name = hex.EncodeToString(w.hash.Sum(nil))
	_, known = w.blobs[name]
	w.blobs[name] = w.blobs[name] // drafted, not yet referred to
	return name, known
}

func (w *Writer) writeSmall(r io.Reader, size int) (string, error) {
	data := w.buf[:size]
	if _, err := io.ReadFull(r, data); err != nil {
		return "", noEOF(err)
	}
	w.hash.Write(data)
	name, known := w.sum()
	if known {
		return name, nil
	}
	if err := w.begin(); err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(w.draft, blobFolder, name), data, 0o600)
}

func (w *Writer) writeLarge(r io.Reader, size int64) (name string, err error) {
	if err := w.begin(); err != nil {
		return "", err
	}
	folder := filepath.Join(w.draft, blobFolder)
	f, err := os.CreateTemp(folder, "new-")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
	}()
	for off := int64(0); off < size; {
		data := w.buf[:min(chunkSize, size-off)]
		if _, err := io.ReadFull(r, data); err != nil {
			return "", noEOF(err)
		}
		w.hash.Write(data)
		if err := writeAroundHoles(f, data, off); err != nil {
			return "", err
		}
		off += int64(len(data))
	}
	if err := f.Truncate(size); err != nil {
		return "", err
	}
	name, known := w.sum()
	if known {
		return name, os.Remove(f.Name())
	}
	return name, os.Rename(f.Name(), filepath.Join(folder, name))
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeAroundHoles writes data at off, but not its blocks of zeros.
func writeAroundHoles(f *os.File, data []byte, off int64) error {
	start := 0 // of the run not yet written
	flush := func(end int) error {
		if end <= start {
			return nil
		}
		_, err := f.WriteAt(data[start:end], off+int64(start))
		return err
	}
	for i := 0; i < len(data); i += holeSize {
		end := min(i+holeSize, len(data))
		if !bytes.Equal(data[i:end], zeros[:end-i]) {
			continue
		}
		if err := flush(i); err != nil {
			return err
		}
		start = end
	}
	return flush(len(data))
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
	w.header.Work, w.header.Outside, w.header.NoiseCount = 0, 0, 0
	for i := range w.list {
		if i > 0 && w.list[i].Path == w.list[i-1].Path {
			return nil, fmt.Errorf("%q is in it twice", w.list[i].Path)
		}
		switch w.list[i].Scope {
		case Work:
			w.header.Work++
		case Noise:
			w.header.NoiseCount++
		default:
			w.header.Outside++
		}
	}
	w.header.State = Kept
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
	folder := filepath.Join(w.draft, blobFolder)
	used := 0
	for name, wanted := range w.blobs {
		if wanted {
			used++
		} else if err := os.Remove(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	if err := writeLines(filepath.Join(w.draft, changesFile), w.list); err != nil {
		return err
	}
	head := storedHeader{Version: formatVersion, Header: w.header, Changes: len(w.list)}
	if err := writeHeader(w.draft, head); err != nil {
		return err
	}
	if used > syncEachMax {
		return syncAll(w.draft)
	}
	for name, wanted := range w.blobs {
		if !wanted {
			continue
		}
		if err := syncFile(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(folder), syncDir(w.draft))
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
	if w.draft == "" {
		return nil
	}
	err := os.RemoveAll(w.draft)
	w.draft = ""
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
	}
	return err
}
