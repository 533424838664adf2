package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
)

// errOldChanged means that nobody has the old content any more.
var errOldChanged = errors.New("the old content is gone")

// oldContents finds what the host had while the sandbox ran.
type oldContents struct {
	host, set *hostFS
	kept      map[Path][]Path // where commits keep what they replaced, below the set's folder
}

func newOldContents(store *Store, id, root string) (*oldContents, error) {
	host, err := openHost(root)
	if err != nil {
		return nil, err
	}
	o := &oldContents{host: host, kept: map[Path][]Path{}}
	dir := store.Dir(id)
	if dir == "" {
		return o, nil
	}
	if o.set, err = openHost(dir); err != nil {
		o.set = nil // the set is not stored: nothing of it can be committed either
		return o, nil
	}
	entries, pending, err := readEntries(dir)
	if err != nil {
		return nil, errors.Join(err, host.Close(), o.set.Close())
	}
	if pending != nil {
		entries = append(entries, pending)
	}
	for _, j := range entries {
		for i := range j.ops {
			if before := j.ops[i].Before; before != nil && before.Type == File {
				o.kept[j.ops[i].Path] = append(o.kept[j.ops[i].Path], vaultName(j, i), backupName(j.num, i)+copySuffix)
			}
		}
	}
	return o, nil
}

func (o *oldContents) close() {
	_ = o.host.Close() // descriptors that were only read through
	_ = o.set.Close()
}

// read gives the content that c.Old had, or errOldChanged.
func (o *oldContents) read(c *Change, limit int64) ([]byte, error) {
	data, err := readSame(o.host, c.Path, c.Old, limit)
	if err == nil {
		return data, nil
	}
	for _, p := range o.kept[c.Path] {
		if kept, keptErr := readSame(o.set, p, c.Old, limit); keptErr == nil {
			return kept, nil
		}
	}
	return nil, err
}

// readSame reads the file at p if it is what old describes: by its digest, or where
// that is not known, by its identity and times.
func readSame(h *hostFS, p Path, old *Node, limit int64) ([]byte, error) {
	f, err := h.Open(p)
	if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, errOldChanged
	}
	defer f.Close()
	data, err := readAtMost(f, limit)
	if err != nil || int64(len(data)) != old.Size {
		return nil, errOldChanged
	}
	if old.SHA256 != "" {
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != old.SHA256 {
			return nil, errOldChanged
		}
		return data, nil
	}
	if now, err := h.Lstat(p); err != nil || !sameObject(now, old, false) {
		return nil, errOldChanged
	}
	return data, nil
}
