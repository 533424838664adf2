//go:build unix

package gate_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"airlock/internal/tool"
)

// TestBrokenPoliciesDenyEverything: in no layer does a file that cannot be read count for
// none.
func TestBrokenPoliciesDenyEverything(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(outside, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, w *world)
		rule  string
		why   []string
	}{
		{"a user's that is torn", func(_ *testing.T, w *world) { w.write(w.opts.User, "version: 1\nrules:\n- nam: x\n") }, "user/unreadable", []string{":3:3:", `did you mean "name"?`, "airlock policy check"}},
		{"a user's whose test fails", func(_ *testing.T, w *world) { w.user("rules: [{name: a, program: ls, match: [rm x]}]\n") }, "user/unreadable", []string{"rule a", "does not match"}},
		{"a system's", func(_ *testing.T, w *world) { w.write(w.system, "") }, "system/unreadable", []string{"version: 1"}},
		{"a project's", func(_ *testing.T, w *world) { w.inProject("rules: 7\n") }, "project/unreadable", []string{".airlock/policy.yaml:2"}},
		{"a project's parent's", func(_ *testing.T, w *world) { w.write("src/.airlock/policy.yaml", "x") }, "project/unreadable", []string{"src/.airlock/policy.yaml"}},
		{"a user's that others may write to", func(t *testing.T, w *world) { w.user(""); must(t, os.Chmod(w.opts.User, 0o666)) }, "user/unreadable", []string{"0666", "chmod go-w /"}},
		{"a user's that the group may write to", func(t *testing.T, w *world) { w.user(""); must(t, os.Chmod(w.opts.User, 0o620)) }, "user/unreadable", []string{"0620", "chmod go-w"}},
		{"a system's in a folder that others may write to", func(t *testing.T, w *world) {
			w.write(w.system, "version: 1\n")
			must(t, os.Chmod(filepath.Dir(w.system), 0o777))
		}, "system/unreadable", []string{"0777", "chmod go-w"}},
		{"a project's that is a link out of it", func(t *testing.T, w *world) {
			must(t, os.Mkdir(w.project+"/.airlock", 0o755))
			must(t, os.Symlink(outside, w.project+"/.airlock/policy.yaml"))
		}, "project/unreadable", []string{"not a link out of it"}},
		{"a project's folder that is a link out of it", func(t *testing.T, w *world) {
			must(t, os.Mkdir(w.home+"/elsewhere", 0o755))
			w.write("elsewhere/policy.yaml", "version: 1\n")
			must(t, os.Symlink(w.home+"/elsewhere", w.project+"/.airlock"))
		}, "project/unreadable", []string{"not a link out of it"}},
		{"a project's that is a link to nothing", func(t *testing.T, w *world) {
			must(t, os.Mkdir(w.project+"/.airlock", 0o755))
			must(t, os.Symlink("nothing", w.project+"/.airlock/policy.yaml"))
		}, "project/unreadable", nil},
		{"a project's that is a folder", func(t *testing.T, w *world) { must(t, os.MkdirAll(w.project+"/.airlock/policy.yaml", 0o755)) }, "project/unreadable", []string{"not a regular file"}},
		{"a project's that is a pipe", func(t *testing.T, w *world) {
			must(t, os.Mkdir(w.project+"/.airlock", 0o755))
			must(t, syscall.Mkfifo(w.project+"/.airlock/policy.yaml", 0o600))
		}, "project/unreadable", []string{"not a regular file"}},
		{"a project's that is large", func(_ *testing.T, w *world) { w.inProject(strings.Repeat("# x\n", 100_000)) }, "project/unreadable", []string{"larger than"}},
		{"a user's that is a link to nothing", func(t *testing.T, w *world) { must(t, os.Symlink("nothing", w.opts.User)) }, "user/unreadable", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.spoil(t, w)
			g := w.gate()
			for _, line := range []string{"ls", "touch x"} {
				for _, where := range []tool.Where{tool.OnHost, tool.InSandbox} {
					q := w.question(line)
					q.Where = where
					j := g.Judge(context.Background(), q)
					want(t, line, j, tool.Deny, tt.rule)
					for _, part := range tt.why {
						if !strings.Contains(j.Why, part) {
							t.Errorf("why is %q, want %q in it", j.Why, part)
						}
					}
				}
			}
			if o := g.Show(w.project); o.Error == "" {
				t.Error("Show says nothing of it")
			}
		})
	}
}

func TestAProjectsPolicyMayBeALinkInIt(t *testing.T) {
	w := newWorld(t)
	w.write(w.project+"/.airlock/base.yaml", "version: 1\nrules: [{name: r, program: ls}]\n")
	if err := os.Symlink("base.yaml", w.project+"/.airlock/policy.yaml"); err != nil {
		t.Fatal(err)
	}
	want(t, "ls", w.line("ls"), tool.Deny, "project/r")
}

