package audit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"airlock/internal/audit"
	"airlock/internal/leaktest"
)

// TestMain is also another airlock that writes: AIRLOCK_TEST_WRITES is how many rows, 0 for
// without an end.
func TestMain(m *testing.M) {
	if path := os.Getenv("AIRLOCK_TEST_RECORD"); path != "" {
		os.Exit(writeRows(path))
	}
	leaktest.Main(m)
}

func writeRows(path string) int {
	n, _ := strconv.Atoi(os.Getenv("AIRLOCK_TEST_WRITES"))
	l, err := audit.Open(path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for i := 0; n == 0 || i < n; i++ {
		if err := l.Record(context.Background(), "call", "pid"+strconv.Itoa(os.Getpid()), i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(i) // it is durable now
	}
	if err := l.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func writer(t *testing.T, path string, rows int) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "AIRLOCK_TEST_RECORD="+path, "AIRLOCK_TEST_WRITES="+strconv.Itoa(rows))
	return cmd
}

func TestSeveralProcesses(t *testing.T) {
	const processes, rows = 3, 100
	path := filepath.Join(t.TempDir(), "record.db") // each of them tries to make it
	var all sync.WaitGroup
	for range processes {
		cmd := writer(t, path, rows)
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a writer: %v\n%s", err, out)
			}
		})
	}
	all.Wait()
	l := open(t, path, nil)
	rep, err := l.Verify(t.Context())
	if err != nil || rep.Rows != processes*rows {
		t.Errorf("Verify = %+v, %v, want %d rows", rep, err, processes*rows)
	}
	if ids, err := l.IDs(t.Context(), "pid", 10); err != nil || len(ids) != processes {
		t.Errorf("IDs = %v, %v", ids, err)
	}
}

// TestKill: a process that is killed while it writes loses no row that it was told is
// durable, and leaves a chain.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.db")
	for round := range 5 {
		cmd := writer(t, path, 0)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var failure bytes.Buffer
		cmd.Stderr = &failure
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last := -1
		for lines := bufio.NewScanner(out); last < 20*(round+1) && lines.Scan(); {
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if last < 20*(round+1) {
			t.Fatalf("the writer ended by itself: %s", failure.String())
		}
		l := open(t, path, nil)
		if _, err := l.Verify(t.Context()); err != nil {
			t.Fatalf("Verify after a kill: %v", err)
		}
		n := 0
		err = l.Query(t.Context(), audit.Filter{ID: "pid" + strconv.Itoa(cmd.Process.Pid)}, func(audit.Row) error { n++; return nil })
		if err != nil || n <= last {
			t.Errorf("%d rows are left (%v), and %d were durable", n, err, last+1)
		}
	}
}

// TestSecretsStayOut: none reaches the database, its log, or what was in between.
func TestSecretsStayOut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "record.db"), nil)
	secret := "hunter2" + strings.Repeat("Zq", 10)
	token := "ghp" + "_" + strings.Repeat("aB3dE6", 6)
	for _, data := range []any{
		map[string]any{"argv": []string{"mysql", "--password", secret}},
		map[string]any{"env": map[string]string{"DB_PASSWORD": secret}},
		map[string]any{"stdout": strings.Repeat("x", 20<<10) + "\npassword: " + secret + "\n" + strings.Repeat("y", 1<<20)},
		map[string]any{token: token},
		token,
		[]string{"TOKEN=" + secret},
	} {
		if err := l.Record(t.Context(), "call", "id", data); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files: %q, %v; want the database and its log", files, err)
	}
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{secret, token} {
			if bytes.Contains(content, []byte(s)) {
				t.Errorf("%s holds a secret", filepath.Base(f))
			}
		}
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", filepath.Base(f), st.Mode())
		}
	}
}
