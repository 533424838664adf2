package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"airlock/internal/gate"
	"airlock/internal/tool"
)

func TestJudgeCommit(t *testing.T) {
	w := newWorld(t)
	w.user("rules:\n- {name: lock, tool: changes.commit, paths: ['**/go.sum'], why: pinned}\n- {name: gone, tool: 'changes.*', action: deleted, paths: ['./keep/**'], verdict: ask}\n" +
		"- {name: runs, paths: ['./src/**'], why: this is about calls and not about commits}\n")
	g := w.gate()
	for _, tt := range []struct {
		path, kind string
		verdict    tool.Verdict
		rule       string
	}{
		{w.project + "/src/main.go", "modified", tool.Allow, ""},
		{w.project + "/go.sum", "modified", tool.Deny, "user/lock"},
		{w.project + "/sub/go.sum", "added", tool.Deny, "user/lock"},
		{w.project + "/keep/x", "deleted", tool.Ask, "user/gone"},
		{w.project + "/keep", "deleted", tool.Ask, "user/gone"},
		{w.project, "deleted", tool.Ask, "user/gone"}, // with all that is in it
		{w.project + "/keep/x", "modified", tool.Allow, ""},
		{w.project + "/.git/hooks/pre-commit", "added", tool.Ask, "builtin/runs-later"},
		{w.project + "/a/b/.git/hooks/pre-commit", "added", tool.Ask, "builtin/runs-later"},
		{w.project + "/.git/index", "modified", tool.Allow, ""},
		{w.project + "/.airlock/policy.yaml", "deleted", tool.Ask, "builtin/project-policy"},
		{w.home + "/.bashrc", "modified", tool.Ask, "builtin/runs-later"},
		{w.home + "/.config/airlock/policy.yaml", "modified", tool.Deny, "builtin/airlocks-own"},
		{w.home + "/.config", "metadata", tool.Allow, ""},
		{w.home + "/.config", "deleted", tool.Deny, "builtin/airlocks-own"},
		{w.home + "/.local/state/airlock/record.db", "modified", tool.Deny, "builtin/airlocks-own"},
		{w.project + "/../../.bashrc", "modified", tool.Ask, "builtin/runs-later"},
	} {
		got := g.JudgeCommit(context.Background(), []gate.CommitPath{{Path: tt.path, Kind: tt.kind}}, w.project)
		if tt.verdict == tool.Allow {
			if len(got) != 0 {
				t.Errorf("%s %s: %s by %s, want nothing", tt.kind, tt.path, got[0].Verdict, got[0].Rule)
			}
			continue
		}
		if len(got) != 1 || got[0].Verdict != tt.verdict || got[0].Rule != tt.rule || got[0].Why == "" || got[0].Path != tt.path {
			t.Errorf("%s %s: %+v, want %s by %s", tt.kind, tt.path, got, tt.verdict, tt.rule)
		}
	}
}

func TestJudgeCommitFailsClosed(t *testing.T) {
	w := newWorld(t)
	paths := []gate.CommitPath{{Path: w.project + "/a", Kind: "added"}, {Path: w.project + "/b", Kind: "added"}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := w.gate().JudgeCommit(ctx, paths, w.project); len(got) != 2 || got[0].Verdict != tool.Deny {
		t.Errorf("after the end: %+v, want both denied", got)
	}
	w.user("x")
	if got := w.gate().JudgeCommit(context.Background(), paths, w.project); len(got) != 2 || got[1].Verdict != tool.Deny || got[1].Rule != "user/unreadable" {
		t.Errorf("with a broken policy: %+v, want both denied", got)
	}
}

func TestAdmit(t *testing.T) {
	w := newWorld(t)
	w.user("rules: [{name: never, program: rm, why: never here}]\n")
	g := w.gate()
	if _, err := g.Admit(context.Background(), w.question("ls")); err != nil {
		t.Errorf("Admit ls: err = %v", err)
	}
	for line, part := range map[string]string{"rm x": "user/never: never here", "touch x": "touch"} {
		_, err := g.Admit(context.Background(), w.question(line))
		var refused *tool.RefusedError
		if !errors.As(err, &refused) || refused.Mend == "" {
			t.Errorf("Admit %s: err = %v, want a RefusedError with a mend", line, err)
			continue
		}
		contains(t, err.Error()+refused.Mend, part)
	}
}

// TestTheRuleInAMendWorks: what a refusal suggests to put into the policy allows the line,
// and nothing destructive beside it.
func TestTheRuleInAMendWorks(t *testing.T) {
	for _, line := range []string{"touch x", "git push origin", "rm -rf x", "npm run test", "zbuild fast", "curl https://example.com"} {
		w := newWorld(t)
		_, err := w.gate().Admit(context.Background(), w.question(line))
		refused, ok := errors.AsType[*tool.RefusedError](err)
		if !ok {
			t.Fatalf("Admit %s: err = %v", line, err)
		}
		_, rule, _ := strings.Cut(refused.Mend, "a rule such as ")
		rule, _, ok = strings.Cut(rule, " into ")
		if !ok {
			t.Fatalf("the mend of %s is %q", line, refused.Mend)
		}
		w.user("rules:\n- " + rule + "\n")
		if j := w.line(line); j.Verdict != tool.Allow {
			t.Errorf("%s: %s by %s with the rule %s", line, j.Verdict, j.Rule, rule)
		}
		if j := w.line(line + "; truncate -s 0 y"); j.Verdict == tool.Allow || strings.HasSuffix(j.Rule, "unreadable") {
			t.Errorf("%s; truncate: %s by %s with the rule %s", line, j.Verdict, j.Rule, rule)
		}
	}
}

// TestNoRuleIsSuggestedThatWouldNotHelp: such a rule would be put into the policy, and stay
// there.
func TestNoRuleIsSuggestedThatWouldNotHelp(t *testing.T) {
	for _, line := range []string{"./configure", "echo x >y", "cat ~/.ssh/id_ed25519", "echo x >.git/hooks/pre-commit", "PATH=. make"} {
		w := newWorld(t)
		_, err := w.gate().Admit(context.Background(), w.question(line))
		refused, ok := errors.AsType[*tool.RefusedError](err)
		if !ok || refused.Mend == "" || strings.Contains(refused.Mend, "my-rule") {
			t.Errorf("Admit %s: err = %v", line, err)
		}
	}
}

// TestARuleForAToolNamesItsRisk: without it, nothing but a person's word would let a plugin
// run on the host.
func TestARuleForAToolNamesItsRisk(t *testing.T) {
	for _, risk := range []tool.Risk{tool.RiskUnknown, tool.RiskDestructive, tool.RiskPrivileged, tool.RiskService} {
		w := newWorld(t)
		q := w.question("true")
		q.Call, q.Action = tool.Call{Tool: "todo", Action: "list"}, &tool.Action{Name: "list", Risk: risk}
		_, err := w.gate().Admit(context.Background(), q)
		refused, ok := errors.AsType[*tool.RefusedError](err)
		if !ok {
			t.Fatalf("%s: Admit: err = %v", risk, err)
		}
		_, rule, _ := strings.Cut(refused.Mend, "a rule such as ")
		if rule, _, ok = strings.Cut(rule, " into "); !ok {
			t.Fatalf("%s: the mend is %q", risk, refused.Mend)
		}
		w.user("rules:\n- " + rule + "\n")
		if _, err := w.gate().Admit(context.Background(), q); err != nil {
			t.Errorf("%s: with the rule %s: %v", risk, rule, err)
		}
	}
}
