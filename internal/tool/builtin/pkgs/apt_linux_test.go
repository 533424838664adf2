package pkgs_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs"
)

// aptSetup makes a repository of small packages that nobody else has, and the machine's only
// one. publish makes its list of those named, so that an upgrade appears when it is wanted.
const aptSetup = `
mkdir -p /srv/repo /srv/build
deb() { # name, version, a line of control or nothing, postinst or nothing
	d=/srv/build/$1-$2; mkdir -p "$d/DEBIAN" "$d/usr/share/$1"; echo "$2" >"$d/usr/share/$1/version"
	printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\n' "$1" "$2" >"$d/DEBIAN/control"
	[ -z "$3" ] || echo "$3" >>"$d/DEBIAN/control"
	printf 'Description: thing for tests, %s\n' "$1" >>"$d/DEBIAN/control"
	if [ -n "$4" ]; then printf '#!/bin/sh\n%s\n' "$4" >"$d/DEBIAN/postinst"; chmod 755 "$d/DEBIAN/postinst"; fi
	dpkg-deb --root-owner-group -b "$d" "/srv/repo/$1_$2.deb"
}
deb airlock-hello 1 '' ''
deb airlock-hello 2 '' ''
deb airlock-needs 1 'Depends: airlock-hello' ''
deb airlock-c++ 1 '' ''
deb airlock-broken 1 '' 'echo no such luck >&2; exit 7'
deb airlock-loud 1 '' 'i=0; while [ $i -lt 30000 ]; do echo "$i: the quick brown fox jumps over the lazy dog, again and again"; i=$((i+1)); done'
deb airlock-slow 1 '' 'echo started >/srv/slow; exec sleep 1000'
mkfifo /srv/slow
cat >/srv/publish <<'END'
cd /srv/repo; : >Packages
for f; do
	dpkg-deb -f $f >>Packages
	printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $f $(stat -c %s $f) $(sha256sum $f | cut -d' ' -f1) >>Packages
done
printf 'Date: %s\nSHA256:\n %s %s Packages\n' "$(date -Ru)" $(sha256sum Packages | cut -d' ' -f1) $(stat -c %s Packages) >Release
END
rm -rf /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:///srv/repo ./' >/etc/apt/sources.list
sh /srv/publish airlock-hello_1.deb airlock-needs_1.deb airlock-c++_1.deb airlock-broken_1.deb airlock-loud_1.deb airlock-slow_1.deb
`

