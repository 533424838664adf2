package gate_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"airlock/internal/tool"
)

func TestDefaults(t *testing.T) {
	w := newWorld(t)
	g := w.gate()
	for _, tt := range []struct {
		line    string
		verdict tool.Verdict
		risk    tool.Risk
	}{
		{"", tool.Allow, tool.RiskReadOnly},
		{"# nothing", tool.Allow, tool.RiskReadOnly},
		{"ls -la | head -3", tool.Allow, tool.RiskReadOnly},
		{"git status && git log", tool.Allow, tool.RiskReadOnly},
		{"touch here", tool.Ask, tool.RiskWritesInside},
		{"touch ../there", tool.Ask, tool.RiskWritesOutside},
		{"rm -rf build", tool.Ask, tool.RiskDestructive},
		{"ls; rm -rf build", tool.Ask, tool.RiskDestructive},
		{"sudo ls", tool.Ask, tool.RiskPrivileged},
		{"no-such-program-at-all", tool.Ask, tool.RiskUnknown},
		{"ls $(", tool.Ask, tool.RiskUnknown},
		{"$X", tool.Ask, tool.RiskUnknown},
	} {
		t.Run(tt.line, func(t *testing.T) {
			j := g.Judge(context.Background(), w.question(tt.line))
			if want(t, tt.line, j, tt.verdict, "default "+string(tt.risk)); j.Risk != tt.risk {
				t.Errorf("%s: risk %s, want %s", tt.line, j.Risk, tt.risk)
			}
			if j := w.sandboxed(tt.line); j.Verdict != tool.Allow || j.Risk != tt.risk {
				t.Errorf("%s in a sandbox: %s, %s by %s; want allow and the same risk", tt.line, j.Verdict, j.Risk, j.Rule)
			}
		})
	}
}

