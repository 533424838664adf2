package diagnose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"airlock/internal/changes"
	"airlock/internal/redact"
)

const (
	runTime   = 10 * time.Second // of one program
	endTime   = time.Second      // for its output to end after it
	maxOutput = 64 << 10         // bytes that are kept of what a program prints
	maxText   = 300              // bytes of a program's words in a finding
)

// What a program is given of the environment: what an agent is, without what its entry adds.
var handedOn = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR"}

// Windows' programs do not start without these.
var handedOnWindows = []string{"SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "PATHEXT", "COMSPEC", "USERPROFILE", "APPDATA", "LOCALAPPDATA"}

func isHandedOn(name string) bool {
	return slices.Contains(handedOn, name) || strings.HasPrefix(name, "LC_") ||
		runtime.GOOS == "windows" && slices.Contains(handedOnWindows, strings.ToUpper(name))
}

// getenv is a variable of the bridge's environment.
func (d *doctor) getenv(name string) (string, bool) {
	for _, kv := range slices.Backward(d.env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// run runs a program for a moment, with input on its stdin, and gives what it printed on
// stdout, or says in a word why it did not work.
func (d *doctor) run(ctx context.Context, input string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	inGroup(cmd)
	cmd.WaitDelay = endTime
	cmd.Env = []string{"PYTHONDONTWRITEBYTECODE=1"}
	for _, kv := range d.env {
		if name, _, _ := strings.Cut(kv, "="); isHandedOn(name) {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	// There an agent runs, too: which version a shim picks may hang on it.
	if d.file != nil {
		cmd.Dir = d.file.Workspace
	}
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	killGroup(cmd) // what it has left behind
	switch {
	case err == nil:
		return stdout.String(), nil
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return "", fmt.Errorf("it did not end within %s", d.limit)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay):
		return stdout.String(), nil // something it started has its output
	}
	if text := complaint(stderr.String()); text != "" {
		return "", errors.New(text)
	}
	return "", err
}

// complaint is the line of what a program says that tells best what is wrong: the last one
// that names an error, else the last one.
func complaint(s string) string {
	for _, line := range slices.Backward(strings.Split(s, "\n")) {
		if strings.Contains(line, "Error: ") || strings.Contains(line, "error: ") {
			return strings.TrimSpace(line)
		}
	}
	return lastLine(s)
}

// lastLine is the last line of what a program says.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// bounded keeps the beginning of what is written, and takes the rest.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room > 0 {
		_, _ = b.Buffer.Write(p[:min(room, len(p))]) // a buffer's never fails
	}
	return len(p), nil
}

// words is text of others' as a finding shows it.
func words(s string) string {
	s = changes.Printable(redact.Text(s))
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// lookPath finds a program in PATH's absolute folders.
func (d *doctor) lookPath(name string) string {
	path, _ := d.getenv("PATH")
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		if runtime.GOOS == "windows" {
			if found, err := exec.LookPath(file); err == nil { // with the ending that it needs
				return found
			}
			continue
		}
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return file
		}
	}
	return ""
}