func TestApt(t *testing.T) {
	b := newBox(t, aptSetup, "apt-get", "dpkg-deb")

	t.Run("a package that no list has is not found", func(t *testing.T) {
		b.fails(t, "install", names("airlock-hello"), tool.NotFound, "Unable to locate package")
	})
	t.Run("update fetches the lists and needs no yes", func(t *testing.T) {
		if res := b.do(t, "update", object{}); res.Meta["manager"] != "apt" {
			t.Errorf("meta = %v, want manager apt", res.Meta)
		}
	})
	t.Run("without a yes nothing is installed, and the answer says so", func(t *testing.T) {
		res := b.do(t, "install", object{"packages": []string{"airlock-hello"}})
		if res.Meta[pkgs.MetaSimulated] != true || !strings.Contains(res.Stdout, "Inst airlock-hello") || !strings.Contains(res.Stderr, "nothing was done") {
			t.Errorf("meta %v, stdout %q, stderr %q", res.Meta, res.Stdout, res.Stderr)
		}
		wantNames(t, res, pkgs.MetaInstalled)
		if got := b.listed(t, "airlock-*"); got != "" {
			t.Errorf("installed: %q, want nothing", got)
		}
	})
	t.Run("install brings what it depends on, and reports both", func(t *testing.T) {
		res := b.do(t, "install", names("airlock-needs"))
		wantNames(t, res, pkgs.MetaInstalled, "airlock-needs")
		wantNames(t, res, pkgs.MetaAdded, "airlock-needs", "airlock-hello")
		if got := b.listed(t, "airlock-*"); got != "airlock-hello\t1\nairlock-needs\t1\n" {
			t.Errorf("installed: %q", got)
		}
	})
	t.Run("what is there already counts as installed, and nothing is added", func(t *testing.T) {
		res := b.do(t, "install", names("airlock-hello"))
		wantNames(t, res, pkgs.MetaInstalled, "airlock-hello")
		wantNames(t, res, pkgs.MetaAdded)
	})
	t.Run("a name that ends with + is a name, not apt's sign for install", func(t *testing.T) {
		res := b.do(t, "install", names("airlock-c++"))
		wantNames(t, res, pkgs.MetaInstalled, "airlock-c++")
		b.fails(t, "install", names("airlock-hello+"), tool.NotFound, "airlock-hello+")
		b.do(t, "remove", names("airlock-c++"))
		b.fails(t, "remove", names("airlock-c+++"), tool.NotFound, "not installed")
		b.fails(t, "remove", names("airlock-c+"), tool.NotFound, "not installed")
		if got := b.listed(t, "airlock-c*"); got != "" {
			t.Errorf("installed: %q, want nothing", got)
		}
	})
	t.Run("a name that is a regular expression installs nothing", func(t *testing.T) {
		b.fails(t, "install", names("airlock.c.."), tool.InvalidArgs, "no name of a package")
		b.fails(t, "install", names("airlock.c"), tool.NotFound, "airlock.c")
		if got := b.listed(t, "airlock-c*"); got != "" {
			t.Errorf("installed: %q, want nothing", got)
		}
	})
	t.Run("search finds names and descriptions, and takes words as they are", func(t *testing.T) {
		res := b.do(t, "search", object{"query": "tests hello"})
		if res.Stdout != "airlock-hello\t\tthing for tests, airlock-hello\n" || res.Meta[pkgs.MetaTotal] != 1 {
			t.Errorf("stdout %q, meta %v", res.Stdout, res.Meta)
		}
		if res := b.do(t, "search", object{"query": "airlock-c++"}); !strings.HasPrefix(res.Stdout, "airlock-c++\t") {
			t.Errorf("stdout %q", res.Stdout)
		}
		if res := b.do(t, "search", object{"query": "airlock.hello"}); res.Stdout != "" {
			t.Errorf("a dot fits any character: %q", res.Stdout)
		}
		if res := b.do(t, "search", object{"query": "airlock", "max": 2}); res.Meta[pkgs.MetaCount] != 2 || res.Meta[pkgs.MetaTotal] != 6 || res.Meta[pkgs.MetaTruncated] != true {
			t.Errorf("meta %v", res.Meta)
		}
	})
	t.Run("upgrade takes the newer version once the lists have it", func(t *testing.T) {
		wantNames(t, b.do(t, "upgrade", names("airlock-hello")), pkgs.MetaUpgraded)
		b.sh(t, "sh /srv/publish $(cd /srv/repo; ls *.deb | grep -v hello_1)")
		b.do(t, "update", object{})
		res := b.do(t, "upgrade", object{"packages": []string{"airlock-hello"}})
		if !strings.Contains(res.Stdout, "Inst airlock-hello [1]") {
			t.Errorf("simulated: %q", res.Stdout)
		}
		wantNames(t, b.do(t, "upgrade", object{"assume_yes": true}), pkgs.MetaUpgraded, "airlock-hello")
		b.fails(t, "upgrade", names("airlock-broken"), tool.NotFound, "not installed")
	})
	t.Run("a version can be asked for", func(t *testing.T) {
		b.fails(t, "install", names("airlock-hello=9"), tool.NotFound, "Version '9'")
		b.fails(t, "remove", names("airlock-hello=2"), tool.InvalidArgs, "to remove it")
		wantNames(t, b.do(t, "install", names("airlock-hello=2*")), pkgs.MetaInstalled, "airlock-hello")
	})
	t.Run("remove reports all that went, and is told what is not there", func(t *testing.T) {
		b.fails(t, "remove", names("airlock-hello", "airlock-loud"), tool.NotFound, "airlock-loud; nothing was done")
		res := b.do(t, "remove", object{"packages": []string{"airlock-hello"}})
		wantNames(t, res, pkgs.MetaRemoved)
		wantNames(t, b.do(t, "remove", names("airlock-hello:all")), pkgs.MetaRemoved, "airlock-hello", "airlock-needs")
	})
	t.Run("what the system cannot be without is not removed", func(t *testing.T) {
		b.fails(t, "remove", names("hostname"), tool.PermissionDenied, "by a person")
		b.fails(t, "remove", names("dpkg"), tool.IOError, "do not go together")
	})
	t.Run("long output is cut in the answer, and whole for who watches", func(t *testing.T) {
		watched := &counter{}
		b.machine.Stdout = watched
		res := b.do(t, "install", names("airlock-loud"))
		b.machine.Stdout = nil
		if n := len(res.Stdout); n > agent.MaxOutput+len(agent.TruncatedMarker) || !strings.HasSuffix(res.Stdout, agent.TruncatedMarker) {
			t.Errorf("stdout has %d bytes", n)
		}
		if watched.n < 3*agent.MaxOutput/2 {
			t.Errorf("watched %d bytes, want all of them", watched.n)
		}
		wantNames(t, res, pkgs.MetaInstalled, "airlock-loud")
	})
	t.Run("an ordinary user is told that root is needed", func(t *testing.T) {
		b.machine.User = "nobody"
		defer func() { b.machine.User = "" }()
		b.fails(t, "install", names("airlock-hello"), tool.PermissionDenied, "needs root")
		b.fails(t, "update", object{}, tool.PermissionDenied, "needs root")
	})
	t.Run("a package whose script fails is not reported as installed", func(t *testing.T) {
		res := b.fails(t, "install", names("airlock-broken"), tool.IOError, "dpkg --configure -a")
		wantNames(t, res, pkgs.MetaInstalled)
		if res.Meta[tool.MetaExitCode] != 100 || !strings.Contains(res.Stdout+res.Stderr, "no such luck") {
			t.Errorf("meta %v, stdout %q, stderr %q", res.Meta, res.Stdout, res.Stderr)
		}
		if got := b.listed(t, "airlock-b*"); got != "" {
			t.Errorf("installed: %q, want nothing", got)
		}
		b.do(t, "remove", names("airlock-broken"))
		b.do(t, "remove", names("airlock-loud"))
	})
	t.Run("a source that is not there is an error of input and output", func(t *testing.T) {
		b.sh(t, "mv /srv/repo /srv/gone")
		b.fails(t, "update", object{}, tool.IOError, network)
		b.sh(t, "mv /srv/gone /srv/repo")
	})
	t.Run("no settings that were changed by hand are asked about", func(t *testing.T) {
		b.sh(t, `cd /srv/build; for v in 1 2; do d=airlock-conf-$v; mkdir -p $d/DEBIAN $d/etc; echo $v >$d/etc/airlock-conf
			printf 'Package: airlock-conf\nVersion: %s\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' $v >$d/DEBIAN/control
			echo /etc/airlock-conf >$d/DEBIAN/conffiles; dpkg-deb -b $d /srv/repo/airlock-conf_$v.deb; done; sh /srv/publish airlock-conf_1.deb`)
		b.do(t, "update", object{})
		b.do(t, "install", names("airlock-conf"))
		b.sh(t, "echo mine >/etc/airlock-conf; sh /srv/publish airlock-conf_2.deb")
		b.do(t, "update", object{})
		wantNames(t, b.do(t, "upgrade", names("airlock-conf")), pkgs.MetaUpgraded, "airlock-conf")
		if got := b.sh(t, "cat /etc/airlock-conf"); got != "mine\n" {
			t.Errorf("the settings are %q now", got)
		}
	})
}

