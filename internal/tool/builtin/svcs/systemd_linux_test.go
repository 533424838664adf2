package svcs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/throwaway"
	"airlock/internal/tool/builtin/svcs"
)

// systemdProgram is where systemd lies on Debian, Fedora and their like.
const systemdProgram = "/usr/lib/systemd/systemd"

// systemdMachine has the real systemd as its process 1, with units of its own alone: none
// of this machine's is started.
var systemdMachine = throwaway.Machine{
	Setup: `
rm -rf /etc/systemd/system; mkdir -p /etc/systemd/system /srv/units; cd /srv/units
bare() { printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$1" >"$1"; }
bare basic.target; bare sysinit.target; bare shutdown.target; bare multi-user.target
printf '[Unit]\nRequires=basic.target\nWants=dbus.socket systemd-journald.service\n' >boot.target
# The machine's own bus and journal, as far as they are installed here: without units that
# this one does not have.
cp /usr/lib/systemd/system/systemd-journald.service /usr/lib/systemd/system/systemd-journald.socket .
printf '[Journal]\nStorage=volatile\nReadKMsg=no\n' >/etc/systemd/journald.conf
printf '[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n' >dbus.socket
printf '[Service]\nExecStart=/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile\n' >dbus.service
unit() { printf '[Unit]\nDescription=%s\n[Service]\n%s\n[Install]\nWantedBy=multi-user.target\n' "$2" "$3" >"$1"; }
unit airlock-good.service 'A good service' 'ExecStart=/bin/sleep 1000
ExecReload=/bin/true'
unit airlock-plain.service 'No reload' 'ExecStart=/bin/sleep 1000'
unit airlock-once.service 'Once' 'Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true'
unit airlock-bad.service 'A bad service' 'Type=oneshot
ExecStart=/bin/sh -c "echo no such luck; exit 3"'
unit airlock-slow.service 'Slow' 'Type=oneshot
ExecStart=/bin/sleep 1000'
unit airlock-many@.service 'Many %i' 'ExecStart=/bin/sleep 1000'
echo DefaultInstance=one >>airlock-many@.service
echo DefaultInstance=one >>airlock-many@.service
unit systemd-poweroff.service 'Off' 'ExecStart=/bin/sleep 1000'
ln -s systemd-poweroff.service innocent.service
printf '[Service]\nExecStart=/bin/sleep 1000\n' >airlock-static.service
ln -s /dev/null airlock-masked.service
`,
	// The control groups are its own, in one that can be removed afterwards.
	Init: `
mount -t sysfs sysfs /sys; mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/` + ownCgroup + `; echo 0 >/sys/fs/cgroup/` + ownCgroup + `/cgroup.procs; umount /sys/fs/cgroup
export container=airlock SYSTEMD_UNIT_PATH=/etc/systemd/system:/srv/units
exec unshare --cgroup sh -euc 'mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec ` + systemdProgram + ` --system --unit=boot.target --log-target=null --show-status=no'
`,
	Ready: `
n=0; until [ -S /run/systemd/private ]; do n=$((n+1)); [ $n -lt 6000 ]; sleep 0.05; done
systemctl is-system-running --wait || true
systemctl start dbus.service || true
`,
}

// ownCgroup is the control group that a machine with systemd is in.
var ownCgroup = fmt.Sprintf("airlock-test-%d", os.Getpid())

// newSystemd starts the machine, and tidies up after it.
func newSystemd(t *testing.T) *box {
	t.Helper()
	if _, err := os.Stat(systemdProgram); err != nil {
		t.Skipf("systemd is not installed here: %v", err)
	}
	t.Cleanup(func() { // after the machine has ended
		if err := removeCgroups(); err != nil {
			t.Errorf("the machine's control groups are left: %v", err)
		}
	})
	return newBox(t, systemdMachine)
}

