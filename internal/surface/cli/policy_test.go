package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/gate"
	"airlock/internal/surface/cli"
)

// policyProgram is a program with a gate, in a working folder of its own.
func policyProgram(t *testing.T, rules string) (p *cli.Program, stdout, stderr *bytes.Buffer) {
	t.Helper()
	home := t.TempDir()
	project := filepath.Join(home, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	user := filepath.Join(home, "policy.yaml")
	if rules != "" {
		if err := os.WriteFile(user, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := gate.New(&gate.Options{User: user, Homes: []string{home}, HostIdentity: "you@box:1"})
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return &cli.Program{Gate: g, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Environ: []string{"HOME=" + home, "PATH=/usr/bin:/bin"}}, stdout, stderr
}

func TestPolicyTestReadsALineAndWritesALine(t *testing.T) {
	long := "echo " + strings.Repeat("x", 100_000)
	lines := []string{"ls", "", "rm -rf x", long, "git status\r", strings.Repeat("y", 64<<10), "rm -rf /", "echo \x1b[2J", "é\xff", "touch x"}
	p, stdout, stderr := policyProgram(t, "")
	p.Stdin = strings.NewReader(strings.Join(lines, "\n")) // the last one has no end
	if code := cli.Run(context.Background(), p, []string{"policy", "test", "--json", "-"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	type row struct{ Command, Risk, Verdict, Rule, Why string }
	var got []row
	for line := range strings.Lines(stdout.String()) {
		var r row
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if r.Rule == "" || r.Why == "" {
			t.Errorf("%q names no rule, or not why", line)
		}
		got = append(got, r)
	}
	if len(got) != len(lines) {
		t.Fatalf("%d lines for %d", len(got), len(lines))
	}
	for i, wants := range []struct{ verdict, risk, command string }{
		{"allow", "read-only", "ls"},
		{"allow", "read-only", ""},
		{"ask", "destructive", "rm -rf x"},
		{"deny", "unknown", long[:200] + "…"},
		{"allow", "read-only", "git status"},
		{"ask", "unknown", lines[5]},
		{"deny", "destructive", "rm -rf /"},
		{"ask", "unknown", "echo \x1b[2J"},
		{"ask", "unknown", "é\ufffd"},
		{"ask", "writes-inside", "touch x"},
	} {
		if r := got[i]; r.Verdict != wants.verdict || r.Risk != wants.risk || r.Command != wants.command {
			t.Errorf("line %d: %.80v, want %.80v", i, r, wants)
		}
	}
}

// TestPolicyTestAnswersAtOnce: whoever asks line by line gets each answer before the next
// question.
func TestPolicyTestAnswersAtOnce(t *testing.T) {
	p, _, _ := policyProgram(t, "")
	in, ask := io.Pipe()
	answers, out := io.Pipe()
	p.Stdin, p.Stdout = in, out
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(context.Background(), p, []string{"policy", "test", "--json", "-"})
		out.Close()
	}()
	read := bufio.NewReader(answers)
	for _, line := range []string{"ls", "touch x", "ls"} {
		if _, err := io.WriteString(ask, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := read.ReadString('\n'); err != nil || !strings.Contains(answer, `"`+line+`"`) {
			t.Fatalf("answer %q, %v, want one to %q", answer, err, line)
		}
	}
	ask.Close()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestPolicyCommands(t *testing.T) {
	const good = "version: 1\nrules:\n- {name: no-push, program: git, args: [push], match: [git push]}\n"
	const bad = "version: 1\nrules:\n- {name: no-push, program: git, args: [push], match: [git pull]}\n"
	for _, tt := range []struct {
		name, policy string
		args         []string
		code         int
		out, err     []string
	}{
		{"a verdict explained", good, []string{"test", "ls && git push"}, 0, []string{"deny     ls && git push", "risk     network", "rule     user/no-push", "parts", "allow  ls"}, nil},
		{"as JSON", good, []string{"test", "--json", "git push"}, 0, []string{`"verdict":"deny"`, `"rule":"user/no-push"`, `"parts":[`}, nil},
		{"what it shows cannot control the terminal", "", []string{"test", "echo \x1b[2J"}, 0, []string{`echo \x1b[2J`}, nil},
		{"no command", "", []string{"test"}, 2, nil, []string{"put it in quotes"}},
		{"a command without quotes", "", []string{"test", "git", "push"}, 2, nil, []string{"put it in quotes"}},
		{"a verdict by a broken policy", bad, []string{"test", "ls"}, 0, []string{"deny", "user/unreadable"}, nil},
		{"checking what is good", good, []string{"check"}, 0, []string{"user", "in effect", "absent"}[:2], nil},
		{"checking what is broken", bad, []string{"check"}, 2, nil, []string{"policy.yaml:3:", "rule no-push", "git pull"}},
		{"checking a file", good, []string{"check", "../policy.yaml"}, 0, []string{"../policy.yaml: good"}, nil},
		{"checking a broken file", bad, []string{"check", "../policy.yaml"}, 2, nil, []string{"../policy.yaml:3:", "does not match"}},
		{"checking no file", "", []string{"check", "nothing.yaml"}, 2, nil, []string{"nothing.yaml", "no such file"}},
		{"showing", good, []string{"show"}, 0, []string{"builtin/delete-home", "user/no-push: program git; args push", "allow read-only", "ask   destructive"}, nil},
		{"showing what is broken", bad, []string{"show"}, 0, []string{"Everything is denied", "policy.yaml:3:"}, nil},
		{"showing as JSON", good, []string{"show", "--json"}, 0, []string{`"layers":[`, `"name":"user/no-push"`}, nil},
		{"no such command", "", []string{"shwo"}, 2, nil, []string{"shwo is not one of"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, stdout, stderr := policyProgram(t, tt.policy)
			if code := cli.Run(context.Background(), p, slices.Concat([]string{"policy"}, tt.args)); code != tt.code {
				t.Errorf("exit code %d, want %d: %s", code, tt.code, stderr)
			}
			for _, part := range tt.out {
				if !strings.Contains(stdout.String(), part) {
					t.Errorf("it wrote %q, want %q in it", stdout, part)
				}
			}
			for _, part := range tt.err {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("it said %q, want %q in it", stderr, part)
				}
			}
			if strings.Contains(stdout.String()+stderr.String(), "\x1b") {
				t.Error("it wrote a control character")
			}
		})
	}
}
