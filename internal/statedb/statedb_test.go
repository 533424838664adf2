package statedb_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/internal/statedb"
)

const one = "CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT"

func things(steps ...string) *statedb.Format {
	// A process that has the file may stand still for longer than a person would wait.
	return &statedb.Format{What: "the list of things", ID: 0x54484e47, Steps: append([]string{one}, steps...), Wait: 2 * time.Minute}
}

func TestMain(m *testing.M) {
	if path := os.Getenv("STATEDB_TEST_PATH"); path != "" {
		work := writer
		if os.Getenv("STATEDB_TEST_SHORT") != "" {
			work = visitor
		}
		if err := work(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writer adds 50 things, each in a transaction.
func writer(path string) error {
	ctx := context.Background()
	d, err := statedb.Open(ctx, path, things())
	if err != nil {
		return err
	}
	for range 50 {
		if err := add(ctx, d, "x"); err != nil {
			return err
		}
	}
	return d.Close()
}

// visitor comes and goes, as short commands do: the first and the last of a file change its mode.
func visitor(path string) error {
	for range 20 {
		ctx := context.Background()
		d, err := statedb.Open(ctx, path, things())
		if err != nil {
			return err
		}
		if err := add(ctx, d, "x"); err != nil {
			return err
		}
		read := d.Read(ctx, func(tx *statedb.Tx) error {
			return tx.Row(ctx, []any{new(int)}, "SELECT count(*) FROM thing")
		})
		if err := errors.Join(read, d.Close()); err != nil {
			return err
		}
	}
	return nil
}

func add(ctx context.Context, d *statedb.DB, name string) error {
	return d.Write(ctx, func(tx *statedb.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO thing (name) VALUES (?)", name)
		return err
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string, f *statedb.Format) *statedb.DB {
	t.Helper()
	d, err := statedb.Open(t.Context(), path, f)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func names(t testing.TB, d *statedb.DB) (out []string) {
	t.Helper()
	must(t, d.Read(t.Context(), func(tx *statedb.Tx) error {
		return tx.Each(t.Context(), func(scan func(...any) error) error {
			var s string
			err := scan(&s)
			out = append(out, s)
			return err
		}, "SELECT name FROM thing ORDER BY id")
	}))
	return out
}

// sound is the content of a file of 300 things.
func sound(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	d := open(t, path, things())
	must(t, d.Write(t.Context(), func(tx *statedb.Tx) error {
		for range 300 {
			if _, err := tx.Exec(t.Context(), "INSERT INTO thing (name) VALUES (?)", strings.Repeat("n", 50)); err != nil {
				return err
			}
		}
		return nil
	}))
	must(t, d.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

func execute(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), query)
	must(t, errors.Join(err, db.Close()))
}

func TestTheFileIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "x.db")
	d := open(t, path, things())
	must(t, add(t.Context(), d, "a"))
	if runtime.GOOS != "windows" {
		for _, end := range []string{"", "-wal", "-shm"} {
			if st, err := os.Stat(path + end); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v, want mode 0600", path+end, st, err)
			}
		}
	}
	must(t, d.Close())
	must(t, d.Close())
	must(t, os.Chmod(path, 0o644))
	d = open(t, path, things())
	if st, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || st.Mode().Perm() != 0o600) {
		t.Errorf("opened again: %v, %v, want mode 0600", st, err)
	}
	if got := names(t, d); len(got) != 1 {
		t.Errorf("it holds %q", got)
	}
}

func TestAFormatIsBroughtUpToDate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	old := open(t, path, things())
	must(t, add(t.Context(), old, "a"))
	// A step that fails leaves the file as it is.
	_, err := statedb.Open(t.Context(), path, things("ALTER TABLE thing ADD COLUMN size INTEGER NOT NULL DEFAULT 7", "nonsense"))
	if err == nil || !strings.Contains(err.Error(), "format 3") {
		t.Errorf("Open: err = %v, want that format 3 failed", err)
	}
	if got := names(t, old); len(got) != 1 {
		t.Errorf("it holds %q", got)
	}
	newer := things("ALTER TABLE thing ADD COLUMN size INTEGER NOT NULL DEFAULT 7", "CREATE TABLE other (id INTEGER) STRICT")
	var opening sync.WaitGroup
	for range 8 { // each step is taken once
		opening.Go(func() {
			d, err := statedb.Open(t.Context(), path, newer)
			if err != nil {
				t.Errorf("Open: err = %v", err)
				return
			}
			d.Close()
		})
	}
	opening.Wait()
	d := open(t, path, newer)
	size := 0
	must(t, d.Read(t.Context(), func(tx *statedb.Tx) error {
		return tx.Each(t.Context(), func(scan func(...any) error) error { return scan(&size) }, "SELECT size FROM thing")
	}))
	if size != 7 {
		t.Errorf("size = %d, want 7", size)
	}
	if _, err := statedb.Open(t.Context(), path, things()); err == nil || !strings.Contains(err.Error(), "format 3, this one reads 1") {
		t.Errorf("Open with an older program: err = %v", err)
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(t *testing.T, path string)
		want    string
		damaged bool
	}{
		"text":                          {func(t *testing.T, p string) { must(t, os.WriteFile(p, []byte(strings.Repeat("hello\n", 1000)), 0o600)) }, "move it away", true},
		"half of a file":                {func(t *testing.T, p string) { must(t, os.WriteFile(p, sound(t)[:5000], 0o600)) }, "move it away", true},
		"a database of another program": {func(t *testing.T, p string) { execute(t, p, "CREATE TABLE mine (x)") }, "another program", false},
		"another one of airlock's": {func(t *testing.T, p string) {
			execute(t, p, "CREATE TABLE x (y); PRAGMA application_id = 7; PRAGMA user_version = 1")
		}, "another program", false},
		"a folder": {func(t *testing.T, p string) { must(t, os.Mkdir(p, 0o700)) }, "no regular file", false},
		"a link":   {func(t *testing.T, p string) { must(t, os.Symlink(p+".other", p)) }, "no regular file", false},
		"a file as a folder": {func(t *testing.T, p string) {
			must(t, os.Remove(filepath.Dir(p)))
			must(t, os.WriteFile(filepath.Dir(p), nil, 0o600))
		}, "not a directory", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "x.db")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			c.make(t, path)
			before, _ := os.ReadFile(path) // some are no files
			d, err := statedb.Open(t.Context(), path, things())
			if err == nil {
				// Only its first page is read then.
				err = errors.Join(d.Close(), statedb.Check(t.Context(), path, things()))
			}
			if _, ok := errors.AsType[*statedb.FileError](err); !ok || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the list of things "+path) {
				t.Errorf("Open: err = %v, want a FileError with %q", err, c.want)
			}
			if err := statedb.Check(t.Context(), path, things()); err == nil || statedb.Damaged(err) != c.damaged {
				t.Errorf("Check: err = %v, damaged %v, want %v", err, statedb.Damaged(err), c.damaged)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestCheckReadsAllOfIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	must(t, statedb.Check(t.Context(), path, things()))
	text := sound(t)
	must(t, os.WriteFile(path, text, 0o600))
	must(t, statedb.Check(t.Context(), path, things()))
	for i := len(text) - 3000; i < len(text)-100; i++ {
		text[i] ^= 0x5a
	}
	must(t, os.WriteFile(path, text, 0o600))
	if err := statedb.Check(t.Context(), path, things()); !statedb.Damaged(err) {
		t.Errorf("Check of a file with a broken page: err = %v, want damage", err)
	}
}

// TestFilesWithBrokenBytes: whatever they hold, nothing hangs or breaks down. It is no fuzz target, since
// SQLite built for one does a few files a second.
func TestFilesWithBrokenBytes(t *testing.T) {
	whole := sound(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		text := bytes.Clone(whole[:len(whole)-i%4*1000])
		for range 1 + i {
			// The first page says how the others are to be read.
			text[random.IntN(min(len(text), 100+random.IntN(len(text))))] = byte(random.Uint32())
		}
		path := filepath.Join(t.TempDir(), "x.db")
		must(t, os.WriteFile(path, text, 0o600))
		d, err := statedb.Open(t.Context(), path, things())
		if err != nil {
			continue
		}
		if err := add(t.Context(), d, "mine"); err == nil && statedb.Check(t.Context(), path, things()) == nil {
			if got := names(t, d); got[len(got)-1] != "mine" && !strings.Contains(strings.Join(got, " "), "mine") {
				t.Errorf("file %d: what was added is not there", i)
			}
		}
		_ = d.Close() // what comes of it hangs on the bytes
	}
}

func TestSeveralProcessesWriteAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "STATEDB_TEST_PATH="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a writer: %v\n%s", err, out)
			}
		})
	}
	running.Go(func() {
		if err := writer(path); err != nil {
			t.Error(err)
		}
	})
	running.Wait()
	if got := names(t, open(t, path, things())); len(got) != 250 {
		t.Errorf("it holds %d, want 250", len(got))
	}
}