// removeCgroups removes the machine's groups, the innermost first: an empty group is removed
// like an empty folder, whose files do not count.
func removeCgroups() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	var path string
	for line := range strings.SplitSeq(string(own), "\n") {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = rest
		}
	}
	for line := range strings.SplitSeq(string(mounts), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || f[2] != "cgroup2" {
			continue
		}
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(f[1], path, ownCgroup), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			err := os.Remove(dir)
			for until := time.Now().Add(30 * time.Second); errors.Is(err, syscall.EBUSY) && time.Now().Before(until); err = os.Remove(dir) {
				time.Sleep(10 * time.Millisecond) // what was in it is still dying
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func TestSystemd(t *testing.T) {
	b := newSystemd(t)
	t.Run("start waits, and says that it runs", func(t *testing.T) {
		res := b.do(t, "start", "airlock-good", "running")
		if res.Meta[svcs.MetaService] != "airlock-good.service" || res.Meta[svcs.MetaManager] != "systemd" || res.Meta[svcs.MetaEnabled] != "disabled" {
			t.Errorf("meta %v", res.Meta)
		}
		if got := b.sh(t, "systemctl is-active airlock-good"); got != "active\n" {
			t.Errorf("systemctl says %q", got)
		}
	})
	t.Run("restart makes another process of it, reload does not", func(t *testing.T) {
		pid := func() string { return b.sh(t, "systemctl show -P MainPID airlock-good") }
		first := pid()
		b.do(t, "reload", "airlock-good.service", "running")
		if again := pid(); again != first {
			t.Errorf("after reload its process is %s, not %s", again, first)
		}
		b.do(t, "restart", "airlock-good", "running")
		if again := pid(); again == first {
			t.Errorf("after restart its process is %s still", again)
		}
	})
	t.Run("status says what systemctl says", func(t *testing.T) {
		res := b.do(t, "status", "airlock-good", "running")
		if !strings.Contains(res.Stdout, "Active: active (running)") {
			t.Errorf("stdout %q", res.Stdout)
		}
	})
	t.Run("services lists what runs, and on demand the rest", func(t *testing.T) {
		if got, _ := b.list(t, object{}); !strings.Contains(got, "airlock-good.service\trunning\tdisabled\tA good service\n") || strings.Contains(got, "stopped") {
			t.Errorf("services: %q", got)
		}
		if got, meta := b.list(t, object{"filter": "airlock-go?d"}); got != "airlock-good.service\trunning\tdisabled\tA good service\n" || meta[svcs.MetaTotal] != 1 {
			t.Errorf("services: %q, %v", got, meta)
		}
		got, _ := b.list(t, object{"state": "all", "filter": "airlock-*"})
		for _, want := range []string{"airlock-plain.service\tstopped\tdisabled\t", "airlock-masked.service\tstopped\tmasked\t", "airlock-static.service\tstopped\tstatic\t"} {
			if !strings.Contains(got, want) {
				t.Errorf("services: %q, want a line %q", got, want)
			}
		}
		if strings.Contains(got, "@") || strings.Contains(got, "innocent") {
			t.Errorf("services: %q has a template or an alias", got)
		}
		if _, meta := b.list(t, object{"state": "all", "max": 2}); meta[svcs.MetaCount] != 2 || meta[svcs.MetaTruncated] != true {
			t.Errorf("meta %v", meta)
		}
	})
	t.Run("stop ends it", func(t *testing.T) {
		b.do(t, "stop", "airlock-good", "stopped")
		b.do(t, "stop", "airlock-good", "stopped")
		b.do(t, "status", "airlock-good", "stopped")
	})
	t.Run("enable and disable start and stop nothing", func(t *testing.T) {
		if res := b.do(t, "enable", "airlock-good", "stopped"); res.Meta[svcs.MetaEnabled] != "enabled" {
			t.Errorf("meta %v", res.Meta)
		}
		if got := b.sh(t, "readlink /etc/systemd/system/multi-user.target.wants/airlock-good.service"); got != "/srv/units/airlock-good.service\n" {
			t.Errorf("the link is %q", got)
		}
		if res := b.do(t, "disable", "airlock-good", "stopped"); res.Meta[svcs.MetaEnabled] != "disabled" {
			t.Errorf("meta %v", res.Meta)
		}
		if res := b.do(t, "enable", "airlock-static", "stopped"); res.Meta[svcs.MetaEnabled] != "static" {
			t.Errorf("meta %v", res.Meta)
		}
	})
	t.Run("what did its work and ended has exited", func(t *testing.T) {
		b.do(t, "start", "airlock-once", "exited")
	})
	t.Run("a service that fails is reported with its state", func(t *testing.T) {
		var res tool.Result
		for range 5 { // the journal takes a line in when it comes to it, which may be after it was read
			if res = b.fails(t, "start", "airlock-bad", tool.IOError, "its log says why"); strings.Contains(res.Stderr, "no such luck") {
				break
			}
		}
		if res.Meta[svcs.MetaState] != "failed" || !strings.Contains(res.Stderr, "no such luck") {
			t.Errorf("meta %v, stderr %q, want state failed and the service's last words", res.Meta, res.Stderr)
		}
		b.do(t, "status", "airlock-bad", "failed")
		if got, _ := b.list(t, object{"state": "failed"}); !strings.HasPrefix(got, "airlock-bad.service\tfailed\t") {
			t.Errorf("services: %q", got)
		}
	})
	t.Run("instances of a template are services, the template is not", func(t *testing.T) {
		b.do(t, "start", `airlock-many@a\x2db`, "running")
		b.fails(t, "start", "airlock-many@", tool.InvalidArgs, "name an instance, such as airlock-many@1.service")
		b.fails(t, "start", "airlock-none@.service", tool.NotFound, "no such service")
		b.do(t, "enable", "airlock-many@", "stopped")
		if got := b.sh(t, "readlink /etc/systemd/system/multi-user.target.wants/airlock-many@one.service"); got != "/srv/units/airlock-many@.service\n" {
			t.Errorf("the link is %q", got)
		}
		if got, _ := b.list(t, object{}); !strings.Contains(got, "airlock-many@a\\x2db.service\trunning") {
			t.Errorf("services: %q", got)
		}
	})
	t.Run("errors have the code that fits", func(t *testing.T) {
		for _, action := range []string{"start", "stop", "restart", "reload", "status", "enable", "disable"} {
			b.fails(t, action, "airlock-nonesuch", tool.NotFound, "no such service")
		}
		b.fails(t, "start", "airlock-masked", tool.PermissionDenied, "unmask")
		b.do(t, "start", "airlock-plain", "running")
		b.fails(t, "reload", "airlock-plain", tool.InvalidArgs, "restart it")
		b.fails(t, "start", "systemd-poweroff", tool.InvalidArgs, "turning the machine off")
		b.fails(t, "start", "innocent", tool.InvalidArgs, "turning the machine off")
		b.fails(t, "start", "boot.target", tool.InvalidArgs, "is a target, and no service")
	})
	t.Run("an ordinary user is told that root is needed", func(t *testing.T) {
		if _, err := os.Stat("/usr/bin/dbus-daemon"); err != nil {
			t.Skipf("ordinary users reach systemd over the system bus, which is not installed here: %v", err)
		}
		b.machine.User = "nobody"
		defer func() { b.machine.User = "" }()
		b.fails(t, "stop", "airlock-plain", tool.PermissionDenied, "needs root")
	})
	t.Run("a call that takes too long ends, and leaves no systemctl", func(t *testing.T) {
		for _, limit := range []time.Duration{time.Second, 10 * time.Second, time.Minute} { // more where a busy machine has not come to ask for it
			m := svcs.NewManage(&svcs.Options{MaxTime: limit})
			res := m.Invoke(t.Context(), b.machine, tool.Call{Tool: "svc.manage", Action: "start", Args: []byte(`{"service": "airlock-slow"}`)})
			if res.Code() != tool.Timeout || !strings.Contains(res.Stderr, "goes on") {
				t.Errorf("%v %q, want TIMEOUT", res.Meta, res.Stderr)
			}
			if b.sh(t, "systemctl is-active airlock-slow || true") == "activating\n" {
				break
			}
		}
		if left := b.sh(t, "ps ax -o args= | grep '[s]ystemctl' | grep -v defunct || true"); left != "" {
			t.Errorf("left running: %s", left)
		}
		b.do(t, "status", "airlock-slow", "starting")
		b.do(t, "stop", "airlock-slow", "failed") // it never got up
	})
}
