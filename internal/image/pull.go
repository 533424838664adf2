package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// parallel is how many layers are downloaded at once.
const parallel = 3

// A source is where an image comes from.
type source interface {
	// manifest says what there is.
	manifest(ctx context.Context) (*manifest, error)
	// fetch brings layer i near, if it is far, and tells how it goes. It is safe for concurrent use.
	fetch(ctx context.Context, i int, report func(State, int64)) error
	// open reads layer i as it was sent; ErrCorrupt comes at its end when it is not what its digest says.
	open(ctx context.Context, i int) (io.ReadCloser, error)
	// close lets go of what was fetched.
	close()
}

// A manifest is what a source says of its image, and has been checked against digests as far as it came with them.
type manifest struct {
	id       string // of the image
	digest   string // of the manifest; "" without one
	platform string
	created  time.Time
	config   v1.Config
	layers   []layer

	// plain says that the one layer is a copy of a folder: no whiteouts, nothing compressed.
	plain bool
}

type layer struct {
	digest v1.Hash // as it is sent; the zero value: not known
	diffID v1.Hash // unpacked; the zero value with plain
	size   int64   // as it is sent; 0: not known
}

// A pull is one Store.Pull that asks a source.
type pull struct {
	store *Store
	ref   Reference
	opts  PullOptions
	src   source
	m     *manifest
	show  *display
}

func (p *pull) run(ctx context.Context) (*Image, error) {
	src, err := p.store.newSource(ctx, p.ref, p.opts.Insecure)
	if err != nil {
		return nil, err
	}
	defer src.close()
	p.src = src
	p.show = newDisplay(p.ref.String(), p.opts.Progress)
	if p.m, err = src.manifest(ctx); err != nil {
		return nil, err
	}
	if n := len(p.m.layers); n > p.store.opts.Limits.Layers {
		return nil, fmt.Errorf("%w: %d layers, %d are allowed", ErrLimit, n, p.store.opts.Limits.Layers)
	}
	p.show.layers(p.m.layers)
	if img, err := p.adopt(ctx); err == nil || !errors.Is(err, ErrNotFound) {
		return img, err
	}
	_ = p.store.sweepUnfinished(ctx) // it is in nobody's way but the disk's
	unlock, err := p.store.lock(ctx, rootLock(p.m.id), false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if img, err := p.adopt(ctx); err == nil || !errors.Is(err, ErrNotFound) {
		return img, err // another command made it meanwhile
	}
	return p.make(ctx)
}

// adopt uses the image where the store has it already.
func (p *pull) adopt(ctx context.Context) (*Image, error) {
	unlock, err := p.store.lockMeta(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := p.store.takeLocked(p.m.id, "", ""); err != nil {
		return nil, err
	}
	return p.enterLocked(Shared)
}

// enterLocked lets the reference lead to the image, which is whole, and takes it.
func (p *pull) enterLocked(state State) (*Image, error) {
	if err := p.store.writeRef(p.ref.String(), p.m.id); err != nil {
		return nil, err
	}
	img, err := p.store.takeLocked(p.m.id, p.ref.String(), p.opts.Owner)
	if err == nil {
		p.show.finish(state)
	}
	return img, err
}

// make makes the root file system, with the lock of that held.
func (p *pull) make(ctx context.Context) (*Image, error) {
	root := &root{store: p.store, m: p.m, dir: p.store.path(tempFolder, hexOf(p.m.id))}
	if err := removeTree(root.dir); err != nil { // a killed process left it
		return nil, err
	}
	img, err := p.fill(ctx, root)
	if err != nil {
		return nil, errors.Join(err, removeTree(root.dir))
	}
	return img, nil
}

func (p *pull) fill(ctx context.Context, root *root) (*Image, error) {
	below, err := root.begin(ctx)
	if err != nil {
		return nil, err
	}
	for i := range below {
		p.show.set(i, Shared, 0)
	}
	if err := p.store.room(p.m.layers[below:]); err != nil {
		return nil, err
	}
	if err := p.layers(ctx, root, below); err != nil {
		return nil, err
	}
	img, err := root.finish()
	if err != nil {
		return nil, err
	}
	unlock, err := p.store.lockMeta(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return p.commitLocked(root, img)
}

// commitLocked gives what is whole its last name. Killed between two of its steps, it leaves files of no image,
// which the next pull makes anew.
func (p *pull) commitLocked(root *root, img *Image) (*Image, error) {
	dir := p.store.path(rootFolder, hexOf(img.ID))
	if err := p.store.trash(dir); err != nil { // a root without a record
		return nil, err
	}
	if err := os.Rename(root.dir, dir); err != nil {
		return nil, err
	}
	if err := syncDir(p.store.path(rootFolder)); err != nil {
		return nil, err
	}
	if err := p.store.writeImage(img); err != nil {
		return nil, err
	}
	return p.enterLocked(Done)
}

// layers fetches layers, several at once, and unpacks one after the other as they come.
func (p *pull) layers(ctx context.Context, root *root, from int) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	free := make(chan struct{}, parallel)
	fetched := make([]chan error, len(p.m.layers))
	for i := range fetched {
		fetched[i] = make(chan error, 1)
	}
	work.Go(func() {
		for i := from; i < len(fetched) && ctx.Err() == nil; i++ {
			free <- struct{}{} // whoever has it ends soon after ctx
			work.Go(func() {
				defer func() { <-free }()
				err := p.src.fetch(ctx, i, func(s State, done int64) { p.show.set(i, s, done) })
				if err == nil {
					p.show.set(i, Downloaded, p.m.layers[i].size)
				}
				fetched[i] <- err
			})
		}
	})
	for i := from; i < len(fetched); i++ {
		select {
		case err := <-fetched[i]:
			if err != nil {
				return fmt.Errorf("layer %d: %w", i+1, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := p.unpack(ctx, root, i); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	return nil
}

func (p *pull) unpack(ctx context.Context, root *root, i int) error {
	r, err := p.src.open(ctx, i)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := root.add(ctx, i, r, func(read int64) { p.show.set(i, Unpacking, read) }); err != nil {
		return err
	}
	p.show.set(i, Done, p.m.layers[i].size)
	return nil
}

// room says early when layers cannot fit: as sent, they are the least that will be written.
func (s *Store) room(layers []layer) error {
	var need int64
	for _, l := range layers {
		if _, err := os.Lstat(s.path(blobFolder, fileName(l.digest.String()))); err != nil {
			need += l.size
		}
	}
	free, err := freeBytes(s.dir)
	if err != nil {
		return err
	}
	if need > free {
		return fmt.Errorf("%w: it takes more than %d MB, and %d MB are free below %s", ErrSpace, need>>20, free>>20, s.dir)
	}
	return nil
}

// explain gives errors of the system the words that a person needs.
func explain(err error) error {
	if errors.Is(err, ErrSpace) {
		return err
	}
	if slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT}, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("%w: the disk is full; `airlock image prune` removes images that nobody uses: %w", ErrSpace, err)
	}
	return err
}
