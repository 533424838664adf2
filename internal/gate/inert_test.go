package gate_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"airlock/internal/gate"
	"airlock/internal/tool"
)

const freshConfig = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"

const clonedConfig = freshConfig + "[remote \"origin\"]\n\turl = https://git.example/you/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n" +
	"[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = Ann O'Brien # me\n\temail = ann@example.com\n"

// TestANewRepositoryIsLetOut: what git init and git clone make runs nothing, and is not
// asked about; what could run something is.
func TestANewRepositoryIsLetOut(t *testing.T) {
	w := newWorld(t)
	g := w.gate()
	for _, tt := range []struct {
		name, path, kind, kindOf, text string
		verdict                        tool.Verdict
	}{
		{"the folder of a new repository", "/.git", "added", "dir", "", tool.Allow},
		{"a link in place of a repository", "/.git", "added", "symlink", "", tool.Ask},
		{"the folder of hooks", "/.git/hooks", "added", "dir", "", tool.Allow},
		{"a link in place of the hooks", "/.git/hooks", "added", "symlink", "", tool.Ask},
		{"a folder that takes the place of something", "/.git/hooks", "modified", "dir", "", tool.Ask},
		{"a sample of a hook", "/.git/hooks/pre-commit.sample", "added", "file", "rm -rf ~", tool.Allow},
		{"a sample that was there before", "/.git/hooks/pre-commit.sample", "modified", "file", "rm -rf ~", tool.Ask},
		{"a hook", "/.git/hooks/pre-commit", "added", "file", "", tool.Ask},
		{"a hook behind a sample's name", "/.git/hooks/x.sample/pre-commit", "added", "file", "", tool.Ask},
		{"a sample that is a link", "/.git/hooks/pre-commit.sample", "added", "symlink", "", tool.Ask},
		{"the settings that git init writes", "/.git/config", "added", "file", freshConfig, tool.Allow},
		{"the settings that git clone writes", "/.git/config", "added", "file", clonedConfig, tool.Allow},
		{"the settings in letters of any case", "/.git/config", "added", "file", "[CORE]\n\tBare = FALSE\n", tool.Allow},
		{"settings that were there before", "/.git/config", "modified", "file", freshConfig, tool.Ask},
		{"settings of nothing", "/.git/config", "added", "file", "", tool.Ask},
		{"settings that are a link", "/.git/config", "added", "symlink", freshConfig, tool.Ask},
		{"a file monitor", "/.git/config", "added", "file", freshConfig + "\tfsmonitor = rm -rf ~\n[gc]\n", tool.Ask},
		{"a monitor on the section's line", "/.git/config", "added", "file", "[core] fsmonitor = rm\n", tool.Ask},
		{"a monitor on the section's line, closed", "/.git/config", "added", "file", "[core] fsmonitor = rm # ]\n", tool.Ask},
		{"a monitor in other letters", "/.git/config", "added", "file", "[cOrE]\n\tFsMonitor=rm\n", tool.Ask},
		{"a section as it once was written", "/.git/config", "added", "file", "[branch.fsmonitor]\n\tremote = x\n", tool.Ask},
		{"hooks elsewhere", "/.git/config", "added", "file", "[core]\n\thooksPath = hooks\n", tool.Ask},
		{"another working tree", "/.git/config", "added", "file", "[core]\n\tworktree = /home/you\n", tool.Ask},
		{"another file of settings", "/.git/config", "added", "file", "[include]\n\tpath = ../evil\n", tool.Ask},
		{"an alias", "/.git/config", "added", "file", "[alias]\n\tst = !rm -rf ~\n", tool.Ask},
		{"a filter", "/.git/config", "added", "file", "[filter \"x\"]\n\tclean = rm\n", tool.Ask},
		{"a program to sign with", "/.git/config", "added", "file", "[gpg]\n\tprogram = rm\n", tool.Ask},
		{"a remote that runs a program", "/.git/config", "added", "file", "[remote \"origin\"]\n\tuploadpack = rm\n", tool.Ask},
		{"a remote of a helper", "/.git/config", "added", "file", "[remote \"origin\"]\n\turl = ext::sh -c rm\n", tool.Ask},
		{"a remote that is an option", "/.git/config", "added", "file", "[remote \"origin\"]\n\turl = --upload-pack=rm\n", tool.Ask},
		{"a host that is an option", "/.git/config", "added", "file", "[remote \"origin\"]\n\turl = ssh://-oProxyCommand=rm/x\n", tool.Ask},
		{"a branch of a helper", "/.git/config", "added", "file", "[branch \"x\"]\n\tremote = ext::rm\n", tool.Ask},
		{"a module that is brought up to date by a program", "/.git/config", "added", "file", "[submodule \"x\"]\n\tupdate = !rm\n", tool.Ask},
		{"a line that goes on", "/.git/config", "added", "file", "[core]\n\tbare = false \\\n[core]\n\tfsmonitor = x\n", tool.Ask},
		{"a lone carriage return", "/.git/config", "added", "file", "[core]\n\tbare = false\r\tfsmonitor = x\n", tool.Ask},
		{"a key without a section", "/.git/config", "added", "file", "bare = false\n", tool.Ask},
		{"a key without a value", "/.git/config", "added", "file", "[core]\n\tbare\n", tool.Ask},
		{"a quoted value", "/.git/config", "added", "file", "[user]\n\tname = \"x\n", tool.Ask},
		{"more than is read", "/.git/config", "added", "file", freshConfig + strings.Repeat("# x\n", 20<<10), tool.Ask},
		{"settings of a module", "/.git/modules/x/config", "added", "file", freshConfig, tool.Allow},
		{"settings of a module with a working tree", "/.git/modules/x/config", "added", "file", "[core]\n\tworktree = ../../../x\n", tool.Ask},
		{"settings of a worktree", "/.git/config.worktree", "added", "file", "[core]\n\tfsmonitor = x\n", tool.Ask},
		{"a worktree's file", "/wt/.git", "added", "file", "gitdir: " + "/home/you/src/x/.git/worktrees/wt\n", tool.Allow},
		{"a module's file", "/sub/.git", "added", "file", "gitdir: ../.git/modules/sub\n", tool.Allow},
		{"a file that points to a folder beside it", "/sub/.git", "added", "file", "gitdir: ../evil\n", tool.Ask},
		{"a file that points out of a module", "/sub/.git", "added", "file", "gitdir: ../.git/modules/../../evil\n", tool.Ask},
		{"a worktree's way back", "/.git/worktrees/wt/commondir", "added", "file", "../..\n", tool.Allow},
		{"a way to other settings", "/.git/worktrees/wt/commondir", "added", "file", "../../../evil\n", tool.Ask},
		{"attributes", "/.git/info/attributes", "added", "file", "* filter=x\n", tool.Ask},
	} {
		p := gate.CommitPath{Path: w.project + tt.path, Kind: tt.kind, Type: tt.kindOf, Content: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(tt.text)), nil
		}}
		got := g.JudgeCommit(context.Background(), []gate.CommitPath{p}, w.project)
		switch {
		case tt.verdict == tool.Allow && len(got) > 0:
			t.Errorf("%s: %s by %s, want nothing", tt.name, got[0].Verdict, got[0].Rule)
		case tt.verdict != tool.Allow && (len(got) != 1 || got[0].Verdict != tt.verdict || got[0].Rule != "builtin/runs-later"):
			t.Errorf("%s: %+v, want %s by builtin/runs-later", tt.name, got, tt.verdict)
		}
	}
	for name, p := range map[string]gate.CommitPath{
		"no content": {Path: w.project + "/.git/config", Kind: "added", Type: "file"},
		"no type":    {Path: w.project + "/.git/hooks/x.sample", Kind: "added"},
		"content that cannot be read": {Path: w.project + "/.git/config", Kind: "added", Type: "file", Content: func() (io.ReadCloser, error) {
			return nil, io.ErrUnexpectedEOF
		}},
	} {
		if got := g.JudgeCommit(context.Background(), []gate.CommitPath{p}, w.project); len(got) != 1 || got[0].Verdict != tool.Ask {
			t.Errorf("%s: %+v, want it asked about", name, got)
		}
	}
}

