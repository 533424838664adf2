package setup_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"airlock/internal/tool/bridge/setup"
	"airlock/internal/yamlfile"
)

func TestWrongFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown section", "agent: {}\n", `:1:1: the file: there is no "agent"; did you mean "agents"?`},
		{"an unknown member", "workspace:\n  pth: x\n", `:2:3: workspace: there is no "pth"; did you mean "path"?`},
		{"a list", "- a\n", ":1:1: the file: write members"},
		{"a workspace that is not there", "workspace: {path: ~/none}\n", "/none; make it, or name another"},
		{"a workspace that is a file", "workspace:\n  path: ./c.txt\n", ":2:9: workspace: path: "},
		{"another's home", "workspace: {path: ~root/x}\n", "~ is your own home alone"},
		{"an empty path", "workspace: {path: \"\"}\n", "workspace: path is empty"},
		{"a path with an end in it", "workspace: {path: \"a\\0b\"}\n", "workspace: path holds a character that cannot be seen"},
		{"a level that is none", "logging: {level: LOUD}\n", `:1:18: level is "LOUD"; write DEBUG, INFO, WARNING or ERROR`},
		{"a rotation below nothing", "logging: {rotation: {max_bytes: -1}}\n", "write a number of bytes"},
		{"endless backups", "logging: {rotation: {backup_count: 100000}}\n", "write a whole number from 0 to 1000"},
		{"a truth value in quotes", "security: {validate_inputs: \"yes\"}\n", "validate_inputs: write true or false"},
		{"a sanitizing that is none", "security: {sanitize_inputs: stripp}\n", `there is no "stripp"; did you mean "strip"?`},
		{"one in quotes", "security: {sanitize_inputs: \"true\"}\n", `there is no "true"; there is strip, refuse, off`},
		{"more than a call can hold", "security: {max_total_length: 1048577}\n", "write a whole number from 1 to 1048576"},
		{"no days", "performance: {metrics_retention_days: 0}\n", "write a whole number from 1 to 36500"},
		{"no calls at once", "performance: {max_parallel: 0}\n", "write a whole number from 1 to 256"},
		{"anchors", "agents: {x: &a {path: y}}\n", "bridges' files have no anchors"},
		{"two documents", "agents: {}\n---\nagents: {}\n", "second document"},
		{"what has no end", "workspace: {path: x" + strings.Repeat(" ", 1<<20) + "}\n", "more than 1048576 bytes"},
		{"agents in a list", "agents: [a]\n", ":1:9: agents is a mapping"},
		{"an agent without members", "agents:\n  x:\n", ":2:3: agents: x has no members; write its path: below it"},
		{"an agent that is a path", "agents: {x: a.py}\n", ":1:13: agents: x: write members, such as args: …"},
		{"an agent twice", "agents:\n  x: {path: a}\n  x: {path: b}\n", `:3:3: mapping key "x" already defined`},
		{"the bridge's own name", "agents: {health_check: {path: a}}\n", "health_check is the bridge's own; give the agent another name"},
		{"a name with a space", "agents: {a b: {path: a}}\n", `:1:10: agents: "a b" is no name; write 1 to 64 of a-z`},
		{"a name that begins with a digit", "agents: {1a: {path: a}}\n", `"1a" is no name`},
		{"a name that is an option", "agents: {-x: {path: a}}\n", `"-x" is no name`},
		{"a name that looks like another", "agents: {\"аgent\": {path: a}}\n", "is no name"},
		{"a name that controls a terminal", "agents: {\"a\\e[2J\": {path: a}}\n", "a character that cannot be seen"},
		{"a long name", "agents: {" + strings.Repeat("a", 65) + ": {path: a}}\n", "is no name"},
	} {
		t.Run(tt.name, func(t *testing.T) { newWorld(t).wrong(t, tt.text, tt.want) })
	}
}

// wrong checks that a file is refused, as a whole, for what is wrong with it.
func (w *world) wrong(t *testing.T, text, want string) {
	t.Helper()
	w.put(t, "c.txt", 0o600, "")
	f, err := w.parse(text)
	var wrong *yamlfile.Error
	if f != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
		t.Fatalf("Parse = %+v, %v, want %q", f, err, want)
	}
	if !strings.HasPrefix(err.Error(), w.file+":") || !yamlfile.Visible(err.Error()) {
		t.Errorf("the error does not begin with the file, or cannot be seen: %q", err)
	}
}

