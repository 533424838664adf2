// Package sandboxtest is what every driver of sandboxes must pass. A driver's own tests
// call Run, once for each kind of person that may use it.
package sandboxtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// startLimit bounds a start and each command; a loaded machine is slow.
const startLimit = 2 * time.Minute

// within waits until ok, and reports whether it came to that.
func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Options say what a driver can be asked for.
type Options struct {
	// New makes a driver whose sandboxes may use the folder state.
	New func(t *testing.T, state string) sandbox.Driver
	// Leftovers lists what sandboxes with this state folder have on the machine:
	// processes, mounts, control groups and files.
	Leftovers func(t *testing.T, state string) []string
}

// bench is one test's ground: a driver, and a folder of the host to work in.
type bench struct {
	*testing.T
	opts   *Options
	state  string
	work   string
	driver sandbox.Driver
}

// Run runs the suite.
func Run(t *testing.T, opts *Options) {
	for _, test := range []struct {
		name string
		run  func(*bench)
	}{
		{"a command runs as the person", asPerson},
		{"what a command does is in the upper layer alone", changesStay},
		{"hidden paths do not exist", hidden},
		{"a read-only path cannot be changed", readOnly},
		{"there is no network", noNetwork},
		{"the host's network is there when it is asked for", hostNetwork},
		{"the host's network is all that is there then", hostNetworkOnly},
		{"the host's processes cannot be seen or signalled", noProcesses},
		{"the host's sockets cannot be reached", noSockets},
		{"the agent's connection cannot be reached by commands", agentIsSafe},
		{"devices and mounts of the host cannot be had", noDevices},
		{"passing the memory limit is said to be that", memory},
		{"the process limit holds and the agent goes on", processes},
		{"the processor limit holds", processors},
		{"two sandboxes do not see each other", two},
		{"the upper layer is read while commands still run", busyUpper},
		{"closing twice leaves nothing behind", closeTwice},
		{"a start that is given up leaves nothing behind", givenUp},
		{"a sandbox that ends by itself says so", endsItself},
		{"bad requests are refused by name", refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &bench{T: t, opts: opts, state: t.TempDir(), work: t.TempDir()}
			b.driver = opts.New(t, b.state)
			test.run(b)
			if left := b.opts.Leftovers(t, b.state); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// start makes a sandbox over the host, which the test's end closes.
func (b *bench) start(spec sandbox.Spec) sandbox.Sandbox {
	b.Helper()
	if spec.WorkDir == "" {
		spec.WorkDir = b.work
	}
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	sb, err := b.driver.Start(ctx, &spec)
	if err != nil {
		b.Fatalf("Start: %v", err)
	}
	return sb
}

// close ends a sandbox.
func (b *bench) close(sb sandbox.Sandbox) {
	b.Helper()
	if err := sb.Close(); err != nil {
		b.Errorf("Close: %v", err)
	}
}

// sh runs a shell line as the person.
func (b *bench) sh(sb sandbox.Sandbox, line string) agent.ExecResult {
	b.Helper()
	res, err := b.try(sb, agent.ExecParams{Cmd: line})
	if err != nil {
		b.Fatalf("run %q: %v", line, err)
	}
	return res
}

// try runs a command as the person.
func (b *bench) try(sb sandbox.Sandbox, params agent.ExecParams) (agent.ExecResult, error) {
	ctx, cancel := context.WithTimeout(b.Context(), startLimit)
	defer cancel()
	params.User = sb.Identity()
	if params.Cwd == "" {
		params.Cwd = b.work
	}
	params.Env = map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": b.work}
	return sb.Client().Run(ctx, params, nil)
}

// want runs a shell line and compares what it prints.
func (b *bench) want(sb sandbox.Sandbox, line, out string) {
	b.Helper()
	res := b.sh(sb, line)
	if got := strings.TrimSpace(res.Stdout); got != out {
		b.Errorf("%s: printed %q (stderr %q, exit %d), want %q", line, got, res.Stderr, res.ExitCode, out)
	}
}

// fails runs a shell line that must not succeed.
func (b *bench) fails(sb sandbox.Sandbox, line string) {
	b.Helper()
	if res := b.sh(sb, line); res.ExitCode == 0 {
		b.Errorf("%s: succeeded and printed %q, want a failure", line, res.Stdout)
	}
}

// file makes a file of the host, in the working folder unless name is absolute.
func (b *bench) file(name, content string) string {
	b.Helper()
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(b.work, name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// hostHas compares a file of the host.
func (b *bench) hostHas(path, want string) {
	b.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		b.Errorf("the host's %s = %q, %v, want %q", path, got, err, want)
	}
}
