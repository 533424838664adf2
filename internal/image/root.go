package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"airlock/internal/unpack"
)

// A root is a root file system that is being made. Nobody else knows its folder.
type root struct {
	store *Store
	m     *manifest
	dir   string // its files are in fs below
	limit int64  // bytes that all of it may take
	room  bool   // because there is no more room
	sum   totals
	left  int64 // entries that unpack left out
}

// ownMark lies beside the files of a root that has what its layers do not say: other images are not
// made from it.
const ownMark = "own"

// totals are what a tree has.
type totals struct{ bytes, entries int64 }

func (r *root) fs() string { return filepath.Join(r.dir, "fs") }

// begin makes the folder. What the layers' lowest part is, is taken from another image where one
// consists of just them: below says how many those are.
func (r *root) begin(ctx context.Context) (below int, err error) {
	free, err := freeBytes(r.store.dir)
	if err != nil {
		return 0, err
	}
	r.limit = min(r.store.opts.Limits.Bytes, free/10*9)
	r.room = r.limit < r.store.opts.Limits.Bytes
	if below, err = r.share(ctx); err != nil || below > 0 {
		return below, err
	}
	if err := removeTree(r.dir); err != nil { // what share began
		return 0, err
	}
	// Not everybody in the image is its owner: the root folder is open to them.
	if err := errors.Join(os.MkdirAll(r.fs(), 0o755), os.Chmod(r.fs(), 0o755)); err != nil {
		return 0, err
	}
	return 0, nil
}

// add unpacks layer i over what is there. sent reads it as it was sent.
func (r *root) add(ctx context.Context, i int, sent io.Reader, report func(read int64)) error {
	l := r.m.layers[i]
	in := &counted{r: sent, each: report}
	stream, err := decompress(in)
	if err != nil {
		return err
	}
	defer stream.Close()
	limits := r.store.opts.Limits
	max := r.limit - r.sum.bytes
	if l.size > 0 && !r.m.plain {
		max = min(max, multiply(l.size, limits.Ratio, limits.Floor))
	}
	// A tar has headers, too: for each entry at least one, and names that are long.
	var tar io.Reader = &bounded{r: stream, left: max + max/8 + 64<<20}
	if !r.m.plain {
		if tar, err = verified(tar, l.diffID, "unpacked"); err != nil {
			return err
		}
	}
	early := readAhead(tar)
	defer early.close()
	tar = early
	res, err := unpack.Into(ctx, r.fs(), ended(tar), r.unpackOptions(max, limits.Entries-r.sum.entries))
	r.left += res.Left
	// What follows the tar's end is of the digests, too.
	for _, rest := range []io.Reader{tar, in} {
		if err == nil {
			_, err = io.Copy(io.Discard, rest)
		}
	}
	early.close()
	if err != nil {
		err = whatWrong(ctx, limitOf(err), in)
		if r.room && errors.Is(err, ErrLimit) && res.Entries < limits.Entries-r.sum.entries {
			err = fmt.Errorf("%w: of what is free below %s, an image may take nine tenths, %d MB: %w", ErrSpace, r.store.dir, r.limit>>20, err)
		}
		return err
	}
	r.sum.bytes += res.Bytes
	r.sum.entries += res.Entries + res.Folders
	if os.Geteuid() == 0 {
		return nil
	}
	r.sum, err = measure(r.fs(), true) // the next layer may write into folders that this one closed
	return err
}

func (r *root) unpackOptions(bytes, entries int64) *unpack.Options {
	o := &unpack.Options{
		Owners:      unpack.OwnersKeep,
		Replace:     unpack.ReplaceAll,
		Follow:      true,
		Whiteouts:   !r.m.plain,
		SkipDevices: true,
		SetID:       true,
		Xattrs:      true,
		Max:         unpack.Limits{Bytes: max(bytes, 1), Entries: max(entries, 1)}, // zero would be none
	}
	if os.Geteuid() != 0 {
		o.Owners = unpack.OwnersNone
	}
	return o
}

// limitOf makes an unpacker's errors ours, where callers tell them apart.
func limitOf(err error) error {
	switch {
	case errors.Is(err, unpack.ErrLimit):
		return fmt.Errorf("%w: %w", ErrLimit, err)
	case errors.Is(err, unpack.ErrFormat):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// whatWrong finds out whether an error comes from what was sent being damaged.
func whatWrong(ctx context.Context, err error, sent io.Reader) error {
	if ctx.Err() != nil || errors.Is(err, ErrLimit) || errors.Is(err, ErrCorrupt) || full(err) {
		return err
	}
	if _, damaged := io.Copy(io.Discard, sent); errors.Is(damaged, ErrCorrupt) {
		return damaged
	}
	return err
}

func multiply(size, ratio, floor int64) int64 {
	if size > (1<<62)/ratio {
		return 1 << 62
	}
	return max(size*ratio, floor)
}

// finish makes what every root has, measures it, and waits until it is on the disk.
func (r *root) finish() (*Image, error) {
	dir, err := os.OpenRoot(r.fs())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	own := false
	for _, name := range []string{"dev", "proc", "sys", "tmp"} {
		replaced, err := folderThere(dir, name)
		if err != nil {
			return nil, err
		}
		own = own || replaced
	}
	config := configOf(&r.m.config)
	made := false
	if config.WorkingDir, made, err = workingDir(dir, config.WorkingDir); err != nil {
		return nil, err
	}
	if own || made {
		if err := os.WriteFile(filepath.Join(r.dir, ownMark), nil, 0o600); err != nil {
			return nil, err
		}
	}
	if r.sum, err = measure(r.fs(), os.Geteuid() != 0); err != nil {
		return nil, err
	}
	img := &Image{
		ID: r.m.id, Digest: r.m.digest, Platform: r.m.platform, Config: config, Created: r.m.created,
		Pulled: time.Now().UTC(), Layers: layersOf(r.m), Size: r.sum.bytes, Entries: r.sum.entries, Skipped: r.left,
	}
	return img, syncTree(r.dir)
}

// folderThere makes a folder where there is none. A file or link in its place goes: what is mounted
// on it must not go through a link that the image chose.
func folderThere(dir *os.Root, name string) (replaced bool, err error) {
	info, err := dir.Lstat(name)
	if err == nil && info.IsDir() {
		return false, nil
	}
	if err == nil {
		replaced = true
		if err := dir.Remove(name); err != nil {
			return false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	perm := os.FileMode(0o755)
	if name == "tmp" {
		perm = 0o777 | os.ModeSticky
	}
	return replaced, errors.Join(dir.Mkdir(name, 0o755), dir.Chmod(name, perm))
}

func layersOf(m *manifest) []Layer {
	var out []Layer
	for _, l := range m.layers {
		if m.plain {
			break // a folder has none
		}
		o := Layer{DiffID: l.diffID.String(), Size: l.size}
		if l.digest != (v1.Hash{}) {
			o.Digest = l.digest.String()
		}
		out = append(out, o)
	}
	return slices.Clip(out)
}
