package pkgs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/pkgs"
)

// hostile are names that no manager may ever be given, whatever it would make of them.
var hostile = []string{
	"", " ", "-y", "--install-suggests", "-oDebug=1", "-o=Dpkg::Pre-Invoke::=id", "--", "-",
	"; rm -rf /", "nginx; id", "nginx && id", "$(id)", "`id`", "nginx$(id)", "${HOME}", "nginx|id", "nginx>x", "'nginx'", `"nginx"`, `nginx\`,
	"./x.deb", "../x.deb", "/tmp/x.deb", "x.deb", "X.DEB", "x.rpm", "x.apk", "x.dsc", "x.changes", "x.pkg.tar.zst", "x.rb", "./x", "../x", "/x", "a/b/c", "a//b",
	"http://example.org/x.rpm", "https://example.org/x", "file:///x", "git+https://x",
	"nginx\n", "nginx\nid", "\nnginx", "nginx\x00", "nginx\t", "nginx vim", " nginx", "nginx ",
	"nginх", "ｎginx", "nginx\u200b", "\u202enginx", "é", "nginx\xff",
	"nginx*", "ngin?", "[a-z]*", "*", "?", "~i", "?installed", "^nginx$", "nginx$", "^nginx", "nginx^", "@group", "@",
	"!nginx", "<nginx", "nginx<2", "nginx>2", "nginx>=2", "perl(Foo)", "foo(x86-64)",
	"=1.0", "nginx=", "nginx=-y", "nginx==", "nginx/", "/stable", "nginx/-x", "nginx=$(id)", "nginx=1 2", "nginx=1\n",
	strings.Repeat("n", 300), "nginx=" + strings.Repeat("1", 300),
}

func TestNoManagerIsGivenANameThatIsNone(t *testing.T) {
	for _, m := range pkgs.Managers() {
		for _, name := range hostile {
			if err := pkgs.CheckNames(m, true, name); err == nil {
				t.Errorf("%s takes %q for a package's name", m, name)
			}
			if err := pkgs.CheckNames(m, true, "nginx", name); err == nil {
				t.Errorf("%s takes %q for a package's name when it is not the first", m, name)
			}
		}
		if err := pkgs.CheckNames(m, true, slices.Repeat([]string{"nginx"}, 101)...); err == nil {
			t.Errorf("%s takes any number of names", m)
		}
	}
}

func TestEachManagerTakesItsOwnNames(t *testing.T) {
	for _, c := range []struct{ manager, names, refused string }{
		{"apt", "nginx g++ libstdc++6 python3.11 libc6:amd64 libc6:any nginx=1.24.0-2ubuntu7.3 nginx=1.24* nginx=2:9.0.1~rc1 nginx=1 nginx/stable nginx/bookworm-backports libc6:i386=2.36-9", "nginx- nginx=1.0- nginx=1.0+ nginx/stable- libc6:i386- Nginx n nginx: nginx=1*2 nginx=1/stable nginx_x"},
		{"dnf", "nginx gcc-c++ python3.11 nginx-1.24.0 nginx-1:1.24.0-1.fc39.x86_64 R-core _x nginx.x86_64 foo~1^2", "a/b nginx=1 pattern:kde nginx- nginx. nginx:1"},
		{"yum", "nginx nginx-1.20.1-2.el7.x86_64", "a/b nginx=1"},
		{"zypper", "nginx libstdc++6 nginx=1.24.0 MozillaFirefox nginx=1.0-2.3", "nginx:x a/b"},
		{"pacman", "nginx extra/nginx nginx=1.24.0-1 lib32-gcc-libs gtk2+extra python@x core-testing/a=1:2-3", "a/b/c /b a/ A/b"},
		{"apk", "nginx nginx=1.24.0-r0 nginx~1.24 libstdc++ py3-pip", "nginx@edge a/b nginx~=1 nginx=1~2"},
		{"brew", "nginx python@3.12 gtk+3 llvm openssl@3", "homebrew/core/nginx a/b nginx=1"},
	} {
		for name := range strings.FieldsSeq(c.names) {
			if err := pkgs.CheckNames(c.manager, true, name); err != nil {
				t.Errorf("%s: %v", c.manager, err)
			}
		}
		for name := range strings.FieldsSeq(c.refused) {
			if err := pkgs.CheckNames(c.manager, true, name); err == nil {
				t.Errorf("%s takes %q for a package's name", c.manager, name)
			}
		}
	}
}

func TestRemoveTakesNamesAlone(t *testing.T) {
	for manager, name := range map[string]string{"apt": "nginx=1.0", "zypper": "nginx=1", "pacman": "extra/nginx", "apk": "nginx~1"} {
		if err := pkgs.CheckNames(manager, false, name); err == nil || !strings.Contains(err.Error(), "nginx, to remove it") {
			t.Errorf("%s, %s: err = %v", manager, name, err)
		}
	}
	if err := pkgs.CheckNames("apt", false, "libc6:i386"); err != nil {
		t.Errorf("apt: %v", err)
	}
}

// A name cannot be an option by the grammar; where a manager knows "--", as all but brew,
// dnf 5 and who bears its name do, it cannot even if the grammar were wrong.
func TestNamesFollowTwoDashes(t *testing.T) {
	for _, m := range pkgs.Managers() {
		for what, argv := range pkgs.Argvs(m) {
			switch what {
			case "install", "remove", "upgrade some", "search", "install, dry", "remove, dry", "upgrade some, dry":
				if len(argv) > 0 && m != "brew" && m != "dnf" && m != "yum" && argv[len(argv)-1] != "--" {
					t.Errorf("%s, %s: %q does not end with --", m, what, argv)
				}
			case "update", "upgrade", "list":
				if slices.Contains(argv, "--") {
					t.Errorf("%s, %s: %q has a -- and no names", m, what, argv)
				}
			}
		}
	}
}

func TestTheRegistryTakesTheTools(t *testing.T) {
	r, err := tool.NewRegistry(pkgs.Tools()...)
	if err != nil {
		t.Fatalf("NewRegistry: %v", err)
	}
	check := func(name, action, args string) tool.ErrorCode {
		res := r.Check(tool.Call{Tool: name, Action: action, Args: json.RawMessage(args)})
		if res == nil {
			return ""
		}
		return res.Code()
	}
	for _, c := range []struct {
		name, action, args string
		want               tool.ErrorCode
	}{
		{"pkg.manage", "install", `{"packages": ["nginx", "certbot"], "assume_yes": true}`, ""}, // the specification's own
		{"pkg.manage", "remove", `{"packages": ["nginx"]}`, ""},
		{"pkg.manage", "update", `{}`, ""},
		{"pkg.manage", "update", `{"assume_yes": true}`, ""},
		{"pkg.manage", "upgrade", `{}`, ""},
		{"pkg.manage", "search", `{"query": "nginx"}`, ""},
		{"packages", "list", `{}`, ""},
		{"packages", "list", `{"filter": "lib*", "max": 10}`, ""},
		{"pkg.manage", "install", `{}`, tool.InvalidArgs},
		{"pkg.manage", "install", `{"packages": []}`, tool.InvalidArgs},
		{"pkg.manage", "install", `{"packages": "nginx"}`, tool.InvalidArgs},
		{"pkg.manage", "install", `{"packages": ["nginx"], "assume_yes": "yes"}`, tool.InvalidArgs},
		{"pkg.manage", "install", `{"packages": ["--install-suggests"]}`, tool.InvalidArgs},
		{"pkg.manage", "install", `{"packages": [""]}`, tool.InvalidArgs},
		{"pkg.manage", "install", `{"packages": ["nginx"], "flags": ["-f"]}`, tool.InvalidArgs},
		{"pkg.manage", "search", `{}`, tool.InvalidArgs},
		{"pkg.manage", "purge", `{}`, tool.InvalidArgs},
		{"packages", "list", `{"max": 0}`, tool.InvalidArgs},
	} {
		if got := check(c.name, c.action, c.args); got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.name, c.action, c.args, got, c.want)
		}
	}
	for _, info := range r.List() {
		for _, a := range info.Actions {
			reads := info.Name == "packages" || a.Name == "search"
			if (a.Risk == tool.RiskReadOnly) != reads || !reads && (a.Risk != tool.RiskPackage || !slices.Contains(a.Needs, tool.NeedPackages)) {
				t.Errorf("%s %s: risk %s, needs %v", info.Name, a.Name, a.Risk, a.Needs)
			}
			if (a.Place == tool.HostOnly) != (info.Name == "packages") {
				t.Errorf("%s %s: place %q", info.Name, a.Name, a.Place)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Add("nginx=1.24*")
	all := pkgs.Managers()
	f.Fuzz(func(t *testing.T, name string) {
		for _, m := range all {
			if pkgs.CheckNames(m, true, name) != nil {
				continue
			}
			switch {
			case name == "" || len(name) > 256 || strings.HasPrefix(name, "-"):
				t.Errorf("%s takes %q", m, name)
			case strings.ContainsAny(name, " \t\r\n\x00;&|$`'\"\\<>(){}[]?!#,%"):
				t.Errorf("%s takes %q, which has characters of a shell or a pattern", m, name)
			case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "."), strings.Contains(name, "//"), strings.Contains(name, "/../"):
				t.Errorf("%s takes %q, which is a path", m, name)
			case m == "apt" && strings.HasSuffix(name, "-"):
				t.Errorf("apt takes %q, which it removes", name)
			}
			for _, r := range name {
				if r > '~' {
					t.Errorf("%s takes %q, which is not ASCII", m, name)
				}
			}
		}
	})
}