func TestAUsersPolicyMayBeALink(t *testing.T) {
	w := newWorld(t)
	w.write("dotfiles/airlock.yaml", "version: 1\nrules: [{name: r, program: ls}]\n")
	if err := os.Symlink(w.home+"/dotfiles/airlock.yaml", w.opts.User); err != nil {
		t.Fatal(err)
	}
	want(t, "ls", w.line("ls"), tool.Deny, "user/r")
}

func TestProjectPoliciesAddUp(t *testing.T) {
	w := newWorld(t)
	w.inProject("rules: [{name: inner, program: ls}]\n")
	w.write("src/.airlock/policy.yaml", "version: 1\nrules: [{name: outer, program: cat}]\n")
	w.write(filepath.Dir(w.home)+"/.airlock/policy.yaml", "version: 1\nrules: [{name: beyond, program: wc}]\n")
	// A repository within the project does not hide what the folders above it say.
	inner := w.project + "/vendor/inner"
	if err := os.MkdirAll(inner+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	g := w.gate()
	for line, rule := range map[string]string{"ls": "project/inner", "cat x": "project/outer"} {
		q := w.question(line)
		q.WorkDir = inner
		want(t, line, g.Judge(context.Background(), q), tool.Deny, rule)
	}
	want(t, "wc x", w.line("wc x"), tool.Allow, "default read-only") // above the home folder
}

// TestAHostileProject: whatever a project's policy says, nothing is allowed that was not,
// and what it tried is said.
func TestAHostileProject(t *testing.T) {
	lines := []string{"ls", "touch x", "rm -rf ~", "rm -rf src", "cat ~/.ssh/id", "curl example.com", "sudo ls", "git push"}
	before := newWorld(t)
	w := newWorld(t)
	w.inProject(`defaults: {read-only: allow, writes inside: allow, network: allow, package: allow, service: allow, writes outside: allow}
rules:
- {name: all, verdict: allow, tool: "*"}
- {name: every-risk, verdict: allow, tool: "*", risk: [destructive, privileged, unknown, network, writes inside, writes outside]}
- {name: delete-home, verdict: allow, program: rm}
- {name: git, verdict: allow, program: git, match: [git push]}
`)
	for _, line := range lines {
		was, is := before.line(line), w.line(line)
		if is.Verdict > was.Verdict {
			t.Errorf("%s: %s by %s, and without the project's policy %s", line, is.Verdict, is.Rule, was.Verdict)
		}
	}
	notes := strings.Join(w.gate().Show(w.project).Notes, "\n")
	for _, part := range []string{"policy.yaml:4: rule all", "rule every-risk", "rule delete-home", "rule git", "default for network"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes are %q, want %q among them", notes, part)
		}
	}
}

func TestPoliciesAreReadAgainWhenTheyChange(t *testing.T) {
	w := newWorld(t)
	g := w.gate()
	admit := func() (tool.Verdict, string) {
		j, _ := g.Admit(context.Background(), w.question("ls"))
		return j.Verdict, j.Rule
	}
	steps := []struct {
		name    string
		change  func()
		verdict tool.Verdict
		rule    string
	}{
		{"nothing yet", func() {}, tool.Allow, "default read-only"},
		{"a user's comes", func() { w.user("rules: [{name: one, program: ls}]\n") }, tool.Deny, "user/one"},
		{"it is replaced", func() { w.user("rules: [{name: two, program: ls, verdict: ask}]\n") }, tool.Ask, "user/two"},
		{"it breaks", func() { w.user("x") }, tool.Deny, "user/unreadable"},
		{"it is made worse by its mode alone", func() { w.user(""); _ = os.Chmod(w.opts.User, 0o666) }, tool.Deny, "user/unreadable"},
		{"it is mended", func() { _ = os.Chmod(w.opts.User, 0o600) }, tool.Allow, "default read-only"},
		{"it goes", func() { _ = os.Remove(w.opts.User) }, tool.Allow, "default read-only"},
		{"a project's comes", func() { w.inProject("rules: [{name: p, program: ls}]\n") }, tool.Deny, "project/p"},
	}
	for _, s := range steps {
		s.change()
		if v, rule := admit(); v != s.verdict || rule != s.rule {
			t.Errorf("%s: %s by %s, want %s by %s", s.name, v, rule, s.verdict, s.rule)
		}
	}
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	w.user("rules: [{name: r, program: git, args: [push], where: host, verdict: ask, why: because}]\n")
	o := w.gate().Show(w.project)
	if len(o.Layers) != 3 || o.Layers[0].Name != "builtin" || o.Layers[1].State != "absent" || o.Layers[2].File != w.opts.User || o.Error != "" {
		t.Fatalf("Show = %+v", o)
	}
	r := o.Layers[2].Rules[0]
	if r.Name != "user/r" || r.Line != 2 || r.Verdict != tool.Ask || r.Where != "host" || r.What != "program git; args push" || r.Why != "because" {
		t.Errorf("the rule is %+v", r)
	}
	if o.Defaults[tool.RiskReadOnly] != tool.Allow || o.Defaults[tool.RiskDestructive] != tool.Ask {
		t.Errorf("the defaults are %v", o.Defaults)
	}
}
