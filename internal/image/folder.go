package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"airlock/internal/unpack"
)

// A copied is an image that is the copy of a folder. Its ID is a fingerprint of the folder: of names, modes,
// owners, sizes, links and times, so that a change makes another image.
type copied struct {
	store *Store
	path  string
	m     *manifest
}

func newFolder(s *Store, r Reference) (*copied, error) {
	path, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder; a file that docker save wrote is docker-archive:%s", path, path)
	}
	if path == filepath.Dir(path) {
		return nil, errors.New("it is the whole of this machine; a sandbox without an image is laid over that")
	}
	own, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return nil, err
	}
	if rel, err := filepath.Rel(path, own); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return nil, fmt.Errorf("%s has airlock's images in it, at %s: it would be copied into itself", path, own)
	}
	return &copied{store: s, path: path}, nil
}

func (c *copied) manifest(ctx context.Context) (*manifest, error) {
	id, bytes, err := c.fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	c.m = &manifest{id: id, platform: machine(), plain: true, layers: []layer{{size: bytes}}}
	return c.m, nil
}

func (c *copied) fetch(context.Context, int, func(State, int64)) error { return nil }

// open packs the folder. A folder that changed meanwhile may be neither what it was nor what it is.
func (c *copied) open(ctx context.Context, _ int) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := unpack.Pack(ctx, w, c.path+"/.", nil)
		if err == nil {
			var id string
			if id, _, err = c.fingerprint(ctx); err == nil && id != c.m.id {
				err = errors.New("the folder was changed while it was copied; try again when nobody writes to it")
			}
		}
		w.CloseWithError(err) // io.EOF for nil
	}()
	return &packing{r, cancel, done}, nil
}

// A packing is a folder's tar while it is made.
type packing struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

func (p *packing) Close() error {
	p.cancel()
	err := p.PipeReader.Close()
	<-p.done
	return err
}

func (c *copied) close() {}

// fingerprint looks at all there is, but at no content.
func (c *copied) fingerprint(ctx context.Context) (id string, bytes int64, err error) {
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	info, err := root.Lstat(".")
	if err != nil {
		return "", 0, err
	}
	p := &printer{ctx: ctx, sum: sha256.New(), device: deviceOf(info), left: c.store.opts.Limits.Entries}
	p.note(".", info, "")
	if err := p.folder(root, c.path); err != nil {
		return "", 0, err
	}
	return "sha256:" + hex.EncodeToString(p.sum.Sum(nil)), p.bytes, nil
}

// A printer takes a folder's fingerprint.
type printer struct {
	ctx    context.Context //nolint:containedctx // of the one fingerprint that the printer lives for
	sum    hash.Hash
	device uint64
	bytes  int64
	left   int64 // entries
}

func (p *printer) note(name string, info fs.FileInfo, link string) {
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
		p.bytes += size
	}
	fmt.Fprintf(p.sum, "%q %o %d %d %s %q\n", name, info.Mode(), size, info.ModTime().UnixNano(), stamp(info), link)
}

func (p *printer) folder(root *os.Root, path string) error {
	names, err := namesIn(root)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := p.entry(root, path, name); err != nil {
			return err
		}
	}
	_, err = io.WriteString(p.sum, "..\n")
	return err
}

func (p *printer) entry(root *os.Root, path, name string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.left--; p.left < 0 {
		return fmt.Errorf("%w: the folder has too many files", ErrLimit)
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone meanwhile: what is copied is looked at again
	}
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = root.Readlink(name); err != nil {
			return err
		}
	}
	p.note(name, info, link)
	if !info.IsDir() {
		return nil
	}
	below := filepath.Join(path, name)
	if deviceOf(info) != p.device {
		return fmt.Errorf("another file system is mounted on %s; unmount it, or copy the folder without it", below)
	}
	return within(root, name, func(sub *os.Root) error { return p.folder(sub, below) })
}
