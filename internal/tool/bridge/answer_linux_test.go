package bridge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
)

// TestAnswers is the table of docs/bridge.md. DIR stands for the workspace.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		entry        string // more of it
		want         string // the whole document
		code         tool.ErrorCode
		outcome      string
	}{
		{"a document", sh(`echo '{"status":"success","data":{"n":1.0,"b":[<&>]}}' | sed 's/<&>/"<\&>"/'`), "", `{"status":"success","data":{"n":1.0,"b":["<&>"]}}`, "", "ok"},
		{"white space around it", sh(`printf '\n\t{"a" : 1}\r\n\n'`), "", `{"a" : 1}`, "", "ok"},
		{"a list is a document", sh(`echo '[1]'`), "", `[1]`, "", "ok"},
		{"null is a document", sh(`echo null`), "", `null`, "", "ok"},
		{"an error of its own", sh(`echo '{"status":"error","error":"no such issue"}'`), "", `{"status":"error","error":"no such issue"}`, tool.IOError, "error"},
		{"another member named as status", sh(`echo '{"Status":"error"}'`), "", `{"Status":"error"}`, "", "ok"},
		{"nothing", sh(":"), "", `{"status":"success","message":"Agent completed without output"}`, "", "ok"},
		{"nothing but white space", sh("echo; echo"), "", `{"status":"success","message":"Agent completed without output"}`, "", "ok"},
		{"something else", sh("echo hello"), "", `{"status":"error","error":"Agent output is not valid JSON: line 1: invalid character 'h' looking for beginning of value","output":"hello"}`, tool.ParseError, "not-json"},
		{"half a document", sh(`printf '{"a":\n1'`), "", `{"status":"error","error":"Agent output is not valid JSON: line 2: unexpected end of JSON input","output":"{\"a\":\n1"}`, tool.ParseError, "not-json"},
		{"debug output before it", sh(`echo debug; echo '{"a":1}'`), "", `{"status":"error","error":"Agent output is not valid JSON: line 1: invalid character 'd' looking for beginning of value","output":"debug\n{\"a\":1}"}`, tool.ParseError, "not-json"},
		{"debug output before it, which may be", sh(`echo 'debug {"a'; echo '{"a":"}\"{"}'`), "mixed_output: true", `{"a":"}\"{"}`, "", "ok"},
		{"debug output alone, which may be", sh(`echo debug`), "mixed_output: true", `{"status":"error","error":"Agent output is not valid JSON: line 1: invalid character 'd' looking for beginning of value","output":"debug"}`, tool.ParseError, "not-json"},
		{"an exit code and stderr", sh("echo out; echo ' what happened' >&2; exit 3"), "", `{"status":"error","error":"what happened","exit_code":3,"stdout":"out","stderr":" what happened\n"}`, tool.IOError, "exit"},
		{"an exit code alone", sh("exit 4"), "", `{"status":"error","error":"Agent exited with code 4","exit_code":4,"stdout":"","stderr":""}`, tool.IOError, "exit"},
		{"an exit code and an error in JSON", sh(`echo '{"error":"it said why"}'; exit 1`), "", `{"status":"error","error":"it said why","exit_code":1,"stdout":"{\"error\":\"it said why\"}","stderr":""}`, tool.IOError, "exit"},
		{"an exit code and an error that is no text", sh(`echo '{"error":{"a":1}}'; exit 1`), "", `{"status":"error","error":"Agent exited with code 1","exit_code":1,"stdout":"{\"error\":{\"a\":1}}","stderr":""}`, tool.IOError, "exit"},
		{"an exit code and success in JSON", sh(`echo '{"status":"success"}'; exit 1`), "", `{"status":"error","error":"Agent exited with code 1","exit_code":1,"stdout":"{\"status\":\"success\"}","stderr":""}`, tool.IOError, "exit"},
		{"a signal", sh("kill -SEGV $$"), "", `{"status":"error","error":"Agent was ended by SIGSEGV","exit_code":-1,"signal":"SIGSEGV","stdout":"","stderr":""}`, tool.IOError, "signal"},
		{"too slow", sh("echo begun; echo why >&2; exec sleep 600"), "timeout: 1", `{"status":"error","error":"Agent execution timed out after 1s","stdout":"begun\n","stderr":"why\n"}`, tool.Timeout, "timeout"},
		{"too much", sh("exec yes"), "max_output: 1000", `{"status":"error","error":"Agent printed more than 1000 bytes; print less, or raise max_output of it"}`, tool.IOError, "too-much"},
		{"no script", "", "", `{"status":"error","error":"Agent not found: DIR/it"}`, tool.NotFound, "not-started"},
		{"no interpreter", sh(""), "python: env/bin/python", `{"status":"error","error":"Python interpreter not found: DIR/env/bin/python"}`, tool.NotFound, "not-started"},
		{"no command", sh(""), "command: [bin/run, x]", `{"status":"error","error":"Interpreter not found: DIR/bin/run"}`, tool.NotFound, "not-started"},
		{"a script that names no interpreter", "echo '{}'\n", "", `{"status":"error","error":"Agent could not be started: DIR/it: exec format error"}`, tool.PermissionDenied, "not-started"},
		{"brackets deeper than anyone reads", sh(`head -c 200000 /dev/zero | tr '\0' '['`), "mixed_output: true", "", tool.ParseError, "not-json"},
		{"bytes that are no text", sh(`printf '{"a":"\377"}'`), "", `{"a":"�"}`, "", "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entry := "  it: {path: it, " + tt.entry + "}\n"
			scripts := map[string]string{}
			if tt.script != "" {
				scripts["it"] = tt.script
			}
			w, res, got := patient(t, entry, scripts, func(_ *world, got string) bool { return strings.Contains(got, "why") })
			wanted := strings.ReplaceAll(tt.want, "after 1s", "after "+w.seconds+"s")
			if want := strings.ReplaceAll(wanted, "DIR", w.dir); got != want && want != "" {
				t.Errorf("document = %s\nwant       %s", got, want)
			}
			if res.OK != (tt.code == "") || res.Code() != tt.code || res.Meta[bridge.MetaOutcome] != tt.outcome {
				t.Errorf("ok %v, code %q, outcome %v, want %q, %q", res.OK, res.Code(), res.Meta[bridge.MetaOutcome], tt.code, tt.outcome)
			}
			if got, want := w.metrics.outcomes(), "it "+tt.outcome; got != want {
				t.Errorf("metrics: %s, want %s", got, want)
			}
			if words := w.log.String(); res.OK {
				wantIn(t, "log", words, "Agent it completed successfully in ", "Dispatching tool: it with params: {}")
			} else {
				wantIn(t, "log", words, "Agent it failed in ")
			}
		})
	}
}

