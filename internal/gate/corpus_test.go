package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/gate"
	"airlock/internal/tool"
)

// corpus reads the lines of one of shellrisk's corpora, in which a ⏎ stands for a line's end.
func corpus(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile("shellrisk/testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "## ") {
			out = append(out, strings.ReplaceAll(line, "⏎", "\n"))
		}
	}
	if len(out) < 10 {
		t.Fatalf("%s holds %d lines", name, len(out))
	}
	return out
}

// loose allows about as much as a policy can without naming a severe risk.
const loose = `defaults: {writes inside: allow, network: allow, package: allow, service: allow, writes outside: allow}
rules:
- {name: everything, verdict: allow, tool: "*"}
- {name: programs, verdict: allow, program: "*"}
- {name: files, verdict: allow, paths: ["/**"]}
- {name: git, verdict: allow, program: [git, rm, find, bash, sh, xargs, env, python3, tar, dd, ls, echo, cat]}
`

// TestNothingDestructiveIsAllowedUnasked: neither by the policy that is built in, nor by
// the loosest that names no severe risk.
func TestNothingDestructiveIsAllowedUnasked(t *testing.T) {
	for _, rules := range []string{"", loose} {
		w := newWorld(t)
		w.user(rules)
		g := w.gate()
		for _, name := range []string{"destructive", "evasions", "privileged"} {
			for _, line := range corpus(t, name) {
				if j := g.Judge(context.Background(), w.question(line)); j.Verdict == tool.Allow {
					t.Errorf("%s: %q is allowed by %s as %s", name, line, j.Rule, j.Risk)
				}
			}
		}
	}
}

func TestReadOnlyLinesAreNotAskedAbout(t *testing.T) {
	w := newWorld(t)
	g := w.gate()
	for _, name := range []string{"readonly", "heldout-readonly"} {
		lines, asked := corpus(t, name), 0
		for _, line := range lines {
			if j := g.Judge(context.Background(), w.question(line)); j.Verdict != tool.Allow {
				asked++
				t.Logf("%s: %q: %s by %s: %s", name, line, j.Verdict, j.Rule, j.Why)
			}
		}
		if asked*20 > len(lines) {
			t.Errorf("%s: %d of %d lines are asked about, want one in twenty at most", name, asked, len(lines))
		}
	}
}

// TestDenyRulesCannotBeDodged: however a command is dressed, a rule that denies it is not
// dodged: the line is denied, or at least asked about.
func TestDenyRulesCannotBeDodged(t *testing.T) {
	w := newWorld(t)
	w.user(loose + "- {name: no-format, program: zfmt, args: ['--wipe|-w'], why: never}\n")
	g := w.gate()
	for _, line := range []string{
		"zfmt --wipe x", "zfmt -w", "zfmt -aw", "zfmt x --wipe=now", "zfmt --wip", `zfmt "--wi""pe"`, `zfmt $'--wi\x70e'`, "zfmt --w*",
		`z\fmt -w`, `"zfmt" -w`, "/opt/zfmt -w", "./zfmt -w", "../../zfmt -w", "zf{mt,} -w", "zfm? -w", "$(echo zfmt) -w", "`echo zfmt` -w", "${x:-zfmt} -w",
		"x=zfmt; $x -w", "x=-w; zfmt $x", "zfmt $(echo -w)", "zfmt `cat opts`", "zfmt @opts -w", "A=b zfmt -w", "env zfmt -w", "env -i A=b zfmt -w", "env -S 'zfmt -w'",
		"nohup zfmt -w &", "timeout 3 zfmt -w", "nice -n 3 zfmt -w", "setsid zfmt -w", "stdbuf -o0 zfmt -w", "time zfmt -w", "command zfmt -w", "exec zfmt -w", "builtin command zfmt -w",
		"sudo zfmt -w", "doas zfmt -w", "su -c 'zfmt -w'", "bash -c 'zfmt -w'", "bash -lc 'zfmt -w'", "sh -c \"zfmt -w\"", "bash <<< 'zfmt -w'", "bash <<E\nzfmt -w\nE", "echo 'zfmt -w' | sh",
		"eval zfmt -w", "eval 'zfmt' '-w'", "source <(echo zfmt -w)", ". ./x", "trap 'zfmt -w' EXIT", "alias a='zfmt -w'; a", "f() { zfmt -w; }; f", "zfmt() { :; }; unset -f zfmt; zfmt -w",
		"echo x | xargs zfmt -w", "echo -w | xargs zfmt", "find . -exec zfmt -w {} \\;", "find . -execdir zfmt -w {} +", "ls | parallel zfmt -w", "watch zfmt -w", "flock l zfmt -w", "script -c 'zfmt -w'",
		"ls; zfmt -w", "ls && zfmt -w", "ls || zfmt -w", "ls & zfmt -w", "ls | zfmt -w", "(zfmt -w)", "{ zfmt -w; }", "! zfmt -w", "if zfmt -w; then :; fi", "while zfmt -w; do :; done",
		"for i in 1; do zfmt -w; done", "case x in x) zfmt -w;; esac", "[[ $(zfmt -w) ]]", "echo $(zfmt -w)", "echo \"$(zfmt -w)\"", "cat <(zfmt -w)", "echo ${a:-$(zfmt -w)}", "echo $((a[$(zfmt -w)]))",
		"test -v 'a[$(zfmt -w)]'", "coproc zfmt -w", "cat <<E\n$(zfmt -w)\nE", "git -c alias.x='!zfmt -w' x", "git -c core.pager='zfmt -w' log", "tar cf /dev/null --to-command='zfmt -w' x",
		"ls\nzfmt -w", "ls\r\nzfmt -w", "zfmt\t-w", "zfmt -w # harmless", "zfmt \\\n -w", "zfmt -w\x00", "zfmt\u00a0-w", "\u200bzfmt -w", "python3 -c 'import os; os.system(\"zfmt -w\")'", "perl -e 'exec qw(zfmt -w)'",
		"awk 'BEGIN{system(\"zfmt -w\")}'", "sed '1e zfmt -w' x", "vim -c '!zfmt -w'", "ssh localhost zfmt -w", "make -f <(printf 'a:\\n\\tzfmt -w\\n')",
	} {
		if j := g.Judge(context.Background(), w.question(line)); j.Verdict == tool.Allow {
			t.Errorf("%q is allowed by %s as %s: %s", line, j.Rule, j.Risk, j.Why)
		}
	}
	for _, line := range []string{"zfmt -w", "ls | zfmt --wipe x", "nohup zfmt -aw &", "bash -c 'zfmt -w'"} {
		want(t, line, g.Judge(context.Background(), w.question(line)), tool.Deny, "user/no-format")
	}
}