func TestRules(t *testing.T) {
	const (
		force  = "rules: [{name: r, program: git, args: [push, '-f|--force|+*'], why: no}]\n"
		askTar = "rules: [{name: r, program: [tar, zip], verdict: ask}]\n"
		denyRM = "rules: [{name: r, program: rm}]\n"
		keys   = "rules: [{name: r, paths: ['~/keys/**']}]\n"
		build  = "rules: [{name: r, verdict: allow, paths: ['./build/**'], op: [write, delete], risk: [writes inside, destructive]}]\n"
		npm    = "rules: [{name: r, verdict: allow, program: npm, args: [run, test], risk: unknown}]\n"
		host   = "rules: [{name: r, hosts: '*.example.com'}]\n"
		sudo   = "rules: [{name: r, program: sudo}]\n"
		root   = "rules: [{name: r, user: root}]\n"
		touch  = "rules: [{name: r, verdict: allow, program: touch}]\n"
	)
	for _, tt := range []struct {
		name, rules, line string
		verdict           tool.Verdict
		rule              string
	}{
		{"a deny rule denies", force, "git push --force", tool.Deny, "user/r"},
		{"without what it names it does not", force, "git push", tool.Ask, "default network"},
		{"a short option", force, "git push -f origin", tool.Deny, "user/r"},
		{"among others", force, "git push -uf origin", tool.Deny, "user/r"},
		{"an operand", force, "git push origin +main", tool.Deny, "user/r"},
		{"an option before the sub-command", force, "git -C x push --force", tool.Deny, "user/r"},
		{"an option shortened", force, "git push --forc", tool.Ask, "user/r"},
		{"quoted, escaped, doubled", force, `g"i"t pu\sh '--fo'rce`, tool.Deny, "user/r"},
		{"by its path", force, "/usr/bin/git push -f", tool.Deny, "user/r"},
		{"by some other path", force, "./git push -f", tool.Deny, "user/r"},
		{"behind a wrapper", force, "nohup timeout 5 env A=b git push -f", tool.Deny, "user/r"},
		{"in a shell in a shell", force, `bash -c "sh -c 'git push -f'"`, tool.Deny, "user/r"},
		{"in a substitution", force, "echo $(git push -f)", tool.Deny, "user/r"},
		{"in a compound command", force, "cd x && if true; then git push -f; fi", tool.Deny, "user/r"},
		{"a word that is not known may be it", force, `git "$A" -f`, tool.Ask, "user/r"},
		{"a program that is not known may be it", force, `$A push -f`, tool.Ask, "user/r"},
		{"a line that cannot be read may be it", force, `git push -f $(`, tool.Ask, "user/r"},
		{"another program is not", force, "git-lfs push --force", tool.Ask, "default unknown"},
		{"one of several programs", askTar, "zip -r x.zip .", tool.Ask, "user/r"},
		{"the strictest part decides", denyRM, "ls && rm x && cat y", tool.Deny, "user/r"},
		{"xargs", denyRM, "ls | xargs rm", tool.Deny, "user/r"},
		{"find", denyRM, `find . -name x -exec rm {} \;`, tool.Deny, "user/r"},

		{"a path below", keys, "cat ~/keys/a/b", tool.Deny, "user/r"},
		{"the folder itself", keys, "ls ~/keys", tool.Deny, "user/r"},
		{"another spelling", keys, "cat ~/src/../keys/./a", tool.Deny, "user/r"},
		{"a relative path", keys, "cat ../../keys/a", tool.Deny, "user/r"},
		{"after a change of folder", keys, "cd ~/keys && cat a", tool.Deny, "user/r"},
		{"a redirection", keys, "echo x > ~/keys/a", tool.Deny, "user/r"},
		{"a pattern of the shell's", keys, "cat ~/ke*/a", tool.Ask, "user/r"},
		{"a path that is not known", keys, `cat "$A"`, tool.Ask, "user/r"},
		{"the folder above, deleted", keys, "rm -rf ~/", tool.Deny, ""},
		{"the folder above, read with all in it", keys, "grep -r x ~", tool.Deny, "user/r"},
		{"the folder above, listed", keys, "ls ~", tool.Allow, "default read-only"},
		{"a name that begins like it", keys, "cat ~/keysmith", tool.Allow, "default read-only"},

		{"an allow rule allows", build, "rm -rf build/x", tool.Allow, "user/r"},
		{"no more than its paths", build, "rm -rf build/x src", tool.Ask, "default destructive"},
		{"nor what leads out of them", build, "rm -rf build/../src", tool.Ask, "default destructive"},
		{"nor what is not known", build, `rm -rf build/"$A"`, tool.Ask, ""},
		{"nor patterns", build, "rm -rf build/*", tool.Ask, ""},
		{"nor what stands beside it", build, "rm -rf build/x; rm -rf src", tool.Ask, "default destructive"},
		{"nor what is in a substitution", build, "rm -rf build/x$(rm -rf src)", tool.Ask, ""},

		{"a sub-command", npm, "npm run test", tool.Allow, "user/r"},
		{"another sub-command", npm, "npm run deploy", tool.Ask, ""},
		{"the same words elsewhere", npm, "npm exec run test", tool.Ask, ""},
		{"of a program in the working folder", npm, "./npm run test", tool.Ask, ""},
		{"with a variable that changes what it is", npm, "PATH=.:$PATH npm run test", tool.Ask, ""},
		{"with a library put before it", npm, "LD_PRELOAD=./x.so npm run test", tool.Ask, ""},
		{"redirected to a file that is not its own", npm, "npm run test > ~/.profile2", tool.Ask, ""},
		{"by the superuser", npm, "sudo npm run test", tool.Ask, ""},
		{"on another machine", npm, "ssh box npm run test", tool.Ask, ""},
		{"joined to something by a pipe", npm, "npm run test | sh", tool.Ask, ""},
		{"in another folder", npm, "cd /tmp && npm run test", tool.Ask, ""},
		{"in another folder, by a wrapper", npm, "env -C /tmp npm run test", tool.Ask, ""},
		{"behind a wrapper that changes nothing", npm, "timeout 60 npm run test", tool.Allow, "user/r"},
		{"with words after it", npm, "npm run test --silent", tool.Allow, "user/r"},
		{"with a word that is not known", npm, "npm run test $A", tool.Ask, ""},
		{"a function of its name", npm, "npm() { rm -rf src; }; npm run test", tool.Ask, ""},
		{"an alias of its name", npm, "alias npm='rm -rf src'; npm run test", tool.Ask, ""},

		{"an allow rule without a risk covers writes", touch, "touch a ../b", tool.Allow, "user/r"},
		{"but no privilege", touch, "sudo touch a", tool.Ask, "default privileged"},
		{"nor a redirection", touch, "touch a > ../b", tool.Ask, ""},

		{"a host", host, "curl https://api.example.com/x", tool.Deny, "user/r"},
		{"in capitals, with a port", host, "curl https://API.Example.COM:8443/x", tool.Deny, "user/r"},
		{"another host", host, "curl https://example.org/x", tool.Ask, "default network"},
		{"a host that is not known", host, `curl "https://$A/x"`, tool.Ask, ""},
		{"a wrapper", sudo, "sudo -u bob ls", tool.Deny, "user/r"},
		{"another's rights", root, "sudo ls", tool.Deny, "user/r"},
		{"one's own", root, "ls", tool.Allow, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.user(tt.rules)
			want(t, tt.line, w.line(tt.line), tt.verdict, tt.rule)
		})
	}
}