const network = "could not be reached"

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

func TestACanceledInstallationLeavesNoProcessAndNoLock(t *testing.T) {
	b := newBox(t, aptSetup, "apt-get", "dpkg-deb")
	b.do(t, "update", object{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan tool.Result, 1)
	go func() {
		args, _ := json.Marshal(names("airlock-slow"))
		first <- b.registry.Invoke(ctx, b.machine, tool.Call{Tool: "pkg.manage", Action: "install", Args: args})
	}()
	b.sh(t, "cat /srv/slow") // its script runs now

	b.fails(t, "install", names("airlock-hello"), tool.PermissionDenied, "another package manager is at work")

	canceled := time.Now()
	cancel()
	res := <-first
	if took := time.Since(canceled); took > time.Minute {
		t.Errorf("the call returned %v after it was canceled", took)
	}
	if res.Code() != tool.IOError || !strings.Contains(res.Stderr, "canceled") || !strings.Contains(res.Stderr, "dpkg --configure -a") {
		t.Errorf("canceled: %v %q", res.Meta, res.Stderr)
	}
	// What was ended may not be collected yet: it has a Z, and is gone soon.
	if left := b.sh(t, "n=0; while left=$(ps ax -o stat=,args= | grep -v '^Z' | grep -E '[a]pt-get|[d]pkg|[s]leep 1000') && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.05; done; printf %s \"$left\""); left != "" {
		t.Errorf("left running: %s", left)
	}
	// dpkg, not its lock, is what the next one meets: it wants its half-done work done.
	b.fails(t, "install", names("airlock-hello"), tool.IOError, "dpkg --configure -a")
	b.sh(t, "echo 'exit 0' >/var/lib/dpkg/info/airlock-slow.postinst; dpkg --configure -a")
	wantNames(t, b.do(t, "install", names("airlock-hello")), pkgs.MetaInstalled, "airlock-hello")
}

func TestAnInstallationHasALimitOfItsOwn(t *testing.T) {
	b := newBox(t, aptSetup, "apt-get", "dpkg-deb")
	b.do(t, "update", object{})
	go func() { _, _ = b.machine.Client.Exec(t.Context(), "cat /srv/slow") }()
	m := pkgs.NewManage(&pkgs.Options{MaxTime: 2 * time.Second})
	res := m.Invoke(t.Context(), b.machine, tool.Call{Tool: "pkg.manage", Action: "install", Args: []byte(`{"packages": ["airlock-slow"], "assume_yes": true}`)})
	if res.Code() != tool.Timeout || !strings.Contains(res.Stderr, "dpkg --configure -a") {
		t.Errorf("%v %q, want TIMEOUT", res.Meta, res.Stderr)
	}
}