// TestUnlessIsForRulesThatAskOrDeny: and it knows one word.
func TestUnlessIsForRulesThatAskOrDeny(t *testing.T) {
	for _, rule := range []string{"{name: x, tool: '*', verdict: allow, unless: inert}", "{name: x, tool: '*', unless: quiet}", "{name: x, tool: '*', unless: [inert]}"} {
		w := newWorld(t)
		w.user("rules: [" + rule + "]\n")
		want(t, rule, w.line("ls"), tool.Deny, "user/unreadable")
	}
}

// FuzzSettings: no settings that name a program are let out, and none end the gate.
func FuzzSettings(f *testing.F) {
	f.Add(freshConfig)
	f.Add(clonedConfig)
	f.Add("[core]fsmonitor=x\n")
	g, err := gate.New(&gate.Options{NoProject: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := gate.CommitPath{Path: "/nowhere/.git/config", Kind: "added", Type: "file", Content: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}}
		if len(g.JudgeCommit(context.Background(), []gate.CommitPath{p}, "/nowhere")) > 0 {
			return
		}
		for line := range strings.Lines(strings.ToLower(text)) {
			line = strings.TrimLeft(line, " \t")
			for _, key := range []string{"fsmonitor", "hookspath", "sshcommand", "worktree", "uploadpack", "path", "program", "helper"} {
				if strings.HasPrefix(line, key) {
					t.Errorf("%q is let out", text)
				}
			}
		}
	})
}