func TestStrictestWins(t *testing.T) {
	for _, tt := range []struct {
		name, system, user, project string
		verdict                     tool.Verdict
		rule                        string
	}{
		{"the user cannot loosen the system's deny", "rules: [{name: s, program: touch}]", "rules: [{name: u, program: touch, verdict: allow}]", "", tool.Deny, "system/s"},
		{"nor its ask", "rules: [{name: s, program: touch, verdict: ask}]", "rules: [{name: u, program: touch, verdict: allow}]", "", tool.Ask, "system/s"},
		{"nor its default", "defaults: {writes inside: ask}", "defaults: {writes inside: allow}", "", tool.Ask, "default writes-inside"},
		{"but the default that is built in", "", "defaults: {writes inside: allow}", "", tool.Allow, "default writes-inside"},
		{"the system allows", "rules: [{name: s, program: touch, verdict: allow}]", "", "", tool.Allow, "system/s"},
		{"the user tightens that", "rules: [{name: s, program: touch, verdict: allow}]", "rules: [{name: u, program: touch}]", "", tool.Deny, "user/u"},
		{"a project tightens", "", "rules: [{name: u, program: touch, verdict: allow}]", "rules: [{name: p, program: touch}]", tool.Deny, "project/p"},
		{"a project does not allow", "", "", "rules: [{name: p, program: touch, verdict: allow}]", tool.Ask, "default writes-inside"},
		{"a project does not loosen a default", "", "", "defaults: {writes inside: allow}", tool.Ask, "default writes-inside"},
		{"a project tightens a default", "", "defaults: {writes inside: allow}", "defaults: {writes inside: deny}", tool.Deny, "default writes-inside"},
		{"in a file, the deny wins wherever it stands", "", "rules: [{name: a, program: touch, verdict: allow}, {name: b, program: touch, verdict: ask}, {name: c, program: touch}]", "", tool.Deny, "user/c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if tt.system != "" {
				w.write(w.system, "version: 1\n"+tt.system+"\n")
			}
			if tt.user != "" {
				w.user(tt.user + "\n")
			}
			if tt.project != "" {
				w.inProject(tt.project + "\n")
			}
			want(t, "touch x", w.line("touch x"), tt.verdict, tt.rule)
		})
	}
}

func TestWhere(t *testing.T) {
	w := newWorld(t)
	w.user("rules:\n- {name: h, program: make, where: host}\n- {name: s, program: cargo, where: sandbox, verdict: ask}\n- {name: a, program: tar}\n")
	for _, tt := range []struct {
		line          string
		host, sandbox tool.Verdict
	}{
		{"make", tool.Deny, tool.Allow},
		{"cargo build", tool.Ask, tool.Ask},
		{"tar tf x.tar", tool.Deny, tool.Deny},
		{"rm -rf /", tool.Deny, tool.Allow}, // of what the sandbox sees: nothing of it comes out by itself
	} {
		if j := w.line(tt.line); j.Verdict != tt.host {
			t.Errorf("%s on the host: %s by %s, want %s", tt.line, j.Verdict, j.Rule, tt.host)
		}
		if j := w.sandboxed(tt.line); j.Verdict != tt.sandbox {
			t.Errorf("%s in a sandbox: %s by %s, want %s", tt.line, j.Verdict, j.Rule, tt.sandbox)
		}
	}
}

