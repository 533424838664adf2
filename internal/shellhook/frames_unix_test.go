//go:build unix

package shellhook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromptsOfOthers: whatever else works at the prompt goes on working, and the hook
// beside it.
func TestPromptsOfOthers(t *testing.T) {
	t.Parallel()
	// What prints "<CODE:LAST WORD>" at each prompt must find both as without the hook.
	const report = `report() { local s=$? u=$_; shown="<$s:$u>"; return $s; }; `
	for _, tt := range []struct {
		name          string
		shell         string
		before, after string
		shows         string // after sh -c 'exit 3' word
	}{
		{"PROMPT_COMMAND is a string", "bash", report + `PROMPT_COMMAND='report "$_"'; PS1='$shown '`, "", "<3:word> "},
		{"PROMPT_COMMAND is an array", "bash", report + `PROMPT_COMMAND=(: 'report "$_"'); PS1='$shown '`, "", "<3:word> "},
		{"PROMPT_COMMAND is set in front of afterwards", "bash", `PS1='$shown '`, report + `PROMPT_COMMAND="report; $PROMPT_COMMAND"`, "<3:word> "},
		{"PROMPT_COMMAND is put away and evaluated", "bash", `PS1='$shown '`, report + `theirs=$PROMPT_COMMAND; back() { return $1; }; mine() { local s=$?; shown="<$s:word>"; back $s; eval "$theirs"; }; PROMPT_COMMAND=mine`, "<3:word> "},
		{"a DEBUG trap", "bash", `trap 'seen=$BASH_COMMAND' DEBUG; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"a DEBUG trap with extdebug", "bash", `shopt -s extdebug; trap 'seen=$BASH_COMMAND' DEBUG; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"functrace and a DEBUG trap", "bash", `set -T; trap 'seen=$BASH_COMMAND' DEBUG; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"set -u", "bash", `set -u; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"a changed IFS", "bash", `IFS=0123456789_; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"POSIX mode", "bash", `set -o posix; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"noclobber, noglob and nullglob", "bash", `set -Cf; shopt -s nullglob failglob; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"aliases of builtins", "bash", `alias builtin=false local=false unset=false history=false printf=false fc=false; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"an alias of airlock", "bash", `alias airlock='airlock ' ai='airlock ai'; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"a history that is read anew at each prompt", "bash", `PROMPT_COMMAND='shown="<$?>"; history -a; history -c; history -r'; PS1='$shown '`, "", "<3> "},
		{"a short history", "bash", `HISTSIZE=3; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"times in the history", "bash", `HISTTIMEFORMAT='%F %T '; PROMPT_COMMAND='shown="<$?>"'; PS1='$shown '`, "", "<3> "},
		{"a PS0 of the person's own", "bash", `PS0='[begins]'; PS1='<$?> '`, "", "<3> "},
		{"a PS0 that is set afterwards", "bash", "", `PS0='[begins]'; PS1='<$?> '`, "<3> "},
		{"no promptvars", "bash", `shopt -u promptvars; PROMPT_COMMAND='PS1="<$?> "'`, "", "<3> "},
		{"erasedups", "bash", `HISTCONTROL=erasedups; PS1='<$?> '`, "", "<3> "},
		{"ignoreboth", "bash", `HISTCONTROL=ignoreboth; PS1='<$?> '`, "", "<3> "},
		{"evaluated twice", "bash", `PS1='<$?> '`, `eval "$(cat $HOME/hook)"`, "<3> "},

		{"precmd", "zsh", `precmd() { print "<$?>" }`, "", "<3>"},
		{"add-zsh-hook", "zsh", `autoload -Uz add-zsh-hook; mine() { print "<$?>" }; add-zsh-hook precmd mine`, "", "<3>"},
		{"add-zsh-hook afterwards", "zsh", "", `autoload -Uz add-zsh-hook; mine() { print "<$?>" }; add-zsh-hook precmd mine`, "<3>"},
		{"KSH_ARRAYS and SH_WORD_SPLIT", "zsh", `setopt ksh_arrays sh_word_split; precmd() { print "<$?>" }`, "", "<3>"},
		{"NO_UNSET and WARN_CREATE_GLOBAL", "zsh", `setopt no_unset warn_create_global; precmd() { print "<$?>" }`, "", "<3>"},
		{"ERR_RETURN", "zsh", `setopt err_return; precmd() { print "<$?>" }`, "", "<3>"},
		{"NO_CLOBBER, GLOB_SUBST and NULL_GLOB", "zsh", `setopt no_clobber glob_subst null_glob ksh_glob extended_glob; precmd() { print "<$?>" }`, "", "<3>"},
		{"options after the hook", "zsh", "", `setopt ksh_arrays sh_word_split no_unset glob_subst; precmd() { print "<$?>" }`, "<3>"},
		{"aliases of builtins", "zsh", `alias typeset=false local=false emulate=false print=false; precmd() { builtin print "<$?>" }`, "", "<3>"},
		{"a changed IFS", "zsh", `IFS=0123456789_; precmd() { print "<$?>" }`, "", "<3>"},
		{"evaluated twice", "zsh", `precmd() { print "<$?>" }`, `eval "$(cat $HOME/hook)"`, "<3>"},
		{"a shared history", "zsh", `HISTFILE=$HOME/h; HISTSIZE=50 SAVEHIST=50; setopt share_history hist_ignore_all_dups; precmd() { print "<$?>" }`, "", "<3>"},

		{"fish_prompt and handlers", "fish", `function fish_prompt; echo "<$status>"; end; function mine --on-event fish_postexec; false; end`, "", "<3>"},
		{"evaluated twice", "fish", `function fish_prompt; echo "<$status>"; end`, `cat $HOME/hook | source`, "<3>"},
	} {
		t.Run(tt.shell+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			x := start(t, &setup{shell: tt.shell, before: tt.before, after: tt.after})
			if tt.shell == "fish" {
				tt.shows = strings.TrimSpace(tt.shows)
			}
			command := "sh -c 'exit 3' word"
			x.types("true", command)
			x.shows(tt.shows)
			x.expect("with "+tt.name, command, 3)
			x.expect("once more", command, 3)
			x.types(command)
			x.expect("the same command again", command, 3)
			for _, bad := range []string{"unbound", "not found", "parameter not set", "syntax error", "bad substitution", "bash: ", "zsh: ", "fish: "} {
				if strings.Contains(x.text(), bad) {
					t.Errorf("the terminal shows %q", bad)
				}
			}
		})
	}
}