func TestWrongAgents(t *testing.T) {
	const secret = "ghp_THIS-IS-A-TOKEN"
	for _, tt := range []struct{ name, entry, want string }{
		{"no path", "timeout: 3", ":2:3: agents: x: path is missing; write the script, such as path: agents/x.py"},
		{"a slip of the pen", "path: a, comand: b", `:2:16: agents: x: there is no "comand"; did you mean "command"?`},
		{"python and command", "path: a, python: b, command: c", "python and command exclude each other"},
		{"python for no script", "python: b", ":2:15: python runs a script, and there is none; write path: beside it"},
		{"a path out of the workspace", "path: a/../../x.py", `:2:13: path: "a/../../x.py" leads out of the workspace; name it absolutely, or move it there`},
		{"a python out of it", "path: a, python: ../b", `python: "../b" leads out of the workspace`},
		{"a command out of it", "command: [../b, c]", `command: "../b" leads out of the workspace`},
		{"the workspace itself", "path: a/..", `path: "a/.." is the workspace itself`},
		{"home", "path: ~/a.py", "path: ~ is not home here; write the whole path"},
		{"two paths", "path: [a, b]", "path: write one line of text here"},
		{"a path of two lines", `path: "a\nb"`, "path holds a character that cannot be seen"},
		{"a command line", "command: node --x", `:2:16: command: "node --x" has a space in it; write a list such as [node, …]`},
		{"no command", "command: []", "command is empty"},
		{"a command of lists", "command: [[a]]", "command: write one line of text here"},
		{"nothing in a command", "command: [a, null]", "command: write text here"},
		{"the end of a text in a command", `command: [a, "b\0c"]`, "a word holds a NUL character"},
		{"a long command", "command: [" + strings.Repeat("a,", 201) + "]", "command has more than 200 words"},
		{"a kind that is none", "path: a, kind: scrpt", `there is no "scrpt"; did you mean "script"?`},
		{"a protocol to come", "path: a, protocol: next", `there is no "next"; there is 1.0, 1.1`},
		{"options in a list", "path: a, args: [--x]", "args is a mapping; write members"},
		{"an option that is none", "path: a, args: {dry_run: dry}", `:2:32: args: "dry" is no option; write one such as --dry-run`},
		{"an option with a value", "path: a, args: {b: --b=c}", "is no option"},
		{"an end of options", "path: a, args: {b: --}", "is no option"},
		{"a parameter of the bridge's own", "path: a, defaults: {_airlock: 1}", "_airlock is the bridge's own"},
		{"an option for it", "path: a, args: {_airlock: --x}", "_airlock is the bridge's own"},
		{"many options", "path: a, args: {" + numbered("k%: --x", 201) + "}", "args has more than 200 members"},
		{"defaults in a list", "path: a, defaults: [b]", "defaults is a mapping"},
		{"a default that readers do not agree on", "path: a, defaults: {dry_run: no}", ":2:36: defaults: dry_run: some readers take no for text"},
		{"a schema of no object", "path: a, schema: {type: string}", `:2:24: schema: the schema must describe an object: add "type": "object"`},
		{"a schema that is text", "path: a, schema: x", ":2:24: schema: the schema is no JSON object"},
		{"a schema that asks others", "path: a, schema: {type: object, properties: {b: {$ref: \"file:///etc/passwd\"}}}", "only references within the schema"},
		{"a schema that is none", "path: a, schema: {type: object, required: b}", "against metaschema: jsonschema validation failed with 'http://json-schema.org/draft-07/schema#'; - at '/required': got string, want array"},
		{"a deep schema", "path: a, schema: " + strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40), "nested more than 32 deep"},
		{"a rule that is none", "path: a, params: {b: {rw: true}}", `params: b: there is no "rw"; did you mean "raw"?`},
		{"no rule", "path: a, params: {b: }", "params: b: write members"},
		{"no time", "path: a, timeout: 0", `timeout is "0"; write seconds such as 300, or a time span such as 90s or 5m`},
		{"a time before", "path: a, timeout: -5", "write seconds"},
		{"no time that can be measured", "path: a, timeout: 1us", "write a time from 1ms to 7d"},
		{"more time than there is", "path: a, timeout: 1e300", "write seconds"},
		{"infinite time", "path: a, timeout: .inf", "timeout: write one line of text"},
		{"the same by another name", "path: a, timeout: inf", "write seconds"},
		{"no number", "path: a, timeout: NaN", "write seconds"},
		{"eight days", "path: a, timeout: 8d", "write a time from 1ms to 7d"},
		{"endless tries", "path: a, retries: 1000000", "write a whole number from 0 to 100"},
		{"endless output", "path: a, max_output: 2g", "max_output is more than 1024m"},
		{"one variable", "path: a, env: TOKEN", "env is a list such as [GITHUB_TOKEN], or a mapping"},
		{"a variable of the bridge's own", "path: a, env: [AIRLOCK_TOOL]", ":2:22: env: AIRLOCK_TOOL is the bridge's own"},
		{"the same in a mapping", "path: a, env: {Airlock_Call: " + secret + "}", "Airlock_Call is the bridge's own"},
		{"a value in a list", "path: a, env: [TOKEN=" + secret + "]", "env: a value does not stand in a list; write {TOKEN: its value}"},
		{"a variable twice", "path: a, env: [A, A]", "env: A is there twice"},
		{"no variable's name", "path: a, env: {a-b: " + secret + "}", "env: a variable's name is of letters"},
		{"a name that begins with a digit", "path: a, env: [1A]", "begins with no digit"},
		{"the end of a text in a value", `path: a, env: {A: "` + secret + `\0"}`, "env: A holds a NUL character"},
		{"a list as a value", "path: a, env: {A: [" + secret + "]}", "env: A: write text here"},
		{"a long value", "path: a, env: {A: " + strings.Repeat("a", 65<<10) + "}", "env: A has more than 65536 bytes"},
		{"many variables", "path: a, env: [" + numbered("A%", 201) + "]", "env has more than 200 variables"},
		{"an image", "path: a, sandbox: {image: python}", ":2:25: sandbox: an agent runs over its workspace, which an image does not have; write airlock"},
		{"a sandbox that is none", "path: a, sandbox: docker", `sandbox: there is no "docker"; there is none, airlock`},
		{"a sandbox that is a truth value", "path: a, sandbox: true", "sandbox: write one line of text here"},
		{"no network on the host", "path: a, network: none", ":2:25: network: without a sandbox the agent reaches what this machine reaches"},
		{"the host's network on the host", "path: a, sandbox: none, network: host", "network: host is for sandbox: airlock"},
		{"a network that is none", "path: a, sandbox: airlock, network: hots", `did you mean "host"?`},
		{"an ACP agent without a command", "kind: acp", ":2:3: agents: x: command is missing"},
		{"one with a script", "kind: acp, path: a", ":2:24: path is not for kind: acp; write the program as command:"},
		{"one with options", "kind: acp, command: a, args: {b: --b}", "args is not for kind: acp; take it out"},
		{"one with a schema", "kind: acp, command: a, schema: {type: object}", "schema is not for kind: acp"},
		{"one with a protocol", "kind: acp, command: a, protocol: \"1.1\"", "protocol is not for kind: acp"},
		{"one that prints", "kind: acp, command: a, mixed_output: true", "mixed_output is not for kind: acp"},
		{"one that is tried again", "kind: acp, command: a, retries: 1", "retries is not for kind: acp"},
		{"a description that turns the text around", `path: a, description: "a\u202eb"`, "description holds a character that cannot be seen"},
		{"a long description", "path: a, description: " + strings.Repeat("a", 4097), "description has more than 4096 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			text := "agents:\n  x: {" + tt.entry + "}\n"
			w.wrong(t, text, tt.want)
			if _, err := w.parse(text); strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// numbered is a text so many times, with a number for %.
func numbered(text string, times int) string {
	parts := make([]string, times)
	for i := range parts {
		parts[i] = strings.ReplaceAll(text, "%", strconv.Itoa(i))
	}
	return strings.Join(parts, ", ")
}

func TestAWrongEnvironment(t *testing.T) {
	for _, tt := range []struct{ name, variable, value, want string }{
		{"a workspace that is not there", "ADK_WORKSPACE", "/none/such", "ADK_WORKSPACE: there is no folder /none/such; make it"},
		{"a relative one", "ADK_WORKSPACE", "adk-workspace", `ADK_WORKSPACE: "adk-workspace" is not absolute; set it to a path that begins with / or ~/`},
		{"one that controls a terminal", "ADK_WORKSPACE", "/a\x1b[2J", `/a\x1b[2J`},
		{"one with an end in it", "ADK_WORKSPACE", "/a\x00b", "NUL character"},
		{"a relative log", "BRIDGE_LOG_FILE", "b.log", "BRIDGE_LOG_FILE: "},
		{"a level that is none", "BRIDGE_LOG_LEVEL", "LOUD", `BRIDGE_LOG_LEVEL is "LOUD"; set it to DEBUG, INFO, WARNING or ERROR`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.env[tt.variable] = tt.value
			w.wrong(t, "", tt.want)
		})
	}
	t.Run("no home", func(t *testing.T) {
		w := newWorld(t)
		for _, tt := range []struct{ text, want string }{
			{"", "there is no workspace; write workspace: {path: /where/your/agents/are}, or set ADK_WORKSPACE"},
			{"workspace: {path: ~/x}\n", "there is no home folder for ~; write the whole path"},
			{"workspace: {path: .}\n", "there is no home folder for the log"},
		} {
			f, err := setup.Parse(w.file, []byte(tt.text), w.getenv, "")
			if f != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse(%q) = %v, %v, want %q", tt.text, f, err, tt.want)
			}
		}
	})
}
