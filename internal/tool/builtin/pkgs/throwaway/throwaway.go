// Package throwaway gives tests a machine to throw away: this machine's own programs and
// files, in namespaces of their own, under an overlay in memory. What is installed,
// started or broken in there is gone with the test, and nothing of it reaches the machine.
//
// It needs Linux, root, unshare (util-linux) and overlayfs; without them the test is skipped.
package throwaway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/agent"
)

// GuestEnv is set for the test's own program when it is to serve the guest protocol on its
// standard streams and do nothing else: a package's TestMain looks for it first.
const GuestEnv = "AIRLOCK_THROWAWAY_GUEST"

// A Machine says what is special about a machine. The zero value is a plain one.
type Machine struct {
	// Setup is a script for sh, run in the machine before anything else. Nothing is mounted
	// there but /proc, a /dev of its own with the harmless devices, and empty memory on /run
	// and /tmp.
	Setup string

	// Init is a script that ends by executing what is to be process 1, and Ready one that
	// ends when that is ready. Empty: the guest agent is process 1.
	Init, Ready string
}

const (
	unable     = 97 // exit code: this machine cannot have such a machine in it
	startLimit = 5 * time.Minute
	endLimit   = time.Minute
)

// begin makes the machine: $1 is an empty folder, $2 the test's program, $3 to $5 are Setup,
// Init and Ready.
const begin = `
{
	mount --make-rprivate / &&
	mount -t tmpfs -o mode=755 tmpfs "$1" &&
	mkdir "$1/upper" "$1/work" "$1/root" &&
	mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root" &&
	cd "$1/root" &&
	: >airlock-guest && mount --bind "$2" airlock-guest &&
	mount -t tmpfs -o mode=755 tmpfs dev && mkdir dev/pts dev/shm &&
	for node in null zero full random urandom; do : >dev/$node && mount --bind /dev/$node dev/$node || exit 97; done &&
	mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx &&
	ln -s /proc/self/fd dev/fd && ln -s fd/0 dev/stdin && ln -s fd/1 dev/stdout && ln -s fd/2 dev/stderr &&
	mount -t tmpfs -o mode=1777 tmpfs dev/shm && mount -t proc proc proc &&
	mount -t tmpfs -o mode=755 tmpfs run && mount -t tmpfs -o mode=1777 tmpfs tmp &&
	mkdir -p airlock-old && pivot_root . airlock-old && cd / && umount -l /airlock-old && rmdir /airlock-old
} || exit 97
sh -euc "$3" </dev/null >&2 || exit 1
` + "export " + GuestEnv + `=1
[ -n "$4" ] || exec /airlock-guest
exec 3<&0 4>&1 </dev/null >&2
{ sh -euc "$5" && exec /airlock-guest <&3 >&4; } &
unset ` + GuestEnv + `
exec 3<&- 4>&-
exec sh -euc "$4"
`

// Start makes a machine that lives as long as the test, and connects to its guest agent.
func (m Machine) Start(t testing.TB) *agent.Client {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("a machine to throw away needs Linux and root")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skipf("a machine to throw away needs unshare: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("Executable: %v", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), unshare, "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--cgroup",
		"sh", "-c", begin, "sh", t.TempDir(), self, m.Setup, m.Init, m.Ready)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	said := &bytes.Buffer{}
	cmd.Stderr = said
	cmd.WaitDelay = 5 * time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start unshare: %v", err)
	}
	c := agent.NewClient(&stream{Reader: stdout, in: stdin, out: stdout}, nil)
	var end error
	stop := sync.OnceFunc(func() {
		c.Close() // the agent's end of input, and so its end, and the machine's unless it has an init
		if m.Init != "" {
			killChildren(cmd.Process.Pid)
		}
		late := time.AfterFunc(endLimit, func() { cmd.Process.Kill() })
		end = cmd.Wait()
		late.Stop()
	})
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		stop()
		var exit *exec.ExitError
		if errors.As(end, &exit) && exit.ExitCode() == unable {
			t.Skipf("no machine to throw away can be made here: %s", strings.TrimSpace(said.String()))
		}
		t.Fatalf("the machine did not start: %v, %v\n%s", err, end, said.String())
	}
	return c
}

// killChildren ends unshare's child, which is the machine's process 1: with it end all
// others, and only then unshare, so that nothing of the machine is left when that is gone.
func killChildren(pid int) {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			if p, err := os.FindProcess(child); err == nil {
				p.Kill()
			}
		}
	}
}

// A stream is both standard streams of a process.
type stream struct {
	io.Reader
	in  io.WriteCloser
	out io.Closer
}

func (s *stream) Write(p []byte) (int, error) { return s.in.Write(p) }

func (s *stream) Close() error { return errors.Join(s.in.Close(), s.out.Close()) }
