package changes

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What a store's callers branch on.
var (
	ErrNotFound  = errors.New("no such change set")
	ErrAmbiguous = errors.New("more than one change set begins so")
	ErrBusy      = errors.New("another command works on this change set")
	ErrState     = errors.New("not possible in the change set's state")
)

const (
	idLength = 16

	headerFile  = "set.json"
	changesFile = "changes.jsonl"
	blobFolder  = "blobs"
	lockFile    = "lock"
	draftPrefix = "draft-" // being written; invisible
	trashPrefix = "trash-" // being removed; invisible

	formatVersion = 1
)

// A Store keeps change sets in a folder of its own, one folder a set:
//
//	<id>/set.json        the header; rewritten whole, by rename
//	<id>/changes.jsonl   a change a line, sorted
//	<id>/blobs/<sha256>  contents, holes kept; small ones are in blobs/pack
//	<id>/lock            held by the one command that works on the set
//	<id>/journal, <id>/backup/   belong to commit and undo
//
// That of a sandbox that lasts has a folder more; see Renew.
//
// Everything is the owner's alone (0600, 0700). A set appears by one rename after all
// of it has reached the disk, so a crash leaves a whole set or none. A Store is safe
// for concurrent use, by several processes too.
type Store struct {
	dir string
}

// OpenStore opens the store in dir, which it makes if need be, and removes what dead
// processes left half-written, as far as it can.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("change store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("change store: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("change store: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("change store: others can read it: %w", err)
		}
	}
	s := &Store{dir: dir}
	_ = s.sweepLeftovers() // they are in nobody's way; Sweep says what stays, and why
	return s, nil
}

// ValidID reports whether id is one of a change set: sixteen characters of a–z and 2–7.
func ValidID(id string) bool {
	return len(id) == idLength && validPrefix(id)
}

func validPrefix(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return id != "" && len(id) <= idLength
}

// Dir is the folder of the set with this whole id, or "" where id is not valid.
func (s *Store) Dir(id string) string {
	if !ValidID(id) {
		return ""
	}
	return filepath.Join(s.dir, id)
}

// storedHeader is what set.json holds.
type storedHeader struct {
	Version int `json:"version"`
	Header
	Changes int `json:"changes"` // lines of changes.jsonl

	// Of a sandbox that lasts.
	Content string `json:"content,omitempty"` // the folder of what was read; "": the set's own
	Outs    int    `json:"outs,omitempty"`    // lines of out.jsonl
	Read    int    `json:"read,omitempty"`    // the last journal when it was read
	Reset   int    `json:"reset,omitempty"`   // the last journal when the sandbox began anew
}

// sound reports whether the format is one that this program reads.
func (h *storedHeader) sound() bool {
	if h.Version == formatVersion {
		return h.Content == ""
	}
	n, ok := strings.CutPrefix(h.Content, readPrefix)
	_, err := strconv.ParseUint(n, 10, 32)
	return h.Version == liveVersion && ok && err == nil
}

func (s *Store) readHeader(id string) (storedHeader, error) {
	var h storedHeader
	if !ValidID(id) {
		return h, fmt.Errorf("change set %q: %w", id, ErrNotFound)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, id, headerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("change set %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return h, fmt.Errorf("change set %s: %w", id, err)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("change set %s: header: %w", id, err)
	}
	if !h.sound() {
		return h, fmt.Errorf("change set %s: its format is version %d, this program reads %d and %d", id, h.Version, formatVersion, liveVersion)
	}
	if h.ID != id {
		return h, fmt.Errorf("change set %s: its header names %q", id, h.ID)
	}
	return h, nil
}

// Resolve gives the whole id of the one set that begins with prefix. Its errors are
// ErrNotFound and ErrAmbiguous.
func (s *Store) Resolve(prefix string) (string, error) {
	if !validPrefix(prefix) {
		return "", fmt.Errorf("change set %q: %w", prefix, ErrNotFound)
	}
	if len(prefix) == idLength {
		_, err := s.readHeader(prefix)
		return prefix, err
	}
	ids, err := s.ids()
	if err != nil {
		return "", err
	}
	found := ""
	for _, id := range ids {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("change set %s…: %w", prefix, ErrAmbiguous)
		}
		found = id
	}
	if found == "" {
		return "", fmt.Errorf("change set %s…: %w", prefix, ErrNotFound)
	}
	return found, nil
}