// TestAllowRulesStayWithWhatTheySay: a rule for a harmless line is no way to another.
func TestAllowRulesStayWithWhatTheySay(t *testing.T) {
	w := newWorld(t)
	w.user("rules: [{name: build, verdict: allow, program: zbuild, args: [fast], risk: [unknown]}]\n")
	g := w.gate()
	for line, verdict := range map[string]tool.Verdict{
		"zbuild fast":                        tool.Allow,
		"zbuild fast --all x":                tool.Allow,
		"ls && zbuild fast | head":           tool.Allow,
		"zbuild":                             tool.Ask,
		"zbuild slow fast":                   tool.Ask,
		"zbuild -- slow":                     tool.Ask,
		"zbuild fast; rm -rf x":              tool.Ask,
		"zbuild fast && zother":              tool.Ask,
		"zbuild fast | sh":                   tool.Ask,
		"zbuild fast $(zother)":              tool.Ask,
		"zbuild fast `zother`":               tool.Ask,
		"zbuild fast <(zother)":              tool.Ask,
		"zbuild fast > x":                    tool.Ask,
		"zbuild fast >> ~/.bashrc":           tool.Ask,
		"zbuild fast < ~/.ssh/id":            tool.Ask,
		"zbuild fast $X":                     tool.Ask,
		"zbuild fast *":                      tool.Ask,
		"$X fast":                            tool.Ask,
		"zbuild $X":                          tool.Ask,
		"./zbuild fast":                      tool.Ask,
		"/tmp/zbuild fast":                   tool.Ask,
		"/usr/bin/zbuild fast":               tool.Allow,
		"PATH=/tmp zbuild fast":              tool.Ask,
		"LD_PRELOAD=x zbuild fast":           tool.Ask,
		"export PATH=/tmp; zbuild fast":      tool.Ask,
		"sudo zbuild fast":                   tool.Ask,
		"cd /tmp; zbuild fast":               tool.Ask,
		"zbuild() { zother; }; zbuild fast":  tool.Ask,
		"alias zbuild=zother\nzbuild fast":   tool.Ask,
		"hash -p /tmp/x zbuild; zbuild fast": tool.Ask,
		"xargs zbuild fast":                  tool.Ask,
		"bash -c 'zbuild fast; zother'":      tool.Ask,
		"zbu\u0456ld fast":                   tool.Ask, // a Cyrillic letter
		"zbuild\u00a0fast":                   tool.Ask,
		"zbuild fast\r\nzother":              tool.Ask,
	} {
		if j := g.Judge(context.Background(), w.question(line)); j.Verdict != verdict {
			t.Errorf("%q: %s by %s (%s), want %s", line, j.Verdict, j.Rule, j.Why, verdict)
		}
	}
}

