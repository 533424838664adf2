package manager_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/sandbox/manager"
)

func TestWhatIsHiddenNowIsNotSeenByWhatGoesOnFromBefore(t *testing.T) {
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, path string)
		fails bool
	}{
		{"a file that is hidden and was not there", func(t *testing.T, path string) { writeFile(t, path) }, true},
		{"a folder with such a file", func(t *testing.T, path string) {
			if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(path, "below", "key"))
		}, true},
		{"a link", func(t *testing.T, path string) {
			if err := os.Symlink("/etc/passwd", path); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a folder with a socket alone is of no use to anybody", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("unix", filepath.Join(path, "s"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}, false},
		{"nothing", func(*testing.T, string) {}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			secret := filepath.Join(t.TempDir(), "k")
			m := w.manager(t, func(o *manager.Options) {
				o.View = func(work string, hide, _ []string) (string, []string, error) {
					if _, err := os.Lstat(secret); err == nil {
						hide = append(hide, secret)
					}
					return work, hide, nil
				}
			})
			box := create(t, m)
			if _, err := m.Snapshot(t.Context(), box.ID(), "s"); err != nil {
				t.Fatal(err)
			}
			tt.make(t, secret)
			again, err := m.Restore(t.Context(), "s", nil)
			if err == nil {
				_ = again.Release()
			}
			_, refused := errors.AsType[*manager.Problem](err)
			if refused != tt.fails || refused && !strings.Contains(err.Error(), secret) {
				t.Errorf("Restore: err = %v, want that it is refused: %v", err, tt.fails)
			}
			if err != nil && !refused {
				t.Error(err)
			}
		})
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
}
