package pkgs_test

import (
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs"
)

// apkScript and brewScript stand in for the two managers that cannot be installed on Debian.
// They keep a list of what is installed, and write what the real ones write where people have
// quoted it: apk's in reports to chainguard-images/images (#298), malwarepad/cavOS (#33) and
// alpinelinux/alpine-make-rootfs (#21), brew's in those to Homebrew/brew (#1163). The forms of
// their lists and searches are those of the manuals. They prove what they are asked for and
// how such answers are read, not that the real ones agree.
const apkScript = `
mkdir -p /srv; : >/srv/installed; rm -f /etc/os-release; echo ID=alpine >/etc/os-release
cat >/usr/local/bin/apk <<'END'
#!/bin/sh
echo "$*" >>/srv/asked
[ "$1" != --no-progress ] || shift
dry=; [ "$1" != --simulate ] || { dry=1; shift; }
[ $(id -u) = 0 ] || case $1 in add|del|update|upgrade)
	echo 'ERROR: Unable to lock database: Permission denied' >&2; echo 'ERROR: Failed to open apk database: Permission denied' >&2; exit 99;;
esac
verb=$1; shift
case $verb in
update) echo 'OK: 23033 distinct packages available';;
info) cat /srv/installed;;
search) echo 'busybox-1.36.0-r0 - Size optimized toolbox';;
add)
	while [ "$1" = -- ] || [ "$1" = --upgrade ]; do shift; done
	[ "$1" = busybox ] || { printf 'ERROR: unable to select packages:\n  %s (no such package):\n    required by: world[%s]\n' "$1" "$1" >&2; exit 1; }
	echo '(1/1) Installing busybox (1.36.0-r0)'; echo 'Executing busybox-1.36.0-r0.trigger'; echo 'OK: 179 MiB in 21 packages'
	[ -n "$dry" ] || echo busybox-1.36.0-r0 >/srv/installed;;
del) echo '(1/1) Purging busybox (1.36.0-r0)'; [ -n "$dry" ] || : >/srv/installed;;
upgrade) echo 'OK: 179 MiB in 21 packages';;
esac
END
chmod 755 /usr/local/bin/apk; chmod 666 /srv/installed; : >/srv/asked; chmod 666 /srv/asked
`

func TestApk(t *testing.T) {
	b := newBox(t, apkScript)
	b.do(t, "update", object{})
	res := b.do(t, "install", object{"packages": []string{"busybox"}})
	if res.Meta[pkgs.MetaManager] != "apk" || res.Meta[pkgs.MetaSimulated] != true {
		t.Errorf("meta %v", res.Meta)
	}
	wantNames(t, b.do(t, "install", names("busybox")), pkgs.MetaInstalled, "busybox")
	if got := b.listed(t, "*"); got != "busybox\t1.36.0-r0\n" {
		t.Errorf("installed: %q", got)
	}
	if res := b.do(t, "search", object{"query": "toolbox"}); res.Stdout != "busybox\t1.36.0-r0\tSize optimized toolbox\n" {
		t.Errorf("found: %q", res.Stdout)
	}
	b.fails(t, "install", names("fastfetch"), tool.NotFound, "no such package")
	b.machine.User = "nobody"
	b.fails(t, "remove", names("busybox"), tool.PermissionDenied, "Permission denied")
	b.machine.User = ""
	b.do(t, "upgrade", names("busybox"))
	wantNames(t, b.do(t, "remove", names("busybox")), pkgs.MetaRemoved, "busybox")
	for _, want := range []string{"--no-progress add -- busybox\n", "--no-progress --simulate add -- busybox\n", "--no-progress add --upgrade -- busybox\n", "--no-progress del -- busybox\n", "search -v -- toolbox\n"} {
		if got := b.sh(t, "cat /srv/asked"); !strings.Contains(got, want) {
			t.Errorf("it was asked %q, want %q among it", got, want)
		}
	}
}

const brewScript = `
mkdir -p /srv; : >/srv/installed; rm -f /etc/os-release
echo ID=macos >/etc/os-release
cat >/usr/local/bin/brew <<'END'
#!/bin/sh
verb=$1; shift
case $verb in
list) cat /srv/installed;;
search) [ "$1" = wget ] || { echo "Error: No formulae or casks found for \"$1\"." >&2; exit 1; }; printf '==> Formulae\nwget\nwgetpaste\n';;
install)
	[ "$1" != --dry-run ] || { echo "==> Would install 1 formula:"; echo "$2"; exit 0; }
	[ "$1" = wget ] || { printf 'Error: No available formula with the name "%s" \n==> Searching for similarly named formulae...\nError: No similarly named formulae found.\n' "$1" >&2; exit 1; }
	echo "wget 1.24.5" >/srv/installed;;
uninstall) : >/srv/installed;;
esac
END
chmod 755 /usr/local/bin/brew
`

