package image

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Pruned is what was removed.
type Pruned struct {
	Images []*Image `json:"images"` // that nobody held
	Others []string `json:"others"` // leftovers: sentences for the person
	Bytes  int64    `json:"bytes"`  // of both; what images share with others that stay is counted too
}

// Remove removes an image, or only one of several references to it when name is one. ErrInUse: somebody
// holds it.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := s.removeOne(ctx, name); err != nil {
		return err
	}
	return s.emptyTrash(ctx)
}

func (s *Store) removeOne(ctx context.Context, name string) error {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	id, ref, err := s.find(name)
	if err != nil {
		return err
	}
	if ref != "" && len(refsOf(id, s.allRefs())) > 1 {
		if err := os.Remove(s.refFile(ref)); err != nil {
			return fmt.Errorf("remove image %q: %w", name, err)
		}
		return nil
	}
	if owners := s.holdersOf(id); len(owners) > 0 {
		return fmt.Errorf("remove image %q: %w by %s; remove them first", name, ErrInUse, strings.Join(owners, ", "))
	}
	if err := s.removeLocked(id); err != nil {
		return fmt.Errorf("remove image %q: %w", name, err)
	}
	_, _, err = s.sweepBlobsLocked()
	return err
}

// removeLocked takes an image away: the record first, so that what a killed process left of it is
// files of no image.
func (s *Store) removeLocked(id string) error {
	unlock, ok, err := s.tryLock(rootLock(id), false)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: it is just being pulled, or another image is made from it; try again afterwards", ErrBusy)
	}
	defer unlock()
	if err := os.Remove(s.path(imageFolder, hexOf(id)+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDir(s.path(imageFolder)); err != nil {
		return err
	}
	for _, ref := range refsOf(id, s.allRefs()) {
		if err := os.Remove(s.refFile(ref)); err != nil {
			return err
		}
	}
	return s.trash(s.path(rootFolder, hexOf(id)))
}

// Prune removes the images that nobody holds, and what Sweep does.
func (s *Store) Prune(ctx context.Context) (*Pruned, error) {
	p := &Pruned{Images: []*Image{}, Others: []string{}}
	err := s.pruneImages(ctx, p)
	return p, errors.Join(err, s.sweep(ctx, p))
}

func (s *Store) pruneImages(ctx context.Context, p *Pruned) error {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ids, err := s.ids()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if len(s.holdersOf(id)) > 0 {
			continue
		}
		img, err := s.takeLocked(id, "", "")
		if err != nil {
			img = &Image{ID: id} // nobody can use it as it is
		}
		switch err := s.removeLocked(id); {
		case errors.Is(err, ErrBusy):
		case err != nil:
			errs = append(errs, fmt.Errorf("image %s: %w", short(id), err))
		default:
			p.Images = append(p.Images, img)
			p.Bytes += img.Size
		}
	}
	return errors.Join(errs...)
}

// Sweep removes what belongs to no image: what killed processes left, layers of removed images,
// and downloads that nobody continued for a day.
func (s *Store) Sweep(ctx context.Context) (*Pruned, error) {
	p := &Pruned{Images: []*Image{}, Others: []string{}}
	return p, s.sweep(ctx, p)
}

func (s *Store) sweep(ctx context.Context, p *Pruned) error {
	err := s.sweepMeta(ctx, p)
	return errors.Join(err, s.emptyTrash(ctx))
}

func (s *Store) sweepMeta(ctx context.Context, p *Pruned) error {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	roots, err := s.sweepRootsLocked(rootFolder, tempFolder)
	if roots > 0 {
		p.Others = append(p.Others, several(roots, "unfinished or ownerless root file system", ""))
	}
	blobs, bytes, err2 := s.sweepBlobsLocked()
	if blobs > 0 {
		p.Others = append(p.Others, several(blobs, "layer", " of no image"))
		p.Bytes += bytes
	}
	parts, bytes, err3 := s.sweepPartialsLocked()
	if parts > 0 {
		p.Others = append(p.Others, several(parts, "unfinished download", ""))
		p.Bytes += bytes
	}
	return errors.Join(err, err2, err3, s.sweepRefsLocked(), s.sweepLocksLocked())
}

func several(n int, one, behind string) string {
	if n != 1 {
		one += "s"
	}
	return fmt.Sprintf("%d %s%s", n, one, behind)
}

// sweepUnfinished removes what killed pulls left, but for downloads that may be continued.
func (s *Store) sweepUnfinished(ctx context.Context) error {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return err
	}
	_, err = s.sweepRootsLocked(tempFolder)
	_, _, err2 := s.sweepPartialsLocked()
	unlock()
	return errors.Join(err, err2, s.emptyTrash(ctx))
}

