package svcs_test

import (
	"os/exec"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs/throwaway"
	"airlock/internal/tool/builtin/svcs"
)

// openrcMachine has OpenRC's own folders as they are once it has booted, and scripts of
// its own alone.
var openrcMachine = throwaway.Machine{Setup: `
rm -rf /etc/init.d /etc/runlevels; mkdir -p /etc/init.d /etc/runlevels/default /etc/runlevels/boot /etc/runlevels/sysinit
cd /run; mkdir openrc; cd openrc
mkdir daemons exclusive failed hotplugged inactive init.d options scheduled started starting stopping stopped tmp wasinactive
echo default >softlevel
cd /etc/init.d
printf '#!/sbin/openrc-run\ndescription="A good one"\ncommand=/run/airlock-sleep\ncommand_args=1000\ncommand_background=yes\npidfile=/run/good.pid\nextra_started_commands=reload\nreload() { :; }\n# What was ended is there until process 1 has collected it, and start takes it for running.\nstop_post() { n=0; while pgrep -x airlock-sleep >/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done; }\n' >airlock-good
cp /bin/sleep /run/airlock-sleep
printf '#!/sbin/openrc-run\ncommand=/bin/sleep\ncommand_args=1000\ncommand_background=yes\npidfile=/run/plain.pid\n' >airlock-plain
printf '#!/sbin/openrc-run\nstart() { echo no such luck >&2; return 1; }\n' >airlock-bad
printf '#!/sbin/openrc-run\nstatus() { echo crashed; return 32; }\n' >airlock-crashed
printf '#!/sbin/openrc-run\nstart() { :; }\n' >halt
chmod 755 *
`}

func TestOpenRC(t *testing.T) {
	for _, p := range []string{"/sbin/rc-service", "/sbin/openrc-run"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("OpenRC is not installed here: %v", err)
		}
	}
	b := newBox(t, openrcMachine)
	t.Run("start, reload, restart and stop do so", func(t *testing.T) {
		b.do(t, "status", "airlock-good", "stopped")
		res := b.do(t, "start", "airlock-good", "running")
		if res.Meta[svcs.MetaManager] != "openrc" || res.Meta[svcs.MetaEnabled] != "disabled" {
			t.Errorf("meta %v", res.Meta)
		}
		first := b.sh(t, "cat /run/good.pid")
		b.do(t, "reload", "airlock-good", "running")
		b.do(t, "restart", "airlock-good", "running")
		if again := b.sh(t, "cat /run/good.pid"); again == first {
			t.Errorf("after restart its process is %s still", again)
		}
		if res := b.do(t, "status", "airlock-good", "running"); !strings.Contains(res.Stdout, "started") {
			t.Errorf("stdout %q", res.Stdout)
		}
		if got, _ := b.list(t, object{}); got != "airlock-good\trunning\tdisabled\t\n" {
			t.Errorf("services: %q", got)
		}
		b.do(t, "stop", "airlock-good", "stopped")
	})
	t.Run("a service that says of itself that it crashed has failed", func(t *testing.T) {
		b.do(t, "status", "airlock-crashed", "failed")
	})
	t.Run("enable and disable start and stop nothing", func(t *testing.T) {
		if res := b.do(t, "enable", "airlock-good", "stopped"); res.Meta[svcs.MetaEnabled] != "enabled" {
			t.Errorf("meta %v", res.Meta)
		}
		b.do(t, "enable", "airlock-good", "stopped")
		if got := b.sh(t, "ls /etc/runlevels/default"); got != "airlock-good\n" {
			t.Errorf("the runlevel default has %q", got)
		}
		if got, _ := b.list(t, object{"state": "all"}); !strings.Contains(got, "airlock-good\tstopped\tenabled\t\n") || !strings.Contains(got, "airlock-bad\tstopped\tdisabled\t\n") {
			t.Errorf("services: %q", got)
		}
		if res := b.do(t, "disable", "airlock-good", "stopped"); res.Meta[svcs.MetaEnabled] != "disabled" {
			t.Errorf("meta %v", res.Meta)
		}
	})
	t.Run("errors have the code that fits", func(t *testing.T) {
		b.fails(t, "start", "airlock-bad", tool.IOError, "no such luck")
		b.do(t, "start", "airlock-plain", "running")
		b.fails(t, "reload", "airlock-plain", tool.InvalidArgs, "restart it")
		for _, action := range []string{"start", "status", "enable"} {
			b.fails(t, action, "airlock-nonesuch", tool.NotFound, "no such service")
		}
		b.fails(t, "start", "halt", tool.InvalidArgs, "turning the machine off")
		b.machine.User = "nobody"
		defer func() { b.machine.User = "" }()
		b.fails(t, "stop", "airlock-plain", tool.PermissionDenied, "needs root")
	})
}
