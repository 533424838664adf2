package pkgs_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs"
)

// rpmSetup makes two versions of a package and one that needs it; publish makes a
// repository of those named.
const rpmSetup = `
mkdir -p /srv/repo /srv/all /srv/build/SPECS /etc/rpm
echo '%_dbpath /var/lib/rpm' >>/etc/rpm/macros # Debian's rpm has one for each user
build() { # name, version, a line or nothing
	printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: thing for tests\nLicense: none\nBuildArch: noarch\n%s\n%%description\nx\n%%files\n' "$1" "$2" "$3" >/srv/build/SPECS/x.spec
	rpmbuild -bb --quiet --define '_topdir /srv/build' --define '_rpmdir /srv/all' /srv/build/SPECS/x.spec
}
build airlock-hello 1 ''
build airlock-hello 2 ''
build airlock-needs 1 'Requires: airlock-hello'
build other 1 ''
cat >/srv/publish <<'END'
rm -rf /srv/repo; mkdir /srv/repo
for f; do cp /srv/all/noarch/$f-1.noarch.rpm /srv/repo; done
createrepo_c -q /srv/repo
END
sh /srv/publish airlock-hello-1 airlock-needs-1
rm -f /etc/os-release
`

// A managed is a package manager, and what is particular to testing it for real.
type managed struct {
	name     string
	programs []string
	setup    string
	system   string // ID in os-release
	newer    string // a line that publishes version 2
	pinned   string // airlock-hello with its version 2
	version  string // of airlock-hello's version 2, as it is listed
	unknown  string // in stderr, when there is no such package
	held     string // a line that holds its lock; "": the manager waits, and is not tested
}

var dnfConfig = `
mkdir -p /etc/yum.repos.d; rm -f /etc/yum.repos.d/*
printf '[t]\nname=t\nbaseurl=file:///srv/repo\ngpgcheck=0\nmetadata_expire=0\n' >/etc/yum.repos.d/t.repo
mkdir -p /etc/dnf/vars; echo 1 >/etc/dnf/vars/releasever
`

var really = []managed{
	{
		name: "dnf", programs: []string{"dnf", "rpmbuild", "createrepo_c"}, setup: rpmSetup + dnfConfig, system: "fedora",
		newer: "sh /srv/publish airlock-hello-1 airlock-hello-2 airlock-needs-1", pinned: "airlock-hello-2",
		version: "2-1", unknown: "Unable to find a match",
		held: "for l in /var/lib/dnf/rpmdb_lock.pid /var/cache/dnf/metadata_lock.pid /var/cache/dnf/download_lock.pid; do echo 1 >$l; done",
	},
	{
		// CentOS 8 and later have dnf under this name.
		name: "yum", programs: []string{"dnf", "rpmbuild", "createrepo_c"}, system: "amzn",
		setup: rpmSetup + dnfConfig + "mv $(readlink -f $(which dnf)) /usr/bin/yum; rm -f $(which dnf)",
		newer: "sh /srv/publish airlock-hello-1 airlock-hello-2 airlock-needs-1", pinned: "airlock-hello-2-1.noarch",
		version: "2-1", unknown: "Unable to find a match",
		held: "for l in /var/lib/dnf/rpmdb_lock.pid /var/cache/dnf/metadata_lock.pid /var/cache/dnf/download_lock.pid; do echo 1 >$l; done",
	},
	{
		name: "zypper", programs: []string{"zypper", "rpmbuild", "createrepo_c"}, system: "opensuse-leap",
		setup: rpmSetup + `
rpm -i /srv/all/noarch/other-1-1.noarch.rpm # without any package zypper ends with an error
mkdir -p /etc/zypp/repos.d; rm -f /etc/zypp/repos.d/*
printf '[t]\nname=t\nenabled=1\nautorefresh=1\nbaseurl=dir:///srv/repo\ntype=rpm-md\ngpgcheck=0\n' >/etc/zypp/repos.d/t.repo
`,
		newer: "sh /srv/publish airlock-hello-1 airlock-hello-2 airlock-needs-1", pinned: "airlock-hello=2",
		version: "2-1", unknown: "No provider of",
		held: "mkdir -p /run; echo 1 >/run/zypp.pid",
	},
	{
		name: "pacman", programs: []string{"pacman", "zstd"}, system: "arch",
		setup: `
mkdir -p /srv/repo /var/lib/pacman; rm -rf /var/lib/pacman/* /var/cache/pacman/pkg/*; rm -f /etc/os-release
cat >/srv/publish <<'END'
cd /srv/repo; rm -rf /srv/db; mkdir /srv/db
for nv; do
	n=${nv%-*} v=${nv##*-} f=$nv-1-any.pkg.tar.zst
	rm -rf /srv/p; mkdir -p /srv/p/usr/share/$n; echo $v >/srv/p/usr/share/$n/version
	need=; [ $n = airlock-hello ] || need='depend = airlock-hello'
	printf 'pkgname = %s\npkgbase = %s\npkgver = %s-1\npkgdesc = thing for tests\nsize = 2\narch = any\n%s\n' $n $n $v "$need" >/srv/p/.PKGINFO
	(cd /srv/p && tar --zstd -cf /srv/repo/$f .PKGINFO usr)
	mkdir /srv/db/$nv-1
	printf '%%FILENAME%%\n%s\n\n%%NAME%%\n%s\n\n%%VERSION%%\n%s-1\n\n%%DESC%%\nthing for tests\n\n%%CSIZE%%\n%s\n\n%%SHA256SUM%%\n%s\n\n%%ARCH%%\nany\n\n' \
		$f $n $v $(stat -c %s $f) $(sha256sum $f | cut -d' ' -f1) >/srv/db/$nv-1/desc
	[ -z "$need" ] || printf '%%DEPENDS%%\nairlock-hello\n\n' >>/srv/db/$nv-1/desc
done
tar -C /srv/db -czf t.db $(ls /srv/db)
END
sh /srv/publish airlock-hello-1 airlock-needs-1
touch -d '1 hour ago' /srv/repo/t.db
printf '[options]\nArchitecture = auto\nSigLevel = Never\n[t]\nServer = file:///srv/repo\n' >/etc/pacman.conf
`,
		newer: "sh /srv/publish airlock-hello-2 airlock-needs-1", pinned: "t/airlock-hello=2-1",
		version: "2-1", unknown: "target not found",
		held: "touch /var/lib/pacman/db.lck",
	},
}

