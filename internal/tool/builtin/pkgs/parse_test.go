package pkgs_test

import (
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool/builtin/pkgs"
)

func TestInstalledPackagesAreRead(t *testing.T) {
	for _, c := range []struct {
		name, manager, output string
		want                  []pkgs.Package
	}{
		{"apt: what is half installed is said to be, what was removed is not there", "apt", "installed\tlibc6\t2.36-9\tamd64\nconfig-files\told\t1\tall\nhalf-configured\tbad\t1\tall\ntriggers-pending\tman-db\t2\tamd64\nnot-installed\tx\t\t\n", []pkgs.Package{
			{Name: "libc6", Version: "2.36-9", Arch: "amd64"}, {Name: "bad", Version: "1", Arch: "all", Partly: true}, {Name: "man-db", Version: "2", Arch: "amd64"},
		}},
		{"rpm: keys are no packages", "dnf", "installed\tgpg-pubkey\t1-2\t(none)\ninstalled\tbash\t5.2-1\tx86_64\n", []pkgs.Package{{Name: "bash", Version: "5.2-1", Arch: "x86_64"}}},
		{"pacman", "pacman", "bash 5.2-1\nlinux 6.1-1\n", []pkgs.Package{{Name: "bash", Version: "5.2-1"}, {Name: "linux", Version: "6.1-1"}}},
		{"brew: of several versions the newest", "brew", "python@3.12 3.12.1 3.12.2\n", []pkgs.Package{{Name: "python@3.12", Version: "3.12.2"}}},
		{"apk: names with dashes and digits", "apk", "musl-1.2.4-r2\npy3-pip-23.1.2-r0\nlibstdc++-12.2.1_git20220924-r10\nWARNING: opening x\n", []pkgs.Package{
			{Name: "musl", Version: "1.2.4-r2"}, {Name: "py3-pip", Version: "23.1.2-r0"}, {Name: "libstdc++", Version: "12.2.1_git20220924-r10"},
		}},
		{"lines that are none are left out", "apt", "\n\t\n\t\t\t\ninstalled\ninstalled\ta\n\x00\xff\n", nil},
	} {
		if got := pkgs.ParseInstalled(c.manager, c.output); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestWhatASearchFoundIsRead(t *testing.T) {
	for _, c := range []struct {
		name, manager, output string
		want                  [][3]string
	}{
		{"apt", "apt", "nginx - small, powerful - web server\nW: some warning - with a dash\n", [][3]string{{"nginx", "", "small, powerful - web server"}}},
		{"dnf, with headings and a package of two architectures", "dnf", "=== Name Exactly Matched: nginx ===\nnginx.x86_64 : A high performance web server\nnginx.i686 : A high performance web server\n", [][3]string{{"nginx", "", "A high performance web server"}}},
		{"yum, with a description of two lines", "yum", "nginx-all.noarch : A meta package that\n                 : installs all\n", [][3]string{{"nginx-all", "", "A meta package that"}}},
		{"zypper: patterns are no packages, a summary may hold a bar", "zypper", "S | Name | Summary | Type\n--+------+---------+--------\n  | a | one | two | package\ni | b | c | pattern\n", [][3]string{{"a", "", "one | two"}}},
		{"pacman", "pacman", "extra/nginx 1.24.0-1 [installed]\n    Lightweight HTTP server\nextra/x 1-1\n", [][3]string{{"nginx", "1.24.0-1", "Lightweight HTTP server"}, {"x", "1-1", ""}}},
		{"apk", "apk", "nginx-1.24.0-r6 - HTTP and reverse proxy server\n", [][3]string{{"nginx", "1.24.0-r6", "HTTP and reverse proxy server"}}},
		{"brew", "brew", "==> Formulae\nnginx\nfcgiwrap\n\n==> Casks\nnginx-app\n", [][3]string{{"nginx", "", ""}, {"fcgiwrap", "", ""}, {"nginx-app", "", ""}}},
	} {
		if got := pkgs.ParseFound(c.manager, c.output); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTheSystemsOwnManagerComesFirst(t *testing.T) {
	for _, c := range []struct{ name, osRelease, want string }{
		{"Debian", "ID=debian\nVERSION_ID=\"12\"\n", "apt"},
		{"what is like Ubuntu", "NAME=x\nID=pop\nID_LIKE=\"ubuntu debian\"\n", "apt"},
		{"Fedora", "ID=fedora\n", "dnf"},
		{"CentOS has dnf before yum", "ID=\"centos\"\nID_LIKE=\"rhel fedora\"\n", "dnf yum"},
		{"Amazon Linux 2 is yum's, and like Fedora", "ID=\"amzn\"\nID_LIKE=\"centos rhel fedora\"\n", "yum dnf"},
		{"openSUSE", "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "zypper"},
		{"Arch", "ID=arch\n", "pacman"},
		{"Alpine", "ID=alpine\n", "apk"},
		{"nothing that is known", "ID=hand-made\n", "apt dnf yum zypper pacman apk brew"},
		{"not a word", "\x00\xff=\n===", "apt"},
	} {
		got := pkgs.Preferred(c.osRelease)
		want := strings.Fields(c.want)
		if len(got) != 7 || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s: %v, want %v first", c.name, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("installed\tlibc6\t2.36\tamd64\n")
	f.Add("extra/nginx 1.24.0-1\n    About\nnginx-1.2-r3 - x\n")
	f.Add("S | Name | Summary | Type\n  | a | b | package\nnginx.x86_64 : web\n")
	f.Add("ID=debian\nID_LIKE='a b'\n")
	all := pkgs.Managers()
	f.Fuzz(func(t *testing.T, output string) {
		for _, m := range all {
			for _, p := range pkgs.ParseInstalled(m, output) {
				if p.Name == "" || strings.ContainsAny(p.Name, "\n\t") || strings.Contains(p.Version, "\n") {
					t.Errorf("%s: %+v", m, p)
				}
			}
			for _, row := range pkgs.ParseFound(m, output) {
				if row[0] == "" || strings.ContainsAny(row[0], "\n") || strings.Contains(row[2], "\n") {
					t.Errorf("%s: %q", m, row)
				}
			}
		}
		if got := pkgs.Preferred(output); len(got) != len(all) {
			t.Errorf("%v: managers come twice, or not at all", got)
		}
	})
}
