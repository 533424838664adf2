package journal_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"airlock/internal/tool/bridge/journal"
	"airlock/internal/tool/bridge/setup"
)

// TestMain is also another bridge that logs, when AIRLOCK_TEST_LOG names a file.
func TestMain(m *testing.M) {
	if path := os.Getenv("AIRLOCK_TEST_LOG"); path != "" {
		os.Exit(another(path))
	}
	goleak.VerifyTestMain(m)
}

// another writes AIRLOCK_TEST_LINES lines, without an end where that is 0, and says each
// hundred, at such a length that one that nobody listens to any more stands still before it has
// put aside more files than are kept.
func another(path string) int {
	n, _ := strconv.Atoi(os.Getenv("AIRLOCK_TEST_LINES"))
	if user, err := strconv.Atoi(os.Getenv("AIRLOCK_TEST_USER")); err == nil {
		become(user)
	}
	log, closer, err := journal.Open(&setup.Logging{File: path, Level: "INFO", Rotate: true, MaxBytes: 1 << 10, Backups: 1000})
	for i := 0; err == nil && (n == 0 || i < n); i++ {
		log.Info("a line", "pid", os.Getpid(), "i", i, "end", "here")
		if i%100 == 99 {
			fmt.Printf("%01000d\n", i)
		}
	}
	if err == nil {
		err = closer.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func bridge(t *testing.T, path string, lines int) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "AIRLOCK_TEST_LOG="+path, "AIRLOCK_TEST_LINES="+strconv.Itoa(lines))
	return cmd
}

// all is what a log and those put aside hold, and how many files that is.
func all(t *testing.T, path string) (string, int) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		b.WriteString(read(t, f))
	}
	return b.String(), len(files)
}

// TestSeveralProcesses: bridges that log at once, and put the file aside all the time, lose
// no line and tear none.
func TestSeveralProcesses(t *testing.T) {
	const processes, lines = 4, 300
	path := filepath.Join(t.TempDir(), "bridge.log")
	var running sync.WaitGroup
	for range processes {
		cmd := bridge(t, path, lines)
		running.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a bridge: %v\n%s", err, out)
			}
		})
	}
	running.Wait()
	text, files := all(t, path)
	if files < 10 {
		t.Errorf("%d files; they were to be put aside often", files)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		_, attrs, ok := strings.Cut(line, "a line ")
		if !ok || !strings.HasPrefix(line, "[") || !strings.HasSuffix(line, " end=here\n") || seen[attrs] {
			t.Fatalf("a line is torn, or there twice: %q", line)
		}
		seen[attrs] = true
	}
	if len(seen) != processes*lines {
		t.Errorf("%d lines, want %d", len(seen), processes*lines)
	}
}

// TestKilled: one that is killed while it puts files aside leaves a log that others go on
// with.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.log")
	cmd := bridge(t, path, 0)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for range 5 {
		said.Scan()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	before, _ := all(t, path)
	if out, err := bridge(t, path, 500).CombinedOutput(); err != nil {
		t.Fatalf("the next bridge: %v\n%s", err, out)
	}
	after, _ := all(t, path)
	if was, is := strings.Count(before, "\n"), strings.Count(after, "\n"); was < 500 || is != was+500 {
		t.Errorf("%d lines, and %d behind it; want 500 more", was, is)
	}
}

// rotating opens a log of a few lines a file.
func rotating(t *testing.T, l *setup.Logging) (*slog.Logger, io.Closer) {
	t.Helper()
	if l.File == "" {
		l.File = filepath.Join(t.TempDir(), "bridge.log")
	}
	l.Level = "INFO"
	log, closer, err := journal.Open(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closer.Close() })
	return log, closer
}

func TestRotation(t *testing.T) {
	l := &setup.Logging{Rotate: true, MaxBytes: 100, Backups: 2} // a line has 38 bytes
	log, closer := rotating(t, l)
	for i := range 9 {
		record(slog.LevelInfo, strconv.Itoa(i))(log)
	}
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	for suffix, want := range map[string]string{"": "8", ".1": "67", ".2": "45", ".3": ""} {
		got := ""
		for line := range strings.Lines(read(t, l.File+suffix)) {
			got += line[len(line)-2 : len(line)-1]
		}
		if got != want {
			t.Errorf("bridge.log%s holds the lines %q, want %q", suffix, got, want)
		}
	}
}