func TestOtherManagers(t *testing.T) {
	for _, m := range really {
		t.Run(m.name, func(t *testing.T) { realManager(t, &m) })
	}
}

// realManager takes a package through its life with the real package manager.
func realManager(t *testing.T, m *managed) {
	b := newBox(t, m.setup+"\necho ID="+m.system+" >/etc/os-release\n", m.programs...)
	if res := b.do(t, "update", object{}); res.Meta[pkgs.MetaManager] != m.name {
		t.Fatalf("meta %v, want manager %s", res.Meta, m.name)
	}
	list := func(t *testing.T, want string) {
		t.Helper()
		if got := b.listed(t, "airlock-*"); got != want {
			t.Errorf("installed: %q, want %q", got, want)
		}
	}
	t.Run("without a yes nothing is installed", func(t *testing.T) {
		res := b.do(t, "install", object{"packages": []string{"airlock-needs"}})
		if res.Meta[pkgs.MetaSimulated] != true || !strings.Contains(res.Stdout, "airlock-hello") {
			t.Errorf("meta %v, stdout %q", res.Meta, res.Stdout)
		}
		list(t, "")
	})
	t.Run("install brings what it depends on", func(t *testing.T) {
		res := b.do(t, "install", names("airlock-needs"))
		wantNames(t, res, pkgs.MetaInstalled, "airlock-needs")
		wantNames(t, res, pkgs.MetaAdded, "airlock-needs", "airlock-hello")
		list(t, "airlock-hello\t1-1\nairlock-needs\t1-1\n")
	})
	t.Run("what is there already counts as installed", func(t *testing.T) {
		res := b.do(t, "install", names("airlock-hello"))
		wantNames(t, res, pkgs.MetaInstalled, "airlock-hello")
		wantNames(t, res, pkgs.MetaAdded)
	})
	t.Run("an unknown package is not found", func(t *testing.T) {
		b.fails(t, "install", names("airlock-nonesuch"), tool.NotFound, m.unknown)
		b.fails(t, "remove", names("airlock-nonesuch"), tool.NotFound, "not installed")
	})
	t.Run("search finds it, and finding nothing is no error", func(t *testing.T) {
		res := b.do(t, "search", object{"query": "airlock-hello"})
		if !strings.HasPrefix(res.Stdout, "airlock-hello\t") || !strings.Contains(res.Stdout, "\tthing for tests\n") {
			t.Errorf("stdout %q", res.Stdout)
		}
		if res := b.do(t, "search", object{"query": "nonesuch"}); res.Stdout != "" {
			t.Errorf("stdout %q, want nothing", res.Stdout)
		}
	})
	t.Run("an ordinary user is told that root is needed", func(t *testing.T) {
		b.machine.User = "nobody"
		defer func() { b.machine.User = "" }()
		b.fails(t, "remove", names("airlock-hello"), tool.PermissionDenied, "needs root")
	})
	if m.held != "" {
		t.Run("a lock that is held is said to be", func(t *testing.T) {
			b.sh(t, m.held)
			b.fails(t, "remove", names("airlock-hello"), tool.PermissionDenied, "another package manager is at work")
			b.sh(t, "rm -f /run/zypp.pid /var/lib/pacman/db.lck /var/lib/dnf/rpmdb_lock.pid /var/cache/dnf/*_lock.pid")
		})
	}
	t.Run("upgrade takes the newer version, by name and without", func(t *testing.T) {
		b.sh(t, m.newer)
		b.do(t, "update", object{})
		res := b.do(t, "upgrade", object{})
		if res.Meta[pkgs.MetaSimulated] != true {
			t.Errorf("meta %v", res.Meta)
		}
		list(t, "airlock-hello\t1-1\nairlock-needs\t1-1\n")
		wantNames(t, b.do(t, "upgrade", names("airlock-hello")), pkgs.MetaUpgraded, "airlock-hello")
		wantNames(t, b.do(t, "upgrade", object{"assume_yes": true}), pkgs.MetaUpgraded)
		list(t, "airlock-hello\t"+m.version+"\nairlock-needs\t1-1\n")
	})
	t.Run("remove takes it away", func(t *testing.T) {
		res := b.do(t, "remove", object{"packages": []string{"airlock-needs"}})
		if res.Meta[pkgs.MetaSimulated] != true {
			t.Errorf("meta %v", res.Meta)
		}
		wantNames(t, b.do(t, "remove", names("airlock-needs", "airlock-hello")), pkgs.MetaRemoved, "airlock-needs", "airlock-hello")
		list(t, "")
		wantNames(t, b.do(t, "install", names(m.pinned)), pkgs.MetaAdded, "airlock-hello")
		list(t, "airlock-hello\t"+m.version+"\n")
	})
}