func TestOutsideOfTheWorkspace(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "evil")
	write(t, outside, sh("echo '{}'"))
	w := newWorld(t, "  it: {path: link}\n", nil)
	if err := os.Symlink(outside, filepath.Join(w.dir, "link")); err != nil {
		t.Fatal(err)
	}
	res, got := w.call("it", `{}`)
	want := `{"status":"error","error":"Agent outside of the workspace: ` + w.dir + `/link; name it absolutely or move it there"}`
	if got != want || res.OK {
		t.Errorf("document = %s\nwant       %s", got, want)
	}
}

func TestParametersThatDoNotHold(t *testing.T) {
	w := newWorldWith(t, "security: {sanitize_inputs: refuse}\n", `
  label_github_issue: {path: it}
  strict: {path: it, schema: {type: object, required: [n], properties: {n: {type: integer}}}}
`, map[string]string{"it": sh("touch ran; echo '{}'")})
	for _, tt := range []struct{ name, tool, args, want, metrics string }{
		{"a repository that is none", "label_github_issue", `{"repo_name":"x"}`, `{"status":"error","error":"Validation error: Invalid repo_name format"}`, "label_github_issue invalid"},
		{"a character that is not let through", "label_github_issue", `{"note":"a;b"}`, `{"status":"error","error":"Validation error: `, "label_github_issue invalid"},
		{"a schema that does not hold", "strict", `{"n":"x"}`, `{"status":"error","error":"Validation error: n: want `, ""},
		{"no object", "strict", `[]`, `{"status":"error","error":"Validation error: `, ""},
		{"a name twice", "strict", `{"n":1,"n":2}`, `{"status":"error","error":"Validation error: args`, ""},
		{"an unknown tool", "strikt", `{}`, `{"status":"error","error":"Unknown tool: strikt; did you mean strict?"}`, ""},
		{"an unknown tool of a hostile name", "a\"\x1b\n", `{}`, `{"status":"error","error":"Unknown tool: a\"\u001b\n; there are health_check, label_github_issue, strict"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.metrics.samples = nil
			res, got := w.call(tt.tool, tt.args)
			if !strings.HasPrefix(got, tt.want) || res.OK {
				t.Errorf("document = %s\nwant       %s", got, tt.want)
			}
			if got := w.metrics.outcomes(); got != tt.metrics {
				t.Errorf("metrics: %q, want %q", got, tt.metrics)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(w.dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestDocumentsOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		res  tool.Result
		want string
	}{
		{"the gate's refusal", tool.Fail(tool.PermissionDenied, "refused by default unknown: nobody to ask"), `{"status":"error","error":"Refused: default unknown: nobody to ask"}`},
		{"a file that may not be read", tool.Fail(tool.PermissionDenied, "/etc/shadow: permission denied"), `{"ok":false,"stdout":"","stderr":"/etc/shadow: permission denied","meta":{"error_code":"PERMISSION_DENIED"}}`},
		{"a file that is not there", tool.Fail(tool.NotFound, "/x: no such file"), `{"ok":false,"stdout":"","stderr":"/x: no such file","meta":{"error_code":"NOT_FOUND"}}`},
		{"another tool's answer", tool.Result{OK: true, Stdout: "<a>", Meta: tool.Meta{"exit_code": 0}}, `{"ok":true,"stdout":"<a>","stderr":"","meta":{"exit_code":0}}`},
		{"another tool that says that it has an outcome", tool.Result{OK: true, Stdout: "no JSON", Meta: tool.Meta{"outcome": "ok"}}, `{"ok":true,"stdout":"no JSON","stderr":"","meta":{"outcome":"ok"}}`},
		{"one with a document that is none", tool.Result{OK: true, Stdout: "{", Meta: tool.Meta{"outcome": "ok", "document": json.RawMessage("{")}}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(bridge.Document(tt.res))
			if tt.want != "" && got != tt.want || !json.Valid([]byte(got)) {
				t.Errorf("Document = %s\nwant       %s", got, tt.want)
			}
		})
	}
}

func TestALongDocumentComesWhole(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh(`printf '{"a":"'; head -c 3000000 /dev/zero | tr '\0' x; printf '"}'`)})
	res, got := w.call("it", `{}`)
	if !res.OK || res.Stdout != "" || len(got) != 3000000+len(`{"a":""}`) {
		t.Errorf("ok %v, stdout of %d bytes, document of %d", res.OK, len(res.Stdout), len(got))
	}
}

func TestAnErrorRepeatsABoundedPart(t *testing.T) {
	w := newWorld(t, "  it: {path: it}\n", map[string]string{"it": sh(`head -c 3000000 /dev/zero | tr '\0' x`)})
	_, got := w.call("it", `{}`)
	var document struct{ Output string }
	if err := json.Unmarshal([]byte(got), &document); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("x", 64<<10) + agent.TruncatedMarker; document.Output != want {
		t.Errorf("output has %d bytes, want %d", len(document.Output), len(want))
	}
}

func TestMixedOutputTakesNoLongerTheWorseItIs(t *testing.T) {
	for name, script := range map[string]string{
		"brackets that are not closed": `head -c 2000000 /dev/zero | tr '\0' '['; echo '{"a":1}'`,
		"brackets that are not opened": `head -c 2000000 /dev/zero | tr '\0' '}'`,
		"quotes":                       `head -c 2000000 /dev/zero | tr '\0' '"'; echo '{"a":1}'`,
		"backslashes":                  `head -c 2000000 /dev/zero | tr '\0' '\\'; echo '"}'`,
		"backslashes and quotes":       `yes '\"' | head -c 2000000; echo '}'`,
		"small documents":              `yes '{}' | head -c 2000000; echo '{"a":1}'`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "  it: {path: it, mixed_output: true}\n", map[string]string{"it": sh(script)})
			begun := time.Now()
			res, got := w.call("it", `{}`)
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			if res.OK && got != `{"a":1}` {
				t.Errorf("document = %.100s", got)
			}
		})
	}
}
