package changes_test

import (
	"os"
	"path/filepath"
	"testing"

	"airlock/internal/changes"
)

// Somebody who may rename in a folder puts a file of their own where a commit prepares
// one: it must not get the mode, and with it the owner and the set-uid bit, of what was
// to be there.
func TestASwappedTemporaryFileGetsNoRights(t *testing.T) {
	w := newWorld(t, small, smallChanged)
	planted := filepath.Join(w.dir, "planted")
	w.must(os.WriteFile(planted, []byte("new"), 0o600))
	w.must(os.Chmod(planted, 0o640))
	before, err := os.Stat(planted)
	w.must(err)
	o := &changes.CommitOptions{Root: w.host}
	swapped := false
	o.OnStep(func(name string) {
		if name != "finish /w/edit" {
			return
		}
		temporary, _ := filepath.Glob(w.host + "/w/.airlock-*")
		for _, name := range temporary {
			if data, err := os.ReadFile(name); err == nil && string(data) == "new" {
				w.must(os.Rename(planted, name))
				swapped = true
			}
		}
	}, false)
	_, committed := w.store.Commit(t.Context(), testID, o)
	if !swapped {
		t.Fatal("the temporary file was not found")
	}
	found := false
	w.must(filepath.Walk(w.dir, func(path string, now os.FileInfo, err error) error {
		if err == nil && os.SameFile(before, now) {
			found = true
			if now.Mode() != before.Mode() {
				t.Errorf("%s has mode %v now, not %v (Commit: %v)", path, now.Mode(), before.Mode(), committed)
			}
		}
		return nil
	}))
	if !found {
		t.Error("the planted file is nowhere")
	}
}