func TestBrew(t *testing.T) {
	b := newBox(t, brewScript)
	if res := b.do(t, "install", object{"packages": []string{"wget"}}); res.Meta[pkgs.MetaManager] != "brew" || res.Meta[pkgs.MetaSimulated] != true {
		t.Errorf("meta %v", res.Meta)
	}
	wantNames(t, b.do(t, "install", names("wget")), pkgs.MetaInstalled, "wget")
	b.fails(t, "install", names("fpp"), tool.NotFound, "No available formula")
	if res := b.do(t, "search", object{"query": "wget"}); res.Stdout != "wget\t\t\nwgetpaste\t\t\n" {
		t.Errorf("found: %q", res.Stdout)
	}
	if res := b.do(t, "search", object{"query": "nonesuch"}); res.Stdout != "" {
		t.Errorf("found: %q, want nothing", res.Stdout)
	}
	b.fails(t, "remove", object{"packages": []string{"wget"}}, tool.InvalidArgs, "cannot say beforehand")
	wantNames(t, b.do(t, "remove", names("wget")), pkgs.MetaRemoved, "wget")
}

func TestAMachineWithoutAPackageManager(t *testing.T) {
	b := newBox(t, "rm -f /usr/bin/apt-get /usr/bin/dnf /usr/bin/yum /usr/bin/zypper /usr/bin/pacman /usr/bin/rpm")
	b.fails(t, "install", names("nginx"), tool.NotFound, "no package manager")
	if res := b.call(t, "packages", "list", object{}); res.Code() != tool.NotFound {
		t.Errorf("packages: %v %s", res.Meta, res.Stderr)
	}
}

// A project's own folders may be in PATH: a program there is not the system's.
func TestAManagerInTheCallersPathIsNotAsked(t *testing.T) {
	b := newBox(t, "rm -f /usr/bin/apt-get /usr/bin/dnf /usr/bin/yum /usr/bin/zypper /usr/bin/pacman\nmkdir /project\nfor p in apt-get apt-cache dpkg-query; do printf '#!/bin/sh\ntouch /tmp/fooled\n' >/project/$p; chmod 755 /project/$p; done")
	b.machine.Env["PATH"], b.machine.WorkDir = "/project:.:/usr/bin", "/project"
	b.fails(t, "install", names("nginx"), tool.NotFound, "no package manager")
	b.sh(t, "! test -e /tmp/fooled")
}

// What the registry's schema lets pass must not reach a manager either.
func TestHostileNamesReachNoManager(t *testing.T) {
	b := newBox(t, `printf '#!/bin/sh\necho "$*" >>/tmp/asked\n' >/usr/local/bin/apt-get; chmod 755 /usr/local/bin/apt-get`, "apt-get")
	m := pkgs.NewManage(nil)
	for _, action := range []string{"install", "remove", "upgrade"} {
		for _, name := range hostile {
			res := m.Invoke(t.Context(), b.machine, tool.Call{Tool: "pkg.manage", Action: action, Args: marshal(t, names(name))})
			if res.Code() != tool.InvalidArgs {
				t.Errorf("%s %q: %v %s, want INVALID_ARGS", action, name, res.Meta, res.Stderr)
			}
			if strings.ContainsAny(strings.TrimSuffix(res.Stderr, "\n"), "\n\x00\u202e\u200b") {
				t.Errorf("%s %q: the answer is not printable: %q", action, name, res.Stderr)
			}
		}
	}
	for _, query := range []string{"-y", "--config-file=/etc/shadow", "nginx -oDebug=1", "$(id)", "a;b", "", "é", strings.Repeat("n", 300)} {
		res := m.Invoke(t.Context(), b.machine, tool.Call{Tool: "pkg.manage", Action: "search", Args: marshal(t, object{"query": query})})
		if res.Code() != tool.InvalidArgs {
			t.Errorf("search %q: %v, want INVALID_ARGS", query, res.Meta)
		}
	}
	b.sh(t, "! test -e /tmp/asked")
}