func TestRotationThatIsNotToBe(t *testing.T) {
	for name, l := range map[string]*setup.Logging{
		"it is off":                   {Rotate: false, MaxBytes: 100, Backups: 2},
		"nothing would be kept":       {Rotate: true, MaxBytes: 100, Backups: 0},
		"a file may have any length":  {Rotate: true, MaxBytes: 0, Backups: 2},
		"the length makes no sense":   {Rotate: true, MaxBytes: -1, Backups: 2},
		"there are fewer than no one": {Rotate: true, MaxBytes: 100, Backups: -1},
	} {
		t.Run(name, func(t *testing.T) {
			log, closer := rotating(t, l)
			for range 20 {
				log.Info("x")
			}
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
			if text, files := all(t, l.File); files != 1 || strings.Count(text, "\n") != 20 {
				t.Errorf("%d files with %d lines, want one with 20", files, strings.Count(text, "\n"))
			}
		})
	}
}

func TestALineLongerThanAFile(t *testing.T) {
	l := &setup.Logging{Rotate: true, MaxBytes: 10, Backups: 5}
	log, _ := rotating(t, l)
	for range 3 {
		log.Info("x")
	}
	if text, files := all(t, l.File); files != 3 || strings.Count(text, "\n") != 3 {
		t.Errorf("%d files with %d lines, want three with one each", files, strings.Count(text, "\n"))
	}
}

func TestRotationKeepsWhoMayRead(t *testing.T) {
	l := &setup.Logging{Rotate: true, MaxBytes: 100, Backups: 2}
	log, _ := rotating(t, l)
	log.Info("x")
	if err := os.Chmod(l.File, 0o640); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		log.Info("x")
	}
	for _, suffix := range []string{"", ".1", ".2"} {
		if st, err := os.Stat(l.File + suffix); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("bridge.log%s: %v, %v, want mode 0640", suffix, st, err)
		}
	}
}

// TestWhatCannotBePutAside: the log goes on in its file, and what was put aside earlier is
// not pushed out try by try.
func TestWhatCannotBePutAside(t *testing.T) {
	l := &setup.Logging{Rotate: true, MaxBytes: 100, Backups: 3}
	log, closer := rotating(t, l)
	log.Info("the first")
	if err := os.MkdirAll(filepath.Join(l.File+".3", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		record(slog.LevelInfo, strconv.Itoa(i))(log)
	}
	err := closer.Close()
	if err == nil || !strings.Contains(err.Error(), "put it aside") {
		t.Errorf("Close: err = %v, want one that says what failed", err)
	}
	text := read(t, l.File) + read(t, l.File+".1") + read(t, l.File+".2")
	if strings.Count(text, "\n") != 21 || !strings.Contains(text, "the first") {
		t.Errorf("the files hold %d lines, want 21:\n%s", strings.Count(text, "\n"), text)
	}
}

func TestALogThatIsTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"a person removes it":           os.Remove,
		"another program puts it aside": func(p string) error { return os.Rename(p, p+".old") },
		"its folder goes":               func(p string) error { return os.RemoveAll(filepath.Dir(p)) },
		"a file of another is put in its place": func(p string) error {
			if err := os.WriteFile(p+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &setup.Logging{File: filepath.Join(t.TempDir(), "logs", "bridge.log")}
			log, closer := rotating(t, l)
			log.Info("before")
			if err := take(l.File); err != nil {
				t.Fatal(err)
			}
			log.Info("after")
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
			if text := read(t, l.File); !strings.HasSuffix(text, "after\n") {
				t.Errorf("the log holds %q, want the line after", text)
			}
		})
	}
}

func TestManyGoroutines(t *testing.T) {
	l := &setup.Logging{Rotate: true, MaxBytes: 4 << 10, Backups: 1000}
	log, closer := rotating(t, l)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 100 {
				log.Info("x")
			}
		})
	}
	running.Wait()
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	if text, _ := all(t, l.File); strings.Count(text, "\n") != 800 {
		t.Errorf("%d lines, want 800", strings.Count(text, "\n"))
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode()
}