func TestProcessesThatComeAndGoHoldNobodyUp(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "things.db")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), "STATEDB_TEST_PATH="+path, "STATEDB_TEST_SHORT=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
}

func TestAFileThatIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	d := open(t, path, things())
	other, err := sql.Open("sqlite", path)
	must(t, err)
	defer other.Close()
	holder, err := other.Conn(t.Context())
	must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)

	names(t, d)                                                                                                  // to read does not wait
	for _, after := range []time.Duration{45 * time.Millisecond, 50 * time.Millisecond, 55 * time.Millisecond} { // SQLite itself waits for 50 ms
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if err := add(ctx, d, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write with %v: err = %v, want that its time is over", after, err)
		}
		cancel()
	}
	written := make(chan error, 1)
	go func() { written <- add(t.Context(), d, "b") }()
	_, err = holder.ExecContext(t.Context(), "COMMIT")
	must(t, err)
	must(t, <-written)
	if got := names(t, d); len(got) != 1 || got[0] != "b" {
		t.Errorf("it holds %q", got)
	}
}

func TestWhatFailsIsNotWritten(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "x.db"), things())
	why := errors.New("I do not want it")
	err := d.Write(t.Context(), func(tx *statedb.Tx) error {
		if _, err := tx.Exec(t.Context(), "INSERT INTO thing (name) VALUES ('a')"); err != nil {
			return err
		}
		return why
	})
	if err != why { //nolint:errorlint // it comes as it is
		t.Errorf("Write: err = %v, want %v itself", err, why)
	}
	err = d.Write(t.Context(), func(tx *statedb.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO nothing VALUES (1)")
		return err
	})
	if _, ok := errors.AsType[*statedb.FileError](err); !ok {
		t.Errorf("Write: err = %v, want a FileError", err)
	}
	must(t, add(t.Context(), d, "b"))
	if got := names(t, d); len(got) != 1 || got[0] != "b" {
		t.Errorf("it holds %q", got)
	}
}

func TestAFileThatIsMovedAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	d := open(t, path, things())
	must(t, add(t.Context(), d, "a"))
	must(t, os.Rename(path, path+".aside"))
	if err := add(t.Context(), d, "b"); !statedb.Moved(err) {
		t.Errorf("Write: err = %v, want that the file has gone", err)
	}
	other := open(t, path, things())
	must(t, add(t.Context(), other, "c"))
	if err := add(t.Context(), d, "b"); !statedb.Moved(err) || !strings.Contains(err.Error(), "try again") {
		t.Errorf("Write: err = %v, want that another file is there", err)
	}
}

func TestAFileThatIsHeldIsWaitedForAsLongAsItsFormatSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	f := things()
	f.Wait = 60 * time.Millisecond
	d := open(t, path, f)
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	holder, err := db.Conn(t.Context())
	must(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	for try := 1; ; try++ {
		begun := time.Now()
		err = add(t.Context(), d, "a")
		took := time.Since(begun)
		if took > 5*time.Second && try < 5 {
			continue // a machine that stands still may take that long once
		}
		if err == nil || !strings.Contains(err.Error(), "held it for more than 60ms") || took < f.Wait || took > 5*time.Second {
			t.Errorf("Write: err = %v after %s, want that it is held, after %s", err, took, f.Wait)
		}
		break
	}
	_, err = holder.ExecContext(t.Context(), "ROLLBACK")
	must(t, err)
	must(t, add(t.Context(), d, "a"))
}

func TestRow(t *testing.T) {
	d := open(t, filepath.Join(t.TempDir(), "x.db"), things())
	must(t, add(t.Context(), d, "a"))
	must(t, add(t.Context(), d, "b"))
	for name, c := range map[string]struct {
		query, want string
		check       func(err error) bool
	}{
		"the first row is read":      {"SELECT name FROM thing ORDER BY id", "a", func(err error) bool { return err == nil }},
		"no row is an error":         {"SELECT name FROM thing WHERE id > 2", "", func(err error) bool { return errors.Is(err, sql.ErrNoRows) }},
		"others say what file it is": {"SELECT no FROM thing", "", func(err error) bool { _, ok := errors.AsType[*statedb.FileError](err); return ok }},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			err := d.Read(t.Context(), func(tx *statedb.Tx) error { return tx.Row(t.Context(), []any{&got}, c.query) })
			if !c.check(err) || got != c.want {
				t.Errorf("Row = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
