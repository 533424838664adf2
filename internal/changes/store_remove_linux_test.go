package changes_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveOfFoldersThatLetNobodyIn matters to an ordinary user: TestAsAnOrdinaryUser runs it.
func TestRemoveOfFoldersThatLetNobodyIn(t *testing.T) {
	folders := []string{"outer", "outer/bare", "outer/bare/deep"}
	chmod := func(w *world, root string, mode os.FileMode) {
		for _, name := range folders {
			w.must(os.Chmod(filepath.Join(root, name), mode))
		}
	}
	before := func(w *world, root string) {
		w.write(root, "outer/bare/deep/file", "x")
		w.must(os.Symlink(w.dir, filepath.Join(root, "outer", "link")))
		chmod(w, root, 0o555)
	}
	remove := func(w *world, root string) {
		chmod(w, root, 0o755)
		w.must(os.RemoveAll(filepath.Join(root, "outer")))
	}
	committed := func(t *testing.T) *world {
		w := newWorld(t, before, remove)
		if _, err := w.commit(nil); err != nil {
			t.Fatalf("Commit: %v", err)
		}
		w.isBox()
		w.must(os.Chmod(w.dir, 0o711)) // what the link points to must stay as it is
		return w
	}
	unchanged := func(w *world) {
		info, err := os.Stat(w.dir)
		w.must(err)
		if info.Mode().Perm() != 0o711 {
			w.t.Errorf("a link was followed: mode %v", info.Mode())
		}
	}
	t.Run("Remove opens them", func(t *testing.T) {
		w := committed(t)
		if err := w.store.Remove(testID); err != nil {
			t.Errorf("Remove: %v", err)
		}
		unchanged(w)
		left, err := os.ReadDir(w.sets)
		w.must(err)
		for _, e := range left {
			if e.IsDir() {
				t.Errorf("left behind: %s", e.Name())
			}
		}
	})
	t.Run("what a dead process did not finish is swept", func(t *testing.T) {
		w := committed(t)
		trash := filepath.Join(w.sets, "trash-"+testID)
		w.must(os.Rename(w.store.Dir(testID), trash))
		w.open()
		unchanged(w)
		if _, err := os.Lstat(trash); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the trash is still there: %v", err)
		}
	})
}
