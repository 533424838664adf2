package metrics_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/internal/tool/bridge/metrics"
)

// sound is the content of a file of metrics.
func sound(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bridge.db")
	s := metrics.Open(path, config, 0, nil)
	add(s, calls("a", 300, 0)...)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func execute(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), query)
	must(t, errors.Join(err, db.Close()))
}

// TestFilesThatAreNoMetrics: calls go on, the log is told once, and the errors say what to
// do. The file is as it was.
func TestFilesThatAreNoMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(t *testing.T, path string)
		want    string
		damaged bool
	}{
		"text":                          {func(t *testing.T, p string) { must(t, os.WriteFile(p, []byte(strings.Repeat("hello\n", 1000)), 0o600)) }, "move it away", true},
		"half of a file":                {func(t *testing.T, p string) { must(t, os.WriteFile(p, sound(t)[:5000], 0o600)) }, "move it away", true},
		"a database of another program": {func(t *testing.T, p string) { execute(t, p, "CREATE TABLE mine (x)") }, "another program", false},
		"one of a later airlock": {func(t *testing.T, p string) {
			must(t, os.WriteFile(p, sound(t), 0o600))
			execute(t, p, "PRAGMA user_version = 2")
		}, "format 2, this one reads 1", false},
		"a folder": {func(t *testing.T, p string) { must(t, os.Mkdir(p, 0o700)) }, "no regular file", false},
		"a link":   {func(t *testing.T, p string) { must(t, os.Symlink(p+".other", p)) }, "no regular file", false},
		"a file as a folder": {func(t *testing.T, p string) {
			must(t, os.Remove(filepath.Dir(p)))
			must(t, os.WriteFile(filepath.Dir(p), nil, 0o600))
		}, "not a directory", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			c.make(t, path)
			before, _ := os.ReadFile(path) // some of them are no file
			var told bytes.Buffer
			s := metrics.Open(path, config, 0, &metrics.Options{Logger: slog.New(slog.NewTextHandler(&told, nil))})
			for range 3 {
				add(s, calls("a", 1, 0)...)
				if h, err := s.Health(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) && c.want != "not a directory" {
					t.Errorf("Health = %+v, %v, want an error with %q", h, err, c.want)
				}
			}
			if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "metrics: 3") {
				t.Errorf("Close: err = %v, want one that counts three", err)
			}
			if n := strings.Count(told.String(), "\n"); n != 1 {
				t.Errorf("the log was told %d times, want once:\n%s", n, told.String())
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if err := metrics.Check(t.Context(), path); err == nil || metrics.Damaged(err) != c.damaged {
				t.Errorf("Check: err = %v, damaged %v, want %v", err, metrics.Damaged(err), c.damaged)
			}
		})
	}
}

func TestCheckReadsAllOfIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	text := sound(t)
	must(t, os.WriteFile(path, text, 0o600))
	must(t, metrics.Check(t.Context(), path))
	for i := len(text) - 3000; i < len(text)-100; i++ {
		text[i] ^= 0x5a
	}
	must(t, os.WriteFile(path, text, 0o600))
	if err := metrics.Check(t.Context(), path); !metrics.Damaged(err) {
		t.Errorf("Check of a file with a broken page: err = %v, want damage", err)
	}
}

// TestAFileThatIsHeld: to add does not wait for who holds it, and to close waits no longer
// than it may.
func TestAFileThatIsHeld(t *testing.T) {
	path := place(t)
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, sound(t), 0o600))
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	holder, err := db.Conn(t.Context())
	must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	must(t, err)

	s := metrics.Open(path, config, 0, nil)
	start := time.Now()
	for range 100 {
		add(s, calls("a", 300, 0)...)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("to add took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Health(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Health: err = %v, want that its time is over", err)
	}
	start = time.Now()
	err = s.Close(ctx)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("to close took %s", took)
	}
	if err == nil || !strings.Contains(err.Error(), "missing in the bridge's metrics: 30000") {
		t.Errorf("Close: err = %v, want one that counts all of them", err)
	}
}

// TestAFileThatIsMovedAside: the next call begins a new one, or goes into the one that is
// there.
func TestAFileThatIsMovedAside(t *testing.T) {
	for name, c := range map[string]struct {
		there []byte
		want  int64
	}{
		"nothing comes in its place": {nil, 1},
		"another one does":           {sound(t), 301},
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			s := open(t, path, nil)
			add(s, calls("a", 2, 0)...)
			health(t, s)
			for _, end := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(path+end, path+".aside"+end); err != nil && end == "" {
					t.Fatal(err)
				}
			}
			if c.there != nil {
				must(t, os.WriteFile(path, c.there, 0o600))
			}
			add(s, calls("a", 1, 0)...)
			if h := health(t, s); h.TotalCalls != c.want {
				t.Errorf("Health = %+v, want %d calls", h, c.want)
			}
			must(t, s.Close(t.Context()))
			if n := rows(t, path+".aside"); n != 2 {
				t.Errorf("%d rows in the one that was moved, want 2", n)
			}
		})
	}
}

// TestFilesWithBrokenBytes: whatever they hold, nothing hangs or breaks down, and who is told
// that all is well has the call that was added. It is no fuzz target, since SQLite built
// for one does a few files a second.
func TestFilesWithBrokenBytes(t *testing.T) {
	whole := sound(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		text := bytes.Clone(whole[:len(whole)-i%4*1000])
		for range 1 + i {
			// The first page says how the others are to be read.
			text[random.IntN(min(len(text), 100+random.IntN(len(text))))] = byte(random.Uint32())
		}
		path := filepath.Join(t.TempDir(), "bridge.db")
		must(t, os.WriteFile(path, text, 0o600))
		_ = metrics.Check(t.Context(), path) // what it finds hangs on the bytes
		s := metrics.Open(path, config, 0, nil)
		add(s, calls("a", 1, 0)...)
		h, err := s.Health(t.Context())
		if err == nil && h.TotalCalls < 1 {
			t.Errorf("file %d: Health = %+v, without the call that was added", i, h)
		}
		if closed := s.Close(t.Context()); closed != nil && err == nil {
			t.Errorf("file %d: Close: %v, after a Health that was well", i, closed)
		}
	}
}