func TestFlagsRaiseAndNeverLower(t *testing.T) {
	w := newWorld(t)
	w.user("defaults: {writes inside: allow}\nrules: [{name: d, program: rm}]\n")
	g := w.gate()
	for _, tt := range []struct {
		name, line string
		flags      tool.Flags
		verdict    tool.Verdict
		risk       tool.Risk
		rule       string
	}{
		{"none", "ls", tool.Flags{}, tool.Allow, tool.RiskReadOnly, "default read-only"},
		{"destructive, of a line that only reads", "ls", tool.Flags{Destructive: true}, tool.Ask, tool.RiskDestructive, "flag is_destructive"},
		{"privileged", "touch x", tool.Flags{RequiresSudo: true}, tool.Ask, tool.RiskPrivileged, "flag requires_sudo"},
		{"a confirmation", "touch x", tool.Flags{NeedsConfirmation: true}, tool.Ask, tool.RiskWritesInside, "flag needs_confirmation"},
		{"all of them", "ls", tool.Flags{NeedsConfirmation: true, RequiresSudo: true, Destructive: true}, tool.Ask, tool.RiskDestructive, "flag is_destructive"},
		{"of what is denied", "rm x", tool.Flags{NeedsConfirmation: true}, tool.Deny, tool.RiskDestructive, "user/d"},
		{"privileged, of what is destructive", "truncate -s 0 x", tool.Flags{RequiresSudo: true}, tool.Ask, tool.RiskDestructive, "default destructive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := w.question(tt.line)
			q.Flags = tt.flags
			j := g.Judge(context.Background(), q)
			if want(t, tt.line, j, tt.verdict, tt.rule); j.Risk != tt.risk {
				t.Errorf("%s: risk %s, want %s", tt.line, j.Risk, tt.risk)
			}
			q.Where = tool.InSandbox
			if j := g.Judge(context.Background(), q); tt.verdict == tool.Ask && j.Verdict != tool.Allow || j.Risk != tt.risk {
				t.Errorf("%s in a sandbox: %s, %s; want the risk %s and no question", tt.line, j.Verdict, j.Risk, tt.risk)
			}
		})
	}
}

