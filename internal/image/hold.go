package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// validOwner reports whether name can be the name of a folder, on every system.
func validOwner(name string) bool {
	if name == "" || len(name) > 128 || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// Hold keeps an image from being removed until owner releases it. An owner is any name of letters,
// digits, '-', '_' and '.', such as a sandbox's ID; it may hold several images, and one
// twice. Holds outlive the process and the machine's restart.
func (s *Store) Hold(ctx context.Context, id, owner string) error {
	if !validOwner(owner) {
		return fmt.Errorf("image %s: %q cannot be an owner's name", short(id), owner)
	}
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err = s.takeLocked(id, "", owner); err != nil {
		return err
	}
	return errors.Join(syncDir(s.path(holdFolder, owner)), syncDir(s.path(holdFolder)))
}

// Release ends all that owner holds. It may hold nothing.
func (s *Store) Release(ctx context.Context, owner string) error {
	if !validOwner(owner) {
		return nil // nobody could hold anything by that name
	}
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.RemoveAll(s.path(holdFolder, owner)); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	return nil
}

// Holders are all owners that hold an image, sorted.
func (s *Store) Holders(ctx context.Context) ([]string, error) {
	unlock, err := s.lockMeta(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := os.ReadDir(s.path(holdFolder))
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	owners := []string{}
	for _, e := range entries {
		held, err := os.ReadDir(s.path(holdFolder, e.Name()))
		if err == nil && len(held) > 0 {
			owners = append(owners, e.Name())
		}
	}
	return owners, nil
}

// writeHold does not wait for the disk: what holds an image only while it runs does not outlive
// the machine either.
func (s *Store) writeHold(id, owner string) error {
	if err := os.Mkdir(s.path(holdFolder, owner), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("hold image %s: %w", short(id), err)
	}
	f, err := os.OpenFile(s.path(holdFolder, owner, hexOf(id)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("hold image %s: %w", short(id), err)
	}
	return f.Close()
}

func (s *Store) holdersOf(id string) []string {
	var owners []string
	entries, _ := os.ReadDir(s.path(holdFolder))
	for _, e := range entries {
		if _, err := os.Lstat(s.path(holdFolder, e.Name(), hexOf(id))); err == nil {
			owners = append(owners, e.Name())
		}
	}
	slices.Sort(owners)
	return owners
}
