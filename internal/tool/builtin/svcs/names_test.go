package svcs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/builtin/svcs"
)

// hostile are names that no manager may ever be given.
var hostile = []string{
	"", " ", "-", "--", "--now", "-H", "--host=evil", "-Mcontainer", "--root=/tmp", "-.mount", "-.slice",
	"; rm -rf /", "nginx; id", "$(id)", "`id`", "${HOME}", "nginx|id", "nginx&", "nginx>x", "'nginx'", `"nginx"`,
	"/etc/systemd/system/x.service", "./x.service", "../x", "a/b", "/dev/sda", "..", ".", ".service", "system/x", "gui/501/x",
	"nginx*", "*", "?", "[a-z]", "nginx.service nginx2.service", "nginx\n", "nginx\nid", "nginx\x00", "nginx\t", " nginx", "nginx ",
	"nginх", "ｎginx", "nginx\u200b", "\u202enginx", "nginx\xff", "%u", "nginx%i", "a=b", "a,b", "a(b)", "a!b", "a~b", "a^b", "a#b",
	strings.Repeat("n", 300),
}

func TestNoManagerIsGivenANameThatIsNone(t *testing.T) {
	for _, m := range svcs.Managers() {
		for _, name := range hostile {
			if unit, err := svcs.CheckName(m, name); err == nil {
				t.Errorf("%s takes %q for the service %q", m, name, unit)
			}
		}
	}
}

func TestUnitsAreNamedInFull(t *testing.T) {
	for _, c := range []struct{ name, service, unit string }{
		{"a service", "nginx", "nginx.service"},
		{"one with its suffix", "nginx.service", "nginx.service"},
		{"a socket", "ssh.socket", "ssh.socket"},
		{"a timer", "apt-daily.timer", "apt-daily.timer"},
		{"an instance", "getty@tty1", "getty@tty1.service"},
		{"an escaped instance", `systemd-fsck@dev-disk-by\x2duuid`, `systemd-fsck@dev-disk-by\x2duuid.service`},
		{"a template", "getty@", "getty@.service"},
		{"a bus name", "dbus-org.freedesktop.hostname1", "dbus-org.freedesktop.hostname1.service"},
		{"another suffix is a part of the name", "php8.2-fpm", "php8.2-fpm.service"},
		{"the longest name", strings.Repeat("n", 247), strings.Repeat("n", 247) + ".service"},
		{"a name too long with its suffix", strings.Repeat("n", 248), ""},
		{"two instances", "a@b@c", ""},
		{"a target", "poweroff.target", ""},
		{"a mount", "home.mount", ""},
		{"a slice", "user.slice", ""},
		{"a scope", "session-1.scope", ""},
		{"a device", "dev-sda.device", ""},
		{"what turns the machine off", "systemd-poweroff", ""},
		{"what turns the machine off, with its suffix", "systemd-reboot.service", ""},
		{"what ends all sessions", "rescue.service", ""},
	} {
		unit, err := svcs.CheckName("systemd", c.service)
		if (err == nil) != (c.unit != "") || unit != c.unit {
			t.Errorf("%s: %q, %v; want %q", c.name, unit, err, c.unit)
		}
	}
	for _, off := range []string{"halt", "reboot", "shutdown.sh", "killprocs"} {
		if _, err := svcs.CheckName("openrc", off); err == nil {
			t.Errorf("openrc takes %s for a service", off)
		}
	}
}

func TestActionsNameTheUnitOnce(t *testing.T) {
	for _, m := range svcs.Managers() {
		for _, action := range []string{"start", "stop", "restart", "reload", "enable", "disable"} {
			argv := svcs.Argvs(m)[action]
			named := 0
			for _, arg := range argv {
				named += strings.Count(arg, "%u")
			}
			if named != 1 {
				t.Errorf("%s %s: %q names the unit %d times", m, action, argv, named)
			}
			if m != "launchd" && !slices.Contains(argv, "--") { // its units begin with their domain
				t.Errorf("%s %s: %q has no --", m, action, argv)
			}
		}
	}
}

func TestTheRegistryTakesTheTools(t *testing.T) {
	r, err := tool.NewRegistry(svcs.Tools()...)
	if err != nil {
		t.Fatalf("NewRegistry: %v", err)
	}
	for _, c := range []struct {
		name, action, args string
		want               tool.ErrorCode
	}{
		{"svc.manage", "restart", `{"service": "nginx"}`, ""}, // the specification's own
		{"svc.manage", "start", `{"service": "getty@tty1"}`, ""},
		{"svc.manage", "status", `{"service": "a\\x2db"}`, ""},
		{"services", "list", `{}`, ""},
		{"services", "list", `{"state": "all", "filter": "ssh*", "max": 5}`, ""},
		{"svc.manage", "start", `{}`, tool.InvalidArgs},
		{"svc.manage", "start", `{"service": ""}`, tool.InvalidArgs},
		{"svc.manage", "start", `{"service": "--now"}`, tool.InvalidArgs},
		{"svc.manage", "start", `{"service": ["nginx"]}`, tool.InvalidArgs},
		{"svc.manage", "start", `{"service": "nginx", "force": true}`, tool.InvalidArgs},
		{"svc.manage", "mask", `{"service": "nginx"}`, tool.InvalidArgs},
		{"services", "list", `{"state": "gone"}`, tool.InvalidArgs},
	} {
		var got tool.ErrorCode
		if res := r.Check(tool.Call{Tool: c.name, Action: c.action, Args: json.RawMessage(c.args)}); res != nil {
			got = res.Code()
		}
		if got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.name, c.action, c.args, got, c.want)
		}
	}
	for _, info := range r.List() {
		for _, a := range info.Actions {
			reads := info.Name == "services" || a.Name == "status"
			if (a.Risk == tool.RiskReadOnly) != reads || !reads && a.Risk != tool.RiskService || a.Place != tool.HostOnly || !slices.Contains(a.Needs, tool.NeedServices) {
				t.Errorf("%s %s: risk %s, place %q, needs %v", info.Name, a.Name, a.Risk, a.Place, a.Needs)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Add("getty@tty1.service")
	all := svcs.Managers()
	f.Fuzz(func(t *testing.T, name string) {
		for _, m := range all {
			unit, err := svcs.CheckName(m, name)
			if err != nil {
				continue
			}
			if unit == "" || len(unit) > 255 || !strings.HasPrefix(unit, name) || strings.HasPrefix(unit, "-") || strings.HasPrefix(unit, ".") {
				t.Errorf("%s takes %q for the service %q", m, name, unit)
			}
			for _, r := range unit {
				if r > '~' || strings.ContainsRune("/ \t\r\n\x00;&|$`'\"<>(){}[]*?!#,%=~^", r) {
					t.Errorf("%s takes %q for the service %q", m, name, unit)
				}
			}
		}
	})
}