// sweepRootsLocked takes away roots without a record, and roots that nobody makes any more.
func (s *Store) sweepRootsLocked(folders ...string) (n int, err error) {
	var errs []error
	for _, folder := range folders {
		entries, err := os.ReadDir(s.path(folder))
		errs = append(errs, err)
		for _, e := range entries {
			if folder == rootFolder {
				if _, err := os.Lstat(s.path(imageFolder, e.Name()+".json")); err == nil {
					continue
				}
			}
			err := s.whileFree(rootLock("sha256:"+e.Name()), func() error {
				n++
				return s.trash(s.path(folder, e.Name()))
			})
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

// sweepBlobsLocked removes blobs that no image has. Those of a pull are locked by it.
func (s *Store) sweepBlobsLocked() (n int, bytes int64, err error) {
	ids, err := s.ids()
	if err != nil {
		return 0, 0, err
	}
	used := map[string]bool{}
	for _, id := range ids {
		img, err := s.readImage(id)
		if err != nil {
			continue // no image to be used
		}
		for _, l := range img.Layers {
			used[fileName(l.Digest)] = true
		}
	}
	return s.sweepFiles(blobFolder, func(name string, _ fs.FileInfo) (lock string, old bool) {
		return name, !used[name]
	})
}

func (s *Store) sweepPartialsLocked() (n int, bytes int64, err error) {
	return s.sweepFiles(partFolder, func(name string, info fs.FileInfo) (string, bool) {
		return strings.TrimSuffix(name, partSuffix), time.Since(info.ModTime()) > partialAge
	})
}

func (s *Store) sweepFiles(folder string, old func(name string, info fs.FileInfo) (lock string, old bool)) (n int, bytes int64, err error) {
	entries, err := os.ReadDir(s.path(folder))
	errs := []error{err}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // gone meanwhile
		}
		lock, ok := old(e.Name(), info)
		if !ok {
			continue
		}
		errs = append(errs, s.whileFree(lock, func() error {
			if err := os.Remove(s.path(folder, e.Name())); err != nil {
				return err
			}
			n++
			bytes += info.Size()
			return nil
		}))
	}
	return n, bytes, errors.Join(errs...)
}

// sweepRefsLocked removes references that lead to no image, and half-written records.
func (s *Store) sweepRefsLocked() error {
	var errs []error
	entries, err := os.ReadDir(s.path(refFolder))
	errs = append(errs, err)
	for _, e := range entries {
		var r storedRef
		err := readJSON(s.path(refFolder, e.Name()), &r)
		if err == nil {
			_, err = s.readImage(r.ID)
		}
		if errors.Is(err, ErrNotFound) {
			errs = append(errs, os.Remove(s.path(refFolder, e.Name())))
		}
	}
	left, err := filepath.Glob(s.path(imageFolder, newPrefix+"*"))
	errs = append(errs, err)
	for _, name := range left { // the records' lock is held: nobody writes it
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// sweepLocksLocked removes the files of locks of things that are not there.
func (s *Store) sweepLocksLocked() error {
	entries, err := os.ReadDir(s.path(lockFolder))
	errs := []error{err}
	for _, e := range entries {
		name := e.Name()
		if name == metaLock || s.lockedIsThere(name) {
			continue
		}
		errs = append(errs, s.whileFree(name, func() error { return os.Remove(s.path(lockFolder, name)) }))
	}
	return errors.Join(errs...)
}

func (s *Store) lockedIsThere(lock string) bool {
	paths := []string{s.path(blobFolder, lock), s.path(partFolder, lock+partSuffix)}
	if digits, ok := strings.CutPrefix(lock, rootPrefix); ok {
		paths = []string{s.path(rootFolder, digits), s.path(tempFolder, digits)}
	}
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil {
			return true
		}
	}
	return false
}

// whileFree does something under a lock, or nothing when somebody has it.
func (s *Store) whileFree(lock string, do func() error) error {
	unlock, ok, err := s.tryLock(lock, false)
	if err != nil || !ok {
		return err
	}
	defer unlock()
	return do()
}

// trash takes something away at once; emptyTrash removes it, which may take a while.
func (s *Store) trash(path string) error {
	err := os.Rename(path, s.path(trashFolder, filepath.Base(path)+"-"+rand.Text()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) emptyTrash(ctx context.Context) error {
	entries, err := os.ReadDir(s.path(trashFolder))
	errs := []error{err}
	for _, e := range entries {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...) // the next one goes on
		}
		errs = append(errs, removeTree(s.path(trashFolder, e.Name())))
	}
	return errors.Join(errs...)
}