// pacman's lock is a file that nobody takes away for one that was killed.
func TestACanceledPacmanLeavesNoLock(t *testing.T) {
	m := really[slices.IndexFunc(really, func(m managed) bool { return m.name == "pacman" })]
	b := newBox(t, m.setup+`
echo ID=arch >/etc/os-release; mkfifo /srv/slow
printf 'post_install() { echo started >/srv/slow; exec sleep 1000; }\n' >/srv/install
sed -i 's|mkdir -p /srv/p/usr/share|mkdir -p /srv/p; cp /srv/install /srv/p/.INSTALL; &|; s|\.PKGINFO usr|.PKGINFO .INSTALL usr|' /srv/publish
sh /srv/publish airlock-hello-1; touch /srv/repo/t.db
`, m.programs...)
	b.do(t, "update", object{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan tool.Result, 1)
	go func() {
		ended <- b.registry.Invoke(ctx, b.machine, tool.Call{Tool: "pkg.manage", Action: "install", Args: marshal(t, names("airlock-hello"))})
	}()
	b.sh(t, "cat /srv/slow")
	cancel()
	if res := <-ended; res.Code() != tool.IOError || !strings.Contains(res.Stderr, "canceled") {
		t.Errorf("canceled: %v %q", res.Meta, res.Stderr)
	}
	if left := b.sh(t, "ps ax -o stat=,args= | grep -v '^Z' | grep -E '^[^ ]+ +([^ ]*/)?(pacman|sleep) ' || true; ls -d /var/lib/pacman/db.lck 2>/dev/null || true"); left != "" {
		t.Errorf("left: %s", left)
	}
	b.do(t, "remove", names("airlock-hello"))
}
