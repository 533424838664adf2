package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"airlock/internal/sandbox"
)

// Prune removes the records of sandboxes that have ended and what commands that were ended left behind, and
// says what. Images nobody uses are the image store's to remove.
func (m *Manager) Prune(ctx context.Context) ([]string, error) {
	out, err := m.tidy(ctx)
	if err != nil {
		return out, err
	}
	rows, err := m.settle(ctx)
	if err != nil {
		return out, err
	}
	var ids []string
	for _, r := range rows {
		if _, err := os.Lstat(m.expired(r.info.ID)); !r.info.Alive() && err != nil {
			ids = append(ids, r.info.ID)
			out = append(out, "the record of sandbox "+r.info.ID)
		}
	}
	if err := m.forget(ctx, ids); err != nil {
		return nil, err
	}
	return out, nil
}

// Repair removes what nobody owns, beside what every command puts right, and says what it removed.
func (m *Manager) Repair(ctx context.Context) ([]string, error) {
	out, err := m.tidy(ctx)
	if err != nil {
		return out, err
	}
	before, err := m.rows(ctx, "state <> 'destroyed'")
	if err != nil {
		return out, err
	}
	if _, err := m.settle(ctx); err != nil {
		return out, err
	}
	for _, r := range before {
		now, err := m.row(ctx, r.info.ID)
		if err != nil {
			return out, err
		}
		if now != nil && !now.info.Alive() {
			out = append(out, fmt.Sprintf("sandbox %s: %s", now.info.ID, ReasonText(now.info.Reason)))
		}
	}
	swept, err := m.opts.Driver.Sweep(ctx)
	out = append(out, swept...)
	if err != nil {
		return out, fmt.Errorf("clear up after sandboxes: %w", err)
	}
	held, err := m.releaseOrphans(ctx)
	return append(out, held...), err
}

// tidy removes folders that are not whole, and locks that nobody has.
func (m *Manager) tidy(ctx context.Context) ([]string, error) {
	var out []string
	for _, dir := range []string{m.snapshotDir(), m.templateDir()} {
		removed, err := m.clearFolder(dir)
		out = append(out, removed...)
		if err != nil {
			return out, err
		}
	}
	half, err := m.tidyExpired(ctx)
	out = append(out, half...)
	if err != nil {
		return out, err
	}
	entries, err := readDir(filepath.Join(m.opts.Dir, "locks"))
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if h, err := m.tryLock(e.Name(), "tidy", false); err == nil {
			h.release()
		}
	}
	return out, nil
}

// tidyExpired removes what keepers were writing when they were ended. What is whole is somebody's work: it
// stays, also where nobody knows the sandbox any more.
func (m *Manager) tidyExpired(ctx context.Context) ([]string, error) {
	entries, err := readDir(m.expiredDir())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		id := e.Name()[:min(len(e.Name()), idLen)]
		if !sandbox.ValidID(id) || e.Name() == id+".tar" {
			continue
		}
		r, err := m.row(ctx, id)
		if err != nil {
			return out, err
		}
		if r != nil && r.info.Alive() {
			continue // its keeper writes it
		}
		path := filepath.Join(m.expiredDir(), e.Name())
		if err := os.Remove(path); err != nil {
			return out, err
		}
		out = append(out, path)
	}
	return out, nil
}

// releaseOrphans lets go of images that are held for who is no longer there.
func (m *Manager) releaseOrphans(ctx context.Context) ([]string, error) {
	if m.opts.Images == nil {
		return nil, nil
	}
	// In this order: whoever holds an image has its lock, or its row or folder, before.
	owners, err := m.opts.Images.Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out who uses images: %w", err)
	}
	var out []string
	for _, o := range owners {
		key, is := strings.CutPrefix(o, owner(""))
		if !is && !strings.HasPrefix(o, snapshotKey("")) && !strings.HasPrefix(o, templateKey("")) || is && !sandbox.ValidID(key) {
			continue // somebody else's
		}
		h, err := m.tryLock(key, "tidy", false)
		if err != nil {
			continue // somebody is at it
		}
		there, err := m.owns(ctx, o, key, is)
		if err == nil && !there {
			err = m.opts.Images.Release(ctx, o)
			out = append(out, "the image that "+keyText(key)+" held")
		}
		h.release()
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// owns reports whether the owner of an image is there.
func (m *Manager) owns(ctx context.Context, o, key string, isSandbox bool) (bool, error) {
	if isSandbox {
		r, err := m.row(ctx, key)
		return r != nil && r.info.Alive(), err
	}
	dir := m.snapshotDir()
	name, ok := strings.CutPrefix(o, snapshotKey(""))
	if !ok {
		dir, name = m.templateDir(), strings.TrimPrefix(o, templateKey(""))
	}
	if checkName("thing", name) != nil {
		return false, nil
	}
	_, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return true, err
}