func (s *Store) ids() ([]string, error) {
	names, err := readNames(s.dir)
	if err != nil {
		return nil, fmt.Errorf("change store: %w", err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !ValidID(n) }), nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// Load reads the set whose id is, or uniquely begins with, id. Its errors are
// ErrNotFound, ErrAmbiguous and those of a damaged set.
func (s *Store) Load(id string) (*Set, error) {
	id, err := s.Resolve(id)
	if err != nil {
		return nil, err
	}
	for {
		h, err := s.readHeader(id)
		if err != nil {
			return nil, err
		}
		set, err := s.load(&h)
		if err == nil {
			return &set.Set, nil
		}
		if errors.Is(err, fs.ErrNotExist) && s.moved(&h) {
			continue // it was read anew just now
		}
		return nil, fmt.Errorf("change set %s: %w", id, err)
	}
}

func (s *Store) load(h *storedHeader) (*heldSet, error) {
	dir := filepath.Join(s.dir, h.ID)
	list, err := readChanges(filepath.Join(dir, h.Content, changesFile), h.Changes)
	if err != nil {
		return nil, err
	}
	set := &heldSet{Set: Set{Header: h.Header, Changes: list}}
	if h.Content == "" {
		return set, nil
	}
	set.lasting, set.own, set.read = true, list, h.Read
	if set.outs, err = readChanges(filepath.Join(dir, h.Content, outFile), h.Outs); err != nil {
		return nil, err
	}
	done, _, err := readEntries(dir)
	if err != nil {
		return nil, err
	}
	set.settle(done)
	return set, nil
}

// hold reads a set under its lock: nobody reads it anew.
func (s *Store) hold(id string) (*heldSet, error) {
	h, err := s.readHeader(id)
	if err != nil {
		return nil, err
	}
	set, err := s.load(&h)
	if err != nil {
		return nil, fmt.Errorf("change set %s: %w", id, err)
	}
	return set, nil
}

// moved reports whether the set has been read anew since h was its header.
func (s *Store) moved(h *storedHeader) bool {
	now, err := s.readHeader(h.ID)
	return err == nil && now.Content != h.Content
}

func readChanges(name string, want int) ([]Change, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Change
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<16))
	for {
		var c Change
		err := dec.Decode(&c)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("change %d: %w", len(list)+1, err)
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("change %d: %w", len(list)+1, err)
		}
		list = append(list, c)
	}
	if len(list) != want {
		return nil, fmt.Errorf("%d changes where %d were written", len(list), want)
	}
	return list, nil
}

// List gives every whole set's header, the newest first. What cannot be read is left
// out, because one damaged set must not hide the others; Damaged names it.
func (s *Store) List() ([]Header, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	list := make([]Header, 0, len(ids))
	for _, id := range ids {
		if h, err := s.readHeader(id); err == nil {
			list = append(list, h.Header)
		}
	}
	slices.SortFunc(list, func(a, b Header) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Damaged gives the ids of the sets whose header cannot be read, sorted. They can be
// removed, and nothing else.
func (s *Store) Damaged() ([]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, id := range ids {
		// One that is removed meanwhile is not damaged.
		if _, err := s.readHeader(id); err != nil && s.hasFolder(id) == nil {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Blob opens a content of the set for reading, from its beginning; blob is a Change's.
func (s *Store) Blob(id, blob string) (*os.File, error) {
	if !ValidID(id) {
		return nil, fmt.Errorf("change set %q: %w", id, ErrNotFound)
	}
	if !validBlob(blob) {
		return nil, fmt.Errorf("change set %s: %q names no content", id, blob)
	}
	f, err := openBlob(filepath.Join(s.dir, id, blobFolder), blob)
	for errors.Is(err, fs.ErrNotExist) {
		h, failed := s.readHeader(id)
		if failed != nil || h.Content == "" {
			break
		}
		f, err = openBlob(filepath.Join(s.dir, id, h.Content, blobFolder), blob)
		if !errors.Is(err, fs.ErrNotExist) || !s.moved(&h) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("change set %s: %w", id, err)
	}
	return f, nil
}

func openBlob(folder, blob string) (*os.File, error) {
	f, err := os.Open(filepath.Join(folder, blob))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = openPacked(folder, blob)
	}
	return f, err
}

func validBlob(blob string) bool {
	if len(blob) != 64 {
		return false
	}
	for i := range len(blob) {
		if c := blob[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
