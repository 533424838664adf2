package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// readDir lists a folder; one that is not there is empty.
func readDir(dir string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// readBounded reads a file of at most so many bytes; what is more is an error.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return text, err
}

// maxMeta bounds a description: an environment and some lists.
const maxMeta = 8 << 20

// readMeta reads a description.
func readMeta(path string, into any) error {
	text, err := readBounded(path, maxMeta)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s cannot be read: %w; remove its folder", path, err)
	}
	return nil
}

// writeMeta writes a description into a folder that is not whole yet.
func writeMeta(path string, from any) error {
	text, err := json.MarshalIndent(from, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// sizeOf adds up the files in a folder.
func sizeOf(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			sum += st.Size()
		}
		return err
	})
	return sum, err
}

// syncAll puts the files of a folder on the disk, so that one that has its name is whole after a power cut.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// replace is exchange in three steps.
func replace(from, to string) error {
	// No lock's key has this in it, so that whoever comes next removes it.
	old := from + "~"
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Rename(old, to))
	}
	return os.RemoveAll(old)
}