// TestErrexit: a shell with set -e ends by what it ended by before, not by the hook.
func TestErrexit(t *testing.T) {
	t.Parallel()
	for shell, set := range map[string]string{"bash": "set -e", "zsh": "setopt err_exit"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			x := start(t, &setup{shell: shell, after: set})
			x.types("if false; then :; fi; true")
			x.expect("with "+set, "if false; then :; fi; true", 0)
			x.types("echo typ'ing-ended'")
			x.shows("typing-ended\r\n")
			x.raw("half a line\x03")
			x.types("", "echo it is al'ive'")
			x.shows("it is alive\r\n")
		})
	}
}

// TestNotInteractive: a script that evaluates the hook gets nothing of it.
func TestNotInteractive(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		x := start(t, &setup{shell: shell})
		script := `eval "$(cat hook)"; eval "$(cat hook)"; type airlock ai _airlock_run >out 2>&1; env >env`
		if shell == "fish" {
			script = `cat hook | source; type airlock ai _airlock_run >out 2>&1; env >env`
		}
		writeFile(t, filepath.Join(x.home, "script"), script)
		x.types(shell+" script", "echo en'ded'")
		x.shows("ended\r\n")
		out, err := os.ReadFile(filepath.Join(x.home, "out"))
		if err != nil || strings.Contains(string(out), "function") {
			t.Errorf("the script has %q, %v", out, err)
		}
		if env, _ := os.ReadFile(filepath.Join(x.home, "env")); strings.Contains(string(env), "airlock_") {
			t.Errorf("its environment is %q", env)
		}
	})
}

// TestAnAiOfThePersonsOwn: what is called ai already stays.
func TestAnAiOfThePersonsOwn(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, shell string) {
		before := `ai() { echo my'own'; }`
		if shell == "fish" {
			before = `function ai; echo my'own'; end`
		}
		x := start(t, &setup{shell: shell, before: before})
		x.types("ai")
		x.shows("myown\r\n")
	})
}
