package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"airlock/internal/sandbox"
)

// What lies in the folder of a snapshot or a template.
const (
	metaFile = "meta.json"
	stateDir = "state"   // the checkpoint
	setDir   = "changes" // what Changes keeps there
)

// Snapshot saves memory and files of a sandbox, which goes on. Without a name it gets one, and makes room
// for later ones when there are too many. sandbox.ErrNotSaved says why a state cannot be saved.
func (m *Manager) Snapshot(ctx context.Context, id, name string) (*Snapshot, error) {
	named := name != ""
	if !named {
		name = "auto-" + sandbox.NewID()
	}
	if err := checkName("snapshot", name); err != nil {
		return nil, err
	}
	var snap *Snapshot
	err := m.step(ctx, id, "snapshot", map[string]string{"name": name}, func(ctx context.Context, box *Box) error {
		release, err := m.lock(ctx, snapshotKey(name), "snapshot")
		if err != nil {
			return err
		}
		defer release()
		snap = &Snapshot{Name: name, Named: named, Created: time.Now().UTC(), Sandbox: box.Info}
		return m.save(ctx, box, snap)
	})
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// save makes a snapshot's folder, whole or not at all.
func (m *Manager) save(ctx context.Context, box *Box, snap *Snapshot) error {
	dir := filepath.Join(m.snapshotDir(), snap.Name)
	if _, err := os.Lstat(dir); err == nil {
		return problem("there is a snapshot %s already; take another name, or remove it: airlock sandbox snapshots rm %s", snap.Name, snap.Name)
	}
	need, err := m.need(ctx, box)
	if err != nil {
		return err
	}
	if err := m.makeRoom(ctx, 1, need); err != nil {
		return err
	}
	part := filepath.Join(m.snapshotDir(), tempMark+snapshotKey(snap.Name))
	snap.Size, err = m.fill(ctx, box, part, func() (any, error) {
		snap.Size, err = sizeOf(part)
		if err == nil {
			// It was a guess before.
			err = m.makeRoom(ctx, 1, snap.Size)
		}
		return snap, err
	}, snapshotKey(snap.Name))
	if err != nil {
		return err
	}
	if err := os.Rename(part, dir); err != nil {
		return m.unfill(ctx, part, snapshotKey(snap.Name), err)
	}
	return nil
}

// fill saves a sandbox into a new folder, whose description is what meta gives when all else is there. The image
// is held for the folder's key. When that fails, nothing stays.
func (m *Manager) fill(ctx context.Context, box *Box, part string, meta func() (any, error), key string) (int64, error) {
	state := filepath.Join(part, stateDir)
	err := os.MkdirAll(state, 0o700)
	if err == nil {
		err = box.Checkpoint(ctx, state)
	}
	if err == nil && m.opts.Changes != nil && box.Info.OverHost() {
		if err = os.Mkdir(filepath.Join(part, setDir), 0o700); err == nil {
			err = m.opts.Changes.Saved(ctx, box.ID(), filepath.Join(part, setDir))
		}
	}
	if err == nil && m.opts.Images != nil && box.Info.Image != "" {
		_, err = m.opts.Images.Hold(ctx, box.Info.Digest, key)
	}
	var about any
	if err == nil {
		about, err = meta()
	}
	if err == nil {
		err = writeMeta(filepath.Join(part, metaFile), about)
	}
	var size int64
	if err == nil {
		size, err = sizeOf(part)
	}
	if err == nil {
		err = syncAll(part)
	}
	if err != nil {
		return 0, m.unfill(ctx, part, key, err)
	}
	return size, nil
}

// unfill removes what fill made, and gives the error that says why.
func (m *Manager) unfill(ctx context.Context, part, key string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	err := errors.Join(why, os.RemoveAll(part))
	if m.opts.Images != nil {
		err = errors.Join(err, m.opts.Images.Release(ctx, key))
	}
	return err
}

// Snapshots lists what was saved, the oldest first.
func (m *Manager) Snapshots(ctx context.Context) ([]Snapshot, error) {
	entries, err := readDir(m.snapshotDir())
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		s, err := m.snapshot(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			m.log.WarnContext(ctx, "a snapshot is damaged", "name", e.Name(), "err", err)
			continue
		}
		out = append(out, *s)
	}
	slices.SortStableFunc(out, func(a, b Snapshot) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// InspectSnapshot gives one. *NotFound: there is none of that name.
func (m *Manager) InspectSnapshot(_ context.Context, name string) (*Snapshot, error) {
	if checkName("snapshot", name) != nil {
		return nil, &NotFound{"snapshot", name}
	}
	s, err := m.snapshot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFound{"snapshot", name}
	}
	return s, err
}

func (m *Manager) snapshot(name string) (*Snapshot, error) {
	var s Snapshot
	if err := readMeta(filepath.Join(m.snapshotDir(), name, metaFile), &s); err != nil {
		return nil, err
	}
	s.Name = name
	return &s, nil
}

// RemoveSnapshot removes one, also one whose description cannot be read. Sandboxes that were made from it go on.
func (m *Manager) RemoveSnapshot(ctx context.Context, name string) error {
	if checkName("snapshot", name) != nil {
		return &NotFound{"snapshot", name}
	}
	release, err := m.lock(ctx, snapshotKey(name), "rm")
	if err != nil {
		return err
	}
	defer release()
	if err := m.record(ctx, "snapshot_remove", name, nil); err != nil {
		return err
	}
	return m.drop(ctx, m.snapshotDir(), "snapshot", name, snapshotKey(name))
}

// drop removes a folder under its lock. It loses its name first, so that it is there whole or not at all.
func (m *Manager) drop(ctx context.Context, dir, what, name, key string) error {
	part := filepath.Join(dir, tempMark+key)
	err := os.RemoveAll(part) // somebody was ended while he removed one of that name
	if err == nil {
		err = os.Rename(filepath.Join(dir, name), part)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &NotFound{what, name}
	}
	if err != nil {
		return fmt.Errorf("remove %s %s: %w", what, name, err)
	}
	if m.opts.Images != nil {
		err = m.opts.Images.Release(ctx, key)
	}
	return errors.Join(err, os.RemoveAll(part))
}

// spare is how much stays free on the disk when something is saved.
const spare = 64 << 20

// need is about how much room a sandbox's state takes. It is an error if the disk has not as much.
func (m *Manager) need(ctx context.Context, box *Box) (int64, error) {
	st, err := box.Status(ctx)
	if err != nil {
		return 0, err
	}
	need := max(st.Memory, 0) + max(st.Disk, 0)
	if err := os.MkdirAll(m.opts.Dir, 0o700); err != nil {
		return 0, err
	}
	free, err := freeSpace(m.opts.Dir)
	if err != nil {
		return 0, fmt.Errorf("find out how much room there is in %s: %w", m.opts.Dir, err)
	}
	if free >= 0 && need > free-spare {
		return 0, problem("to save sandbox %s takes about %d MB, and %s has %d MB left; make room on its disk", box.ID(), need>>20, m.opts.Dir, free>>20)
	}
	return need, nil
}

// makeRoom removes the oldest snapshots that nobody named, until so many more of so many bytes have their place. What was
// named is never removed: then the error says what could be.
func (m *Manager) makeRoom(ctx context.Context, number int, size int64) error {
	snaps, err := m.Snapshots(ctx)
	if err != nil {
		return err
	}
	templates, err := m.Templates(ctx)
	if err != nil {
		return err
	}
	used := size
	for _, t := range templates {
		used += t.Size
	}
	for _, s := range snaps {
		used += s.Size
	}
	fits := func() bool {
		return (m.opts.MaxSnapshots < 0 || len(snaps)+number <= m.opts.MaxSnapshots) && (m.opts.MaxBytes < 0 || used <= m.opts.MaxBytes)
	}
	for i := 0; i < len(snaps) && !fits(); {
		s := snaps[i]
		if s.Named || !m.evict(ctx, s.Name) {
			i++
			continue
		}
		used -= s.Size
		snaps = slices.Delete(snaps, i, i+1)
	}
	if fits() {
		return nil
	}
	return fullError(snaps, used, m.opts.MaxSnapshots, m.opts.MaxBytes)
}

// evict removes a snapshot that nobody uses at the moment.
func (m *Manager) evict(ctx context.Context, name string) bool {
	h, err := m.tryLock(snapshotKey(name), "rm", false)
	if err != nil {
		return false
	}
	defer h.release()
	if m.record(ctx, "snapshot_remove", name, map[string]string{"why": "room for another one"}) != nil {
		return false
	}
	return m.drop(ctx, m.snapshotDir(), "snapshot", name, snapshotKey(name)) == nil
}

func fullError(snaps []Snapshot, used int64, number int, most int64) error {
	slices.SortStableFunc(snaps, func(a, b Snapshot) int { return int(min(max(b.Size-a.Size, -1), 1)) })
	var names []string
	for _, s := range snaps[:min(5, len(snaps))] {
		names = append(names, fmt.Sprintf("%s (%d MB)", s.Name, s.Size>>20))
	}
	what := "airlock template rm removes templates"
	if len(names) > 0 {
		what = "remove some: airlock sandbox snapshots rm " + strings.Join(names, ", ")
	}
	return problem("no room for another snapshot: %d are there, and with it they would take %d MB, of %d and %d MB that there may be; %s",
		len(snaps), used>>20, number, most>>20, what)
}
