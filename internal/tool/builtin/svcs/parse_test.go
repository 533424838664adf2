package svcs_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool/builtin/svcs"
)

func TestWhatAUnitDoesIsRead(t *testing.T) {
	show := func(load, active, sub string) string {
		return "Id=x.service\nDescription=X = Y\nLoadState=" + load + "\nActiveState=" + active + "\nSubState=" + sub + "\nUnitFileState=enabled\n"
	}
	for _, c := range []struct{ name, output, want string }{
		{"it runs", show("loaded", "active", "running"), "running"},
		{"it did its work", show("loaded", "active", "exited"), "exited"},
		{"a socket listens", show("loaded", "active", "listening"), "running"},
		{"it is stopped", show("loaded", "inactive", "dead"), "stopped"},
		{"it failed", show("loaded", "failed", "failed"), "failed"},
		{"it starts", show("loaded", "activating", "start-pre"), "starting"},
		{"it stops", show("loaded", "deactivating", "stop-sigterm"), "stopping"},
		{"it reloads", show("loaded", "reloading", "reload"), "reloading"},
		{"its file is gone, but it runs", show("not-found", "active", "running"), "running"},
		{"a word that is not known", show("loaded", "dreaming", "x"), "unknown"},
		{"there is none", show("not-found", "inactive", "dead"), ""},
		{"another name of what turns the machine off", strings.Replace(show("loaded", "inactive", "dead"), "Id=x", "Id=systemd-poweroff", 1), ""},
		{"nothing", "", ""},
		{"nonsense", "\x00=\n====\n", ""},
	} {
		s, err := svcs.ReadShow("x.service", c.output)
		if (err == nil) != (c.want != "") || err == nil && (s.State != c.want || s.Name != "x.service" || s.Enabled != "enabled" || s.Description != "X = Y") {
			t.Errorf("%s: %+v, %v; want state %q", c.name, s, err, c.want)
		}
	}
}

func TestListsAreRead(t *testing.T) {
	units := "a.service loaded active running The first  one\nb.service loaded failed failed B\nc.service not-found inactive dead c.service\n"
	files := "a.service enabled enabled\nb.service static -\nd.service disabled enabled\ne@.service static -\nf.service alias -\n"
	want := []svcs.Service{
		{Name: "a.service", State: "running", Enabled: "enabled", Description: "The first one"},
		{Name: "b.service", State: "failed", Enabled: "static", Description: "B"},
		{Name: "d.service", State: "stopped", Enabled: "disabled"},
	}
	if got := svcs.ReadLists(units, files); !slices.Equal(got, want) {
		t.Errorf("systemd: %+v, want %+v", got, want)
	}
	want = []svcs.Service{{Name: "sshd", State: "running"}, {Name: "ntpd", State: "failed"}, {Name: "x", State: "unknown"}}
	if got := svcs.ReadRCStatus("Runlevel: default\n sshd      [  started 00:10:02 (0) ]\n ntpd  [  crashed  ]\n x [ new ]\n"); !slices.Equal(got, want) {
		t.Errorf("OpenRC: %+v, want %+v", got, want)
	}
	if got := svcs.ReadRunlevels("  sshd | default boot\n  ntpd |       \n"); !maps.Equal(got, map[string]string{"sshd": "default boot", "ntpd": ""}) {
		t.Errorf("OpenRC: %v", got)
	}
}

// What launchctl writes is taken from its manual and from what people quote of it: nothing
// here has spoken to a real launchd.
func TestLaunchctlIsRead(t *testing.T) {
	want := []svcs.Service{
		{Name: "com.apple.mDNSResponder", State: "running"}, {Name: "com.example.broken", State: "failed"}, {Name: "com.openssh.sshd", State: "stopped"},
	}
	if got := svcs.ReadLaunchctl("PID\tStatus\tLabel\n351\t0\tcom.apple.mDNSResponder\n-\t78\tcom.example.broken\n-\t0\tcom.openssh.sshd\n"); !slices.Equal(got, want) {
		t.Errorf("list: %+v, want %+v", got, want)
	}
	for output, want := range map[string]string{
		"system/x = {\n\tactive count = 1\n\tstate = running\n\tpid = 3\n}\n": "running",
		"system/x = {\n\tstate = not running\n}\n":                            "stopped",
		"system/x = {\n}\n": "unknown",
	} {
		if got := svcs.ReadPrint(output); got != want {
			t.Errorf("print %q: %s, want %s", output, got, want)
		}
	}
	got := svcs.ReadDisabled("disabled services = {\n\t\"a\" => disabled\n\t\"b\" => enabled\n\t\"c\" => true\n\t\"d\" => false\n}\n")
	if !maps.Equal(got, map[string]bool{"a": true, "c": true}) {
		t.Errorf("print-disabled: %v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a.service loaded active running The first\n")
	f.Add("Id=x\nLoadState=loaded\nActiveState=active\n")
	f.Add(" sshd [ started ]\n x | default\n351\t0\tlabel\n\t\"a\" => disabled\n")
	states := []string{"running", "stopped", "failed", "starting", "stopping", "reloading", "exited", "unknown"}
	f.Fuzz(func(t *testing.T, output string) {
		check := func(list []svcs.Service) {
			for _, s := range list {
				if s.Name == "" || strings.Contains(s.Name+s.Description, "\n") || !slices.Contains(states, s.State) {
					t.Errorf("%q: %+v", output, s)
				}
			}
		}
		check(svcs.ReadLists(output, output))
		check(svcs.ReadRCStatus(output))
		check(svcs.ReadLaunchctl(output))
		if s, err := svcs.ReadShow("x", output); err == nil {
			check([]svcs.Service{s})
		}
		if s := svcs.ReadPrint(output); !slices.Contains(states, s) {
			t.Errorf("%q: %q", output, s)
		}
		svcs.ReadDisabled(output)
		svcs.ReadRunlevels(output)
	})
}
