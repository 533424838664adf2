package image

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// record is what images/<hex>.json holds.
type record struct {
	Version int `json:"version"`
	Image
}

const (
	recordVersion = 1
	newPrefix     = ".new-" // of a file being written
)

// storedRef is what refs/<hex>.json holds: references have characters that files' names may not.
type storedRef struct {
	Ref string `json:"ref"`
	ID  string `json:"id"`
}

// hexOf is an ID's digits, "" where it is not one of ours.
func hexOf(id string) string {
	digits, ok := strings.CutPrefix(id, "sha256:")
	if !ok || !isHex(digits) || len(digits) != 64 {
		return ""
	}
	return digits
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

func (s *Store) rootDir(id string) string {
	return s.path(rootFolder, hexOf(id), "fs")
}

func (s *Store) readImage(id string) (*Image, error) {
	digits := hexOf(id)
	if digits == "" {
		return nil, fmt.Errorf("image %q: %w", id, ErrNotFound)
	}
	var r record
	err := readJSON(s.path(imageFolder, digits+".json"), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("image %s: %w", short(id), ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", short(id), err)
	}
	if r.Version != recordVersion || r.ID != id { // it is as good as none: pulling mends it
		return nil, fmt.Errorf("image %s: %w: its record is not one of this program's", short(id), ErrNotFound)
	}
	r.RootDir = s.rootDir(id) // the store's folder may have been moved
	return &r.Image, nil
}

func (s *Store) writeImage(img *Image) error {
	r := record{Version: recordVersion, Image: *img}
	r.Ref, r.Refs, r.Holders, r.RootDir = "", nil, nil, ""
	return writeJSON(s.path(imageFolder, hexOf(img.ID)+".json"), &r)
}

func (s *Store) refFile(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return s.path(refFolder, hex.EncodeToString(sum[:])+".json")
}

func (s *Store) readRef(ref string) (id string, err error) {
	var r storedRef
	err = readJSON(s.refFile(ref), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("image %q: %w", ref, ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("image %q: %w", ref, err)
	}
	return r.ID, nil
}

func (s *Store) writeRef(ref, id string) error {
	if now, err := s.readRef(ref); err == nil && now == id {
		return nil
	}
	return writeJSON(s.refFile(ref), storedRef{Ref: ref, ID: id})
}

// allRefs are all references there are. One that cannot be read leads nowhere.
func (s *Store) allRefs() []storedRef {
	entries, _ := os.ReadDir(s.path(refFolder))
	refs := make([]storedRef, 0, len(entries))
	for _, e := range entries {
		var r storedRef
		if readJSON(s.path(refFolder, e.Name()), &r) == nil {
			refs = append(refs, r)
		}
	}
	return refs
}

func refsOf(id string, all []storedRef) []string {
	refs := []string{}
	for _, r := range all {
		if r.ID == id {
			refs = append(refs, r.Ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// ids are the IDs that there are records of.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.path(imageFolder))
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if digits, ok := strings.CutSuffix(e.Name(), ".json"); ok && hexOf("sha256:"+digits) != "" {
			ids = append(ids, "sha256:"+digits)
		}
	}
	return ids, nil
}

// find leads from what a person typed to an ID: a reference first, since an ID can be written in
// full, then an ID or its beginning. ref is "" when it was the ID.
func (s *Store) find(name string) (id, ref string, err error) {
	if r, err := ParseReference(name); err == nil {
		if id, err := s.readRef(r.String()); err == nil {
			return id, r.String(), nil
		}
	}
	digits := strings.TrimPrefix(name, "sha256:")
	if digits == "" || !isHex(digits) {
		return "", "", fmt.Errorf("image %q: %w", name, ErrNotFound)
	}
	ids, err := s.ids()
	if err != nil {
		return "", "", err
	}
	var found []string
	for _, id := range ids {
		if strings.HasPrefix(id, "sha256:"+digits) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", "", fmt.Errorf("image %q: %w", name, ErrNotFound)
	case 1:
		return found[0], "", nil
	}
	for i, id := range found {
		found[i] = short(id)
	}
	return "", "", fmt.Errorf("image %q: %w: %s", name, ErrAmbiguous, strings.Join(found, ", "))
}

func newestFirst(images []*Image) {
	slices.SortFunc(images, func(a, b *Image) int {
		return cmp.Or(b.Pulled.Compare(a.Pulled), cmp.Compare(a.ID, b.ID))
	})
}

// readJSON reads a record or a reference. One that is damaged is ErrNotFound.
func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotFound, path, err) // what cannot be read is as good as none
	}
	return nil
}

// writeJSON replaces a file: after a crash it is the old one or the new one.
func writeJSON(path string, v any) (err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(append(data, '\n')); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	_ = f.Close() // synced
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in dir last.
func syncDir(dir string) (err error) {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return syncFolder(d)
}