// FuzzArguments: a call whose arguments could be read in two ways is denied, and no
// arguments end the gate.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"command":"ls"}`))
	f.Add([]byte(`{"command":"ls","Command":"rm"}`))
	f.Add([]byte(`{"command":"ls","working_directory":"/etc"} {}`))
	f.Add([]byte(`{"command":"rm -rf /","paths":["a",1]}`))
	g, err := gate.New(&gate.Options{Builtin: []byte(asks), NoProject: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		q := &tool.Question{
			Call:    tool.Call{Tool: "cmd.run", Action: "execute", Args: args},
			Action:  &tool.Action{Risk: tool.RiskUnknown, Command: "command", Paths: []string{"paths"}, Hosts: []string{"hosts"}},
			WorkDir: "/nowhere",
		}
		j := g.Judge(context.Background(), q)
		var any map[string]json.RawMessage
		if json.Unmarshal(args, &any) != nil && j.Verdict != tool.Deny {
			t.Errorf("%q: %s, and it is no object", args, j.Verdict)
		}
		var loose struct {
			Command string `json:"command"`
		}
		if j.Verdict == tool.Allow && json.Unmarshal(args, &loose) == nil && string(any["command"]) != "" {
			var exact string
			if json.Unmarshal(any["command"], &exact) != nil || exact != loose.Command {
				t.Errorf("%q: judged as %q, and another reader reads %q", args, exact, loose.Command)
			}
		}
	})
}

// FuzzLine: no line ends the gate or gives a judgement that is not whole.
func FuzzLine(f *testing.F) {
	for _, line := range []string{"ls", "rm -rf ~/*", "cat <(a) > b", "git push -f", "$x", "a=1 b && c | d"} {
		f.Add(line)
	}
	g, err := gate.New(&gate.Options{NoProject: true, Homes: []string{"/nowhere/home"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args, _ := json.Marshal(map[string]string{"command": line})
		q := &tool.Question{Call: tool.Call{Tool: "cmd.run", Args: args}, Action: &tool.Action{Command: "command"}, WorkDir: "/nowhere/home/x", Env: map[string]string{"HOME": "/nowhere/home"}}
		j := g.Judge(context.Background(), q)
		if j.Rule == "" || j.Why == "" || j.Risk == "" || strings.ContainsAny(j.Why, "\x1b\n") {
			t.Errorf("%q: %+v", line, j)
		}
		if j.Verdict == tool.Allow && j.Risk != tool.RiskReadOnly {
			t.Errorf("%q is allowed as %s", line, j.Risk)
		}
	})
}

// BenchmarkJudge judges real command lines with the policy that is built in and fifty
// rules of a user's. Every line's verdict is worked out anew.
func BenchmarkJudge(b *testing.B) {
	var lines []string
	for _, name := range []string{"readonly", "writes", "outside", "destructive", "network", "package", "service", "privileged", "unknown"} {
		lines = append(lines, corpus(b, name)...)
	}
	rules := "rules:\n"
	for i := range 50 {
		switch i % 5 {
		case 0:
			rules += fmt.Sprintf("- {name: r%d, program: tool%d, args: [push, '-f|--force'], match: [tool%d push -f]}\n", i, i, i)
		case 1:
			rules += fmt.Sprintf("- {name: r%d, paths: ['~/private%d/**'], op: read, verdict: ask, certain: true}\n", i, i)
		case 2:
			rules += fmt.Sprintf("- {name: r%d, program: [git, make, cargo], args: [sub%d], verdict: allow}\n", i, i)
		case 3:
			rules += fmt.Sprintf("- {name: r%d, hosts: '*.h%d.example'}\n", i, i)
		case 4:
			rules += fmt.Sprintf("- {name: r%d, program: docker, args: [run, '--privileged|-v%d']}\n", i, i)
		}
	}
	dir := b.TempDir()
	user := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(user, []byte("version: 1\n"+rules), 0o600); err != nil {
		b.Fatal(err)
	}
	g, err := gate.New(&gate.Options{User: user, Homes: []string{dir}, HostIdentity: "you@box:1"})
	if err != nil {
		b.Fatal(err)
	}
	questions := make([]*tool.Question, len(lines))
	for i, line := range lines {
		args, _ := json.Marshal(map[string]string{"command": line})
		questions[i] = &tool.Question{
			Call:    tool.Call{Tool: "cmd.run", Action: "execute", Args: args},
			Action:  &tool.Action{Risk: tool.RiskUnknown, Command: "command"},
			WorkDir: dir, Env: map[string]string{"HOME": dir, "PWD": dir, "PATH": "/usr/bin:/bin"},
		}
	}
	if j := g.Judge(context.Background(), questions[0]); strings.HasSuffix(j.Rule, "/unreadable") {
		b.Fatal(j.Why)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		g.Judge(context.Background(), questions[i%len(questions)])
		i++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verdicts/s")
}

// TestPatternsAreHeldAgainstTheFolder: sort *.txt only reads, but where a name is an option.
func TestPatternsAreHeldAgainstTheFolder(t *testing.T) {
	w := newWorld(t)
	w.write(w.project+"/a.txt", "x")
	want(t, "sort *.txt", w.line("sort *.txt"), tool.Allow, "")
	w.write(w.project+"/-o.txt", "x")
	want(t, "sort *.txt beside -o.txt", w.line("sort *.txt"), tool.Ask, "default unknown")
}