func TestCallsOfOtherTools(t *testing.T) {
	w := newWorld(t)
	if err := os.Symlink("/etc", w.project+"/out"); err != nil {
		t.Fatal(err)
	}
	w.write(".ssh/id", "key")
	read := &tool.Action{Name: "read", Risk: tool.RiskReadOnly, Paths: []string{"path"}}
	write := &tool.Action{Name: "write", Risk: tool.RiskWritesInside, Paths: []string{"path", "paths"}}
	install := &tool.Action{Name: "install", Risk: tool.RiskPackage, Needs: []tool.Need{tool.NeedPackages}}
	fetch := &tool.Action{Name: "fetch", Risk: tool.RiskReadOnly, Hosts: []string{"host"}}
	shell := &tool.Action{Name: "sh", Risk: tool.RiskReadOnly, Command: "line"}
	w.user("rules:\n- {name: no-install, tool: 'pkg.*', action: 'inst*'}\n- {name: etc, paths: [/etc/**], op: write}\n- {name: h, hosts: evil.example}\n")
	g := w.gate()
	for _, tt := range []struct {
		name    string
		tool    string
		action  *tool.Action
		args    string
		verdict tool.Verdict
		rule    string
		risk    tool.Risk
	}{
		{"nothing is known of it", "x", nil, `{}`, tool.Deny, "builtin/unknown-action", tool.RiskUnknown},
		{"reading", "fs.read", read, `{"path":"/usr/include/x"}`, tool.Allow, "default read-only", tool.RiskReadOnly},
		{"reading a secret", "fs.read", read, `{"path":"~/.ssh/id"}`, tool.Ask, "builtin/read-secrets", tool.RiskReadOnly},
		{"the same by a relative path", "fs.read", read, `{"path":"../../.ssh/id"}`, tool.Ask, "builtin/read-secrets", tool.RiskReadOnly},
		{"writing inside", "fs.write", write, `{"path":"a/b"}`, tool.Ask, "default writes-inside", tool.RiskWritesInside},
		{"writing outside", "fs.write", write, `{"path":"/var/tmp/x"}`, tool.Ask, "default writes-outside", tool.RiskWritesOutside},
		{"writing out by ..", "fs.write", write, `{"path":"a/../../x"}`, tool.Ask, "default writes-outside", tool.RiskWritesOutside},
		{"writing out through a link", "fs.write", write, `{"path":"out/x"}`, tool.Deny, "user/etc", tool.RiskWritesOutside},
		{"one of several paths", "fs.write", write, `{"paths":["a","/etc/x"]}`, tool.Deny, "user/etc", tool.RiskWritesOutside},
		{"writing to nowhere that is said", "fs.write", write, `{}`, tool.Ask, "default writes-outside", tool.RiskWritesOutside},
		{"a path that is no string", "fs.write", write, `{"path":{"a":1}}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"a path with a NUL", "fs.write", write, `{"path":"a\u0000/etc"}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"a rule for the tool", "pkg.manage", install, `{"packages":["x"]}`, tool.Deny, "user/no-install", tool.RiskPackage},
		{"another tool", "pkgs", install, `{}`, tool.Ask, "default package", tool.RiskPackage},
		{"a host", "net", fetch, `{"host":"evil.example"}`, tool.Deny, "user/h", tool.RiskNetwork},
		{"another host", "net", fetch, `{"host":"good.example"}`, tool.Ask, "default network", tool.RiskNetwork},
		{"a line in another tool", "sh", shell, `{"line":"rm -rf src"}`, tool.Ask, "default destructive", tool.RiskDestructive},
		{"a line that is no string", "sh", shell, `{"line":["rm"]}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"two lines", "sh", shell, `{"line":["ls","rm -rf src"]}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"no line", "sh", shell, `{}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"a member twice", "sh", shell, `{"line":"ls","line":"rm -rf /"}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"a member in other letters", "sh", shell, `{"line":"ls","LINE":"rm -rf /"}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"a member in letters that fold", "s", &tool.Action{Risk: tool.RiskReadOnly, Command: "cask"}, `{"cask":"ls","caſk":"rm -rf /"}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"only in other letters", "fs.read", read, `{"Path":"/etc/shadow"}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"no object", "fs.read", read, `["/etc/shadow"]`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"two objects", "fs.read", read, `{} {"path":"/etc/shadow"}`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"torn JSON", "fs.read", read, `{"path":"x"`, tool.Deny, "builtin/unclear-call", tool.RiskUnknown},
		{"a risk that is none", "x", &tool.Action{Risk: "harmless"}, `{}`, tool.Ask, "default unknown", tool.RiskUnknown},
		{"no risk", "x", &tool.Action{}, `{}`, tool.Ask, "default unknown", tool.RiskUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := &tool.Question{Call: tool.Call{Tool: tt.tool, Action: "x", Args: json.RawMessage(tt.args)}, Action: tt.action, WorkDir: w.project, Env: map[string]string{"HOME": w.home}}
			if tt.action != nil {
				q.Call.Action = tt.action.Name
			}
			j := g.Judge(context.Background(), q)
			if want(t, tt.args, j, tt.verdict, tt.rule); j.Risk != tt.risk {
				t.Errorf("%s: risk %s, want %s", tt.args, j.Risk, tt.risk)
			}
		})
	}
}

func TestInsideIsTheQuestionsFolder(t *testing.T) {
	w := newWorld(t)
	for _, dir := range []string{"sub", "../beside"} {
		if err := os.MkdirAll(w.project+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g := w.gate()
	for _, tt := range []struct {
		dir, line string
		risk      tool.Risk
	}{
		{"", "touch x", tool.RiskWritesInside},
		{"sub", "touch x", tool.RiskWritesInside},
		{"sub", "touch ../x", tool.RiskWritesInside},
		{"sub", "touch ../../x", tool.RiskWritesOutside},
		{"../beside", "touch x", tool.RiskWritesOutside},
		{"../beside", "touch ../project/x", tool.RiskWritesInside},
		{w.home, "touch x", tool.RiskWritesOutside},
		{"/etc", "touch x", tool.RiskWritesOutside},
	} {
		q := w.question(tt.line)
		q.Call.Args, _ = json.Marshal(map[string]string{"command": tt.line, "working_directory": tt.dir})
		if j := g.Judge(context.Background(), q); j.Risk != tt.risk {
			t.Errorf("%s in %q: %s (%s), want %s", tt.line, tt.dir, j.Risk, j.Why, tt.risk)
		}
	}
}

func TestAHostOnlyActionIsJudgedAsOnTheHost(t *testing.T) {
	w := newWorld(t)
	q := &tool.Question{Call: tool.Call{Tool: "svc.manage", Action: "stop"}, Action: &tool.Action{Risk: tool.RiskService, Place: tool.HostOnly}, Where: tool.InSandbox, WorkDir: w.project}
	want(t, "svc.manage stop", w.gate().Judge(context.Background(), q), tool.Ask, "default service")
}

// TestJudgementsAreFitToBeShown: whatever a line holds, what is said of it can be printed.
func TestJudgementsAreFitToBeShown(t *testing.T) {
	w := newWorld(t)
	w.user("rules: [{name: r, program: cat, why: \"plain\"}]\n")
	g := w.gate()
	for _, line := range []string{
		"cat '\x1b[2J\x1b]0;owned\x07'", "touch 'a\u202ecod.exe'", "touch $'\\x1b[31m'", "touch 'a\nb'", "ls \u200b", "\r\nls", "curl http://\u0435xample.com",
		"touch " + strings.Repeat("x", 100_000), strings.Repeat("touch a;", 2000), "cat\u00a0x", "rm -rf \xff\xfe",
	} {
		j := g.Judge(context.Background(), w.question(line))
		texts := append([]string{j.Why, j.Rule}, j.Touches...)
		for _, p := range j.Parts {
			texts = append(texts, p.Text, p.Why, p.Rule)
		}
		for _, s := range texts {
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e || r == 0x200b }) || len(s) > 10_000 {
				t.Errorf("%.40q: %.80q (%d bytes) cannot be shown", line, s, len(s))
			}
		}
		if len(j.Touches) > 50 {
			t.Errorf("%.40q: %d touches", line, len(j.Touches))
		}
	}
}

func TestJudgementsListWhatIsTouchedAndNeeded(t *testing.T) {
	w := newWorld(t)
	j := w.line("cp a ../b && curl -o c https://example.com/x && sudo systemctl restart nginx")
	for _, path := range []string{w.project + "/a", w.home + "/src/b", w.project + "/c", "example.com"} {
		if !slices.Contains(j.Touches, path) {
			t.Errorf("touches %q, want %s among them", j.Touches, path)
		}
	}
	if !slices.Contains(j.Needs, tool.NeedServices) {
		t.Errorf("needs %q, want %s among them", j.Needs, tool.NeedServices)
	}
	if len(j.Parts) != 3 || j.Risk != tool.RiskPrivileged {
		t.Errorf("%d parts, risk %s, want 3 and privileged", len(j.Parts), j.Risk)
	}
}

// TestALinkDoesNotWidenAnAllowRule: whoever can write below the working folder could make
// what a rule names a link to anything.
func TestALinkDoesNotWidenAnAllowRule(t *testing.T) {
	w := newWorld(t)
	w.user("rules: [{name: r, verdict: allow, paths: ['./build/**'], risk: [writes inside, writes outside, destructive]}]\n")
	w.write("documents/thesis", "x")
	if err := os.MkdirAll(w.project+"/build/out", 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, "a folder", w.line("rm -rf build/out"), tool.Allow, "user/r")
	if err := os.Symlink(w.home+"/documents", w.project+"/build/link"); err != nil {
		t.Fatal(err)
	}
	want(t, "a link in it", w.line("rm -rf build/link/thesis"), tool.Ask, "default destructive")
	if err := os.RemoveAll(w.project + "/build"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.home+"/documents", w.project+"/build"); err != nil {
		t.Fatal(err)
	}
	want(t, "itself a link", w.line("rm -rf build/thesis"), tool.Ask, "default destructive")
	want(t, "itself a link, written to", w.line("touch build/new"), tool.Ask, "")
}

func TestAirlocksOwnStateIsReadByNobodyUnasked(t *testing.T) {
	w := newWorld(t)
	state := w.home + "/.local/state/airlock"
	w.opts.Private = []string{state}
	w.write(state+"/record.db", "x")
	if err := os.Symlink(state+"/record.db", w.project+"/innocent"); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]tool.Verdict{
		"cat " + state + "/record.db":               tool.Ask,
		"cat ~/.local/state/airlock/record.db":      tool.Ask,
		"cat innocent":                              tool.Ask,
		"cp -r ~/.local/state/airlock /tmp":         tool.Ask,
		"grep -r x ~/.local":                        tool.Ask,
		"cat ~/.config/airlock/policy.yaml":         tool.Allow,
		"cat ~/.local/state/another/record.db":      tool.Allow,
		"echo x > ~/.local/state/airlock/record.db": tool.Deny,
	} {
		q := w.question(line)
		q.Where = tool.OnHost
		if j := w.gate().Judge(t.Context(), q); j.Verdict != want {
			t.Errorf("%s: %s by %s, want %s", line, j.Verdict, j.Rule, want)
		}
	}
}
