package shellrisk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/gate/shellrisk"
)

// parts gives the texts of a report's parts with their risks.
func parts(r shellrisk.Report) []string {
	var out []string
	for _, p := range r.Parts {
		out = append(out, string(p.Risk)+": "+p.Text)
	}
	return out
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		name string
		line string
		want []string
	}{
		{"a pipe has a part for each command", "git status | head -5", []string{"read-only: git status", "read-only: head -5"}},
		{"what is substituted comes first", "echo $(rm x)", []string{"destructive: rm x", "read-only: echo $(rm x)"}},
		{"quoting does not show", `r\m "a b" 'c'$'\x64'`, []string{"destructive: rm 'a b' cd"}},
		{"a wrapper stands before what it runs", "sudo -u bob rm x", []string{"destructive: sudo rm x"}},
		{"a shell's text is taken apart", "bash -c 'ls; rm x'", []string{"read-only: bash ls", "destructive: bash rm x"}},
		{"redirections show", "echo hi >> log", []string{"writes-inside: echo hi >>log"}},
		{"a redirection alone is a part", "> f", []string{"writes-inside: >f"}},
		{"what does not show is escaped", "ls $'a\\e[2J'", []string{`read-only: ls 'a\x1b[2J'`}},
		{"variables are filled in", "x=rm; $x y", []string{"destructive: rm y"}},
		{"a loop's body is judged", "for f in *; do rm $f; done", []string{"destructive: rm $f"}},
		{"a carriage return does not continue a line", "echo a\\\r\nrm x", []string{"unknown: …", "read-only: echo 'a␍'", "destructive: rm x"}},
		{"a carriage return is no blank", "true\r-x", []string{"unknown: …", "unknown: 'true␍-x'"}},
		{"an assignment alone is no part", "x=1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parts(shellrisk.Analyze(c.line, place))); diff != "" {
				t.Errorf("Parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPartSaysWhatARuleIsMatchedAgainst(t *testing.T) {
	r := shellrisk.Analyze(`sudo -u bob "g"it -C /srv --no-pager log -n5 --since='1 week' main 2>/dev/null`, place)
	if len(r.Parts) != 1 {
		t.Fatalf("Parts = %v", parts(r))
	}
	p := r.Parts[0]
	if p.Program != "git" || p.Sub != "log" || p.User != "bob" || !slices.Equal(p.Wrappers, []string{"sudo"}) {
		t.Errorf("Program, Sub, User, Wrappers = %q, %q, %q, %q", p.Program, p.Sub, p.User, p.Wrappers)
	}
	want := []shellrisk.Option{{"-C", "/srv", true}, {"--no-pager", "", true}, {"-n", "5", true}, {"--since", "1 week", true}}
	if diff := cmp.Diff(want, p.Options); diff != "" {
		t.Errorf("Options (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]shellrisk.Word{{Value: "main", Known: true}}, p.Operands); diff != "" {
		t.Errorf("Operands (-want +got):\n%s", diff)
	}
	if r := shellrisk.Analyze("/usr/bin/rm x", place); r.Parts[0].Program != "rm" || r.Parts[0].Path != "/usr/bin/rm" {
		t.Errorf("Program, Path = %q, %q", r.Parts[0].Program, r.Parts[0].Path)
	}
}

func TestPaths(t *testing.T) {
	opts := *place
	opts.TempDirs = []string{"/tmp"}
	opts.ResolvePath = func(p string) string {
		p = strings.Replace(p, "/home/ann/project/link", "/etc", 1)
		return strings.TrimSuffix(strings.ReplaceAll(p, "/etc/..", ""), "/")
	}
	read, write, del := shellrisk.OpRead, shellrisk.OpWrite, shellrisk.OpDelete
	for _, c := range []struct {
		name string
		line string
		risk shellrisk.Risk
		want []shellrisk.PathRef
	}{
		{"reading names the file", "cat ~/.ssh/id_rsa", shellrisk.ReadOnly, []shellrisk.PathRef{{"/home/ann/.ssh/id_rsa", read, true}}},
		{"a redirection reads", "wc < ~/.netrc", shellrisk.ReadOnly, []shellrisk.PathRef{{"/home/ann/.netrc", read, true}}},
		{"a pattern is not one file", "cat *.go", shellrisk.ReadOnly, []shellrisk.PathRef{{"/home/ann/project/*.go", read, false}}},
		{"a link is followed", "touch link/x", shellrisk.Privileged, []shellrisk.PathRef{{"/etc/x", write, true}}},
		{".. after a link is the link's parent", "touch link/../x", shellrisk.WritesOutside, []shellrisk.PathRef{{"/x", write, true}}},
		{"a temporary folder counts as inside", "echo > /tmp/x", shellrisk.WritesInside, []shellrisk.PathRef{{"/tmp/x", write, true}}},
		{"what cannot be told is outside", `touch "$x"`, shellrisk.WritesOutside, []shellrisk.PathRef{{`"$x"`, write, false}}},
		{"a deletion names the file", "rm a", shellrisk.Destructive, []shellrisk.PathRef{{"/home/ann/project/a", del, true}}},
		{"cd is followed", "cd sub && cat x", shellrisk.ReadOnly, []shellrisk.PathRef{{"/home/ann/project/sub/x", read, true}}},
		{"a file elsewhere is not ours", "docker exec web cat /etc/shadow", shellrisk.ReadOnly, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := shellrisk.Analyze(c.line, &opts)
			var got []shellrisk.PathRef
			for _, p := range r.Parts {
				got = append(got, p.Paths...)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || r.Risk != c.risk {
				t.Errorf("Risk = %s, want %s; Paths (-want +got):\n%s", r.Risk, c.risk, diff)
			}
		})
	}
}

func TestArgvIsNotReadByAShell(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want shellrisk.Risk
	}{
		{[]string{"ls", "-la"}, shellrisk.ReadOnly},
		{[]string{"echo", "$(rm x)", ">", "/etc/passwd"}, shellrisk.ReadOnly},
		{[]string{"rm", "x"}, shellrisk.Destructive},
		{[]string{"sh", "-c", "rm x"}, shellrisk.Destructive},
		{[]string{"ls;rm", "x"}, shellrisk.Unknown},
		{[]string{""}, shellrisk.Unknown},
		{nil, shellrisk.Unknown},
	} {
		if r := shellrisk.AnalyzeArgv(c.argv, place); r.Risk != c.want {
			t.Errorf("AnalyzeArgv(%q): %s (%s), want %s", c.argv, r.Risk, r.Why, c.want)
		}
	}
}

func TestOptionsMayBeNil(t *testing.T) {
	for line, want := range map[string]shellrisk.Risk{
		"ls": shellrisk.ReadOnly, "touch x": shellrisk.WritesOutside, "rm x": shellrisk.Destructive, "": shellrisk.ReadOnly,
	} {
		if r := shellrisk.Analyze(line, nil); r.Risk != want {
			t.Errorf("Analyze(%q): %s, want %s", line, r.Risk, want)
		}
	}
}

func TestALineLeavesNothingForTheNext(t *testing.T) {
	for _, first := range []string{strings.Repeat("ls;", 30_000), "f(){ cd /; }; x=rm", "ls (", "cd /"} {
		shellrisk.Analyze(first, place)
		for line, want := range map[string]shellrisk.Risk{"ls": shellrisk.ReadOnly, "touch x": shellrisk.WritesInside, "f; $x y": shellrisk.Unknown, "rm x": shellrisk.Destructive} {
			if r := shellrisk.Analyze(line, place); r.Risk != want || r.ParseError != "" {
				t.Errorf("%.20q and then %q: %s, want %s", first, line, r.Risk, want)
			}
		}
	}
}

func TestNeedsAndHosts(t *testing.T) {
	for line, want := range map[string]string{
		"systemctl status x":        "[services] []",
		"docker ps":                 "[services] []",
		"apt install x":             "[packages] []",
		"kill 1":                    "[processes] []",
		"modprobe x":                "[hardware] []",
		"curl https://u:p@a.org/x":  "[network] [a.org]",
		"ping -c 1 b.org":           "[network] [b.org]",
		"ssh ann@c.org ls":          "[network] [ann@c.org]",
		"sudo systemctl restart x":  "[services] []",
		"echo x > /dev/tcp/d.org/1": "[network] [d.org]",
	} {
		p := shellrisk.Analyze(line, place).Parts[0]
		if got := fmt.Sprint(p.Needs, p.Hosts); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestDialects(t *testing.T) {
	posix := &shellrisk.Options{WorkDir: "/w", Dialect: shellrisk.POSIX}
	for line, want := range map[string]shellrisk.Risk{
		"ls": shellrisk.ReadOnly, "rm x": shellrisk.Destructive, "cat <(ls)": shellrisk.Unknown, "echo {rm,x}": shellrisk.ReadOnly,
	} {
		if r := shellrisk.Analyze(line, posix); r.Risk != want {
			t.Errorf("Analyze(%q): %s (%s), want %s", line, r.Risk, r.Why, want)
		}
	}
}

func Example() {
	r := shellrisk.Analyze("cd src && git log --oneline | head; sudo rm -rf build", &shellrisk.Options{WorkDir: "/home/ann/app"})
	fmt.Println(r.Risk)
	for _, p := range r.Parts {
		fmt.Printf("%-11s %s\n", p.Risk, p.Text)
	}
	// Output:
	// destructive
	// read-only   cd src
	// read-only   git log --oneline
	// read-only   head
	// destructive sudo rm -rf build
}
