package audit_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/audit"
)

func TestUnusableFiles(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		want []string
	}{
		{"what is no database", func(t *testing.T, path string) {
			write(t, path, strings.Repeat("this is a text, not a database\n", 200))
		}, []string{"not a database", "mv ", "a new one is begun"}},
		{"a database of another program", func(t *testing.T, path string) {
			edit(t, path, "CREATE TABLE t (a)")
		}, []string{"another program", "move it away"}},
		{"a record of a later airlock", func(t *testing.T, path string) {
			l, err := audit.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			edit(t, path, "PRAGMA user_version = 2")
		}, []string{"another version of airlock", "format 2"}},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, []string{"no regular file", "move it away"}},
		{"a link", func(t *testing.T, path string) {
			if err := os.Symlink("elsewhere", path); err != nil {
				t.Fatal(err)
			}
		}, []string{"no regular file"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "record.db")
			tt.make(t, path)
			before, _ := os.ReadFile(path)
			l, err := audit.Open(path, nil)
			if err == nil {
				l.Close()
				t.Fatal("Open: err = nil")
			}
			for _, want := range append(tt.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Open: %v, want %q in it", err, want)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("a folder that is a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, "")
		if _, err := audit.Open(filepath.Join(path, "record.db"), nil); err == nil || !strings.Contains(err.Error(), "AIRLOCK_HOME") {
			t.Errorf("Open: err = %v", err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamage: pages that were overwritten are an error, and nothing is removed.
func TestDamage(t *testing.T) {
	path := filled(t)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("damage", 4000)), 4096); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(path, nil)
	if err == nil {
		_, err = l.Verify(t.Context())
		defer l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("err = %v, want a mend", err)
	}
}

func TestFilesAreTheOwners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "record.db")
	l, err := audit.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode: %v, %v", st.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, path, nil)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode: %v, %v", st.Mode(), err)
	}
}

// TestLocked: a program that holds the database does not make Record wait for ever.
func TestLocked(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for five seconds")
	}
	path := filled(t)
	l := open(t, path, nil)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = l.Record(t.Context(), "call", "id", nil)
	if err == nil || !strings.Contains(err.Error(), "another program has held it") || time.Since(began) > 2*time.Minute {
		t.Errorf("Record: err = %v after %s", err, time.Since(began))
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := l.Record(t.Context(), "call", "id", nil); err != nil {
		t.Errorf("Record afterwards: %v", err)
	}
}

func TestClosed(t *testing.T) {
	l, err := audit.Open(filepath.Join(t.TempDir(), "record.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := l.Record(t.Context(), "call", "id", nil); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Record: err = %v, want %v", err, audit.ErrClosed)
	}
}

func TestCanceled(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "record.db"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// It may be written all the same; what it says must be so.
	err := l.Record(ctx, "call", "id", nil)
	rep, verr := l.Verify(t.Context())
	if verr != nil || (err == nil) != (rep.Rows == 1) {
		t.Errorf("Record: err = %v, and there are %d rows (%v)", err, rep.Rows, verr)
	}
}

func TestFollow(t *testing.T) {
	path := filled(t)
	reader, other := open(t, path, nil), open(t, path, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	rows, ended := make(chan audit.Row), make(chan error, 1)
	go func() {
		ended <- reader.Follow(ctx, audit.Filter{Limit: 2, Kinds: []string{"call"}}, func(r audit.Row) error { rows <- r; return nil })
	}()
	for _, want := range []int64{9, 10} {
		if r := <-rows; r.Seq != want {
			t.Errorf("row %d, want %d", r.Seq, want)
		}
	}
	for _, kind := range []string{"run", "call", "call"} {
		if err := other.Record(t.Context(), kind, "new", nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int64{12, 13} {
		if r := <-rows; r.Seq != want || r.ID != "new" {
			t.Errorf("row %d, want %d", r.Seq, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Follow: err = %v", err)
	}
}

func TestQuery(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "record.db"), nil)
	for _, id := range []string{"ab", "abc", "b", "", "a%", "ab\U0010ffff"} {
		if err := l.Record(t.Context(), "call", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 { // more than a page
		if err := l.Record(t.Context(), "run", "many", i); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		filter audit.Filter
		want   int
	}{
		{"everything", audit.Filter{}, 206},
		{"a prefix", audit.Filter{ID: "ab"}, 3},
		{"a prefix with what SQL knows as a pattern", audit.Filter{ID: "a%"}, 1},
		{"a kind", audit.Filter{Kinds: []string{"run"}}, 200},
		{"kinds", audit.Filter{Kinds: []string{"run", "call", "x"}}, 206},
		{"the last", audit.Filter{Limit: 150}, 150},
		{"no kind that there is", audit.Filter{Kinds: []string{"' OR 1 --"}}, 0},
		{"the future", audit.Filter{Since: time.Now().Add(time.Hour)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, last := 0, int64(0)
			err := l.Query(t.Context(), tt.filter, func(r audit.Row) error {
				if r.Seq <= last {
					t.Errorf("row %d after row %d", r.Seq, last)
				}
				n, last = n+1, r.Seq
				return nil
			})
			if err != nil || n != tt.want {
				t.Errorf("%d rows, %v, want %d", n, err, tt.want)
			}
		})
	}
}

// TestTakenAway: nothing is done whose row would be in a file that nobody finds again.
func TestTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"deleted":    os.Remove,
		"moved away": func(path string) error { return os.Rename(path, path+".damaged") },
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".copy", data, 0o600), os.Rename(path+".copy", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "record.db")
			l, err := audit.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := l.Record(t.Context(), "run", "a", "before"); err != nil {
				t.Fatal(err)
			}
			if err := take(path); err != nil {
				t.Skipf("this system does not let an open file be %s: %v", name, err)
			}
			if err := l.Record(t.Context(), "run", "a", "after"); err == nil || !strings.Contains(err.Error(), "taken away or replaced") {
				t.Errorf("Record: err = %v, want one that says so", err)
			}
		})
	}
}
