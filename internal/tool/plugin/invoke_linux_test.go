package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/tool"
	"airlock/internal/tool/plugin"
)

// sh is a script that has read its call.
func sh(body string) string { return "#!/bin/sh\nread -r call\n" + body }

func TestInvoke(t *testing.T) {
	const fine = `echo '{"ok":true,"stdout":"s","stderr":"e","meta":{"n":1}}'`
	for _, tt := range []struct {
		name   string
		extra  string // lines of the manifest
		script string
		code   tool.ErrorCode
		says   []string // in Stderr
	}{
		{name: "an answer is taken as it is", script: sh(fine), says: []string{"e"}},
		{name: "stdin that is never read does not break the call", script: "#!/bin/sh\n" + fine, says: []string{"e"}},
		{name: "stdin that is closed early does not break the call", script: "#!/bin/sh\nexec 0<&-\n" + fine, says: []string{"e"}},
		{name: "a failure that the plugin answers keeps its code", script: sh(`echo '{"ok":false,"stderr":"gone","meta":{"error_code":"NOT_FOUND"}}'`), code: tool.NotFound, says: []string{"gone"}},
		{name: "a failure that does not say at what is IO_ERROR", script: sh(`echo '{"ok":false}'`), code: tool.IOError},
		{name: "an exit code beside an answer that is not ok changes nothing", script: sh(`echo '{"ok":false,"meta":{"error_code":"INVALID_ARGS"}}'; exit 3`), code: tool.InvalidArgs},
		{name: "an exit code contradicts an answer that is ok", script: sh(fine + "; echo why >&2; exit 3"), code: tool.IOError, says: []string{"ok is true", "exit code 3", "why"}},
		{name: "too slow", extra: "timeout: 200ms", script: sh("exec sleep 600"), code: tool.Timeout, says: []string{"200ms", "printed nothing"}},
		{name: "too slow, and deaf to being asked to end", extra: "timeout: 200ms", script: sh("trap '' TERM HUP INT; sleep 600 & sleep 600; wait"), code: tool.Timeout},
		{name: "half an answer, then silence", extra: "timeout: 2s", script: sh(`: silence; printf '{"ok":true,"std'; exec sleep 600`), code: tool.Timeout, says: []string{`{"ok":true,"std`}},
		{name: "too much", script: sh("exec yes"), code: tool.IOError, says: []string{"1048576", "max_output"}},
		{name: "a hundred megabytes", extra: "max_output: 8MiB", script: sh("exec head -c 104857600 /dev/zero"), code: tool.IOError, says: []string{"8388608"}},
		{name: "not JSON", script: sh(`printf 'hello \033[31m there'`), code: tool.ParseError, says: []string{"not JSON", `hello \x1b[31m there`}},
		{name: "nothing", script: sh("exit 0"), code: tool.ParseError, says: []string{"ends too early", "printed nothing"}},
		{name: "half an answer", script: sh(`printf '{"ok":true'`), code: tool.ParseError, says: []string{"ends too early"}},
		{name: "more behind the answer", script: sh(fine + "; echo bye"), code: tool.ParseError, says: []string{"more behind its answer"}},
		{name: "two answers", script: sh(fine + ";" + fine), code: tool.ParseError, says: []string{"more behind its answer"}},
		{name: "an exit code and no answer", script: sh("echo first >&2; echo second >&2; exit 7"), code: tool.IOError, says: []string{"exit code 7", "first | second"}},
		{name: "an exit code and no JSON", script: sh("echo Traceback; exit 1"), code: tool.IOError, says: []string{"exit code 1", "Traceback"}},
		{name: "ended by a signal", script: sh("kill -9 $$"), code: tool.IOError, says: []string{"SIGKILL"}},
		{name: "bytes that are no text", script: sh(`printf '{"ok":true,"stdout":"\377"}'`), code: tool.ParseError, says: []string{"not UTF-8"}},
		{name: "a NUL byte", script: sh(`printf '{"ok":true,"stdout":"\000"}'`), code: tool.ParseError, says: []string{"not JSON", `\x00`}},
		{name: "ten megabytes of brackets", extra: "max_output: 8MiB", script: sh(`head -c 7000000 /dev/zero | tr '\0' '['`), code: tool.ParseError, says: []string{"no JSON object"}},
		{name: "megabytes of brackets in meta", extra: "max_output: 8MiB", script: sh(`printf '{"ok":true,"meta":'; head -c 7000000 /dev/zero | tr '\0' '['`), code: tool.ParseError, says: []string{"not JSON"}},
		{name: "an interpreter that does not exist", script: "#!/no/such/interpreter\n", code: tool.PermissionDenied, says: []string{"interpreter"}},
		{name: "no program at all", script: "\x00\x01", code: tool.PermissionDenied, says: []string{"exec format error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine(t)
			extra := tt.extra
			p := probe(t, "", tt.script, nil)
			if extra != "" {
				p = probeWith(t, extra, tt.script)
			}
			begin := time.Now()
			res := p.Invoke(t.Context(), m, goCall())
			if strings.Contains(res.Stderr, "printed nothing") && strings.Contains(tt.script, "silence") { // as on a busy machine
				res = probeWith(t, "timeout: 30s", tt.script).Invoke(t.Context(), m, goCall())
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("Invoke took %s", took)
			}
			if res.Code() != tt.code || res.OK != (tt.code == "") {
				t.Fatalf("Invoke: ok %v, code %q, stderr %q, want code %q", res.OK, res.Code(), res.Stderr, tt.code)
			}
			wantIn(t, "Stderr", res.Stderr, tt.says...)
		})
	}
}

// probeWith is probe with a line of the manifest in another's place.
func probeWith(t *testing.T, line, script string) tool.Tool {
	t.Helper()
	dir := t.TempDir()
	key, _, _ := strings.Cut(line, ":")
	text := strings.Replace(simple, "%s", "", 1)
	if key == "timeout" {
		text = strings.Replace(text, "timeout: 2m", line, 1)
	} else {
		text += line + "\n"
	}
	write(t, filepath.Join(dir, "probe.yaml"), text, 0o644)
	write(t, filepath.Join(dir, "probe"), script, 0o755)
	tools, problems := plugin.Load([]string{dir}, nil)
	if len(tools) != 1 {
		t.Fatalf("Load: %v", problems)
	}
	return tools[0]
}

func TestAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		says         string // in the error; "" where it is taken
		meta         tool.Meta
	}{
		{name: "ok alone is enough", answer: `{"ok":true}`, meta: tool.Meta{}},
		{name: "meta is kept", answer: `{"ok":true,"meta":{"a":[1,2.5,"x",null,true,{"b":{}}]}}`, meta: tool.Meta{"a": []any{int64(1), 2.5, "x", nil, true, map[string]any{"b": map[string]any{}}}}},
		{name: "how long it took is not the plugin's to say", answer: `{"ok":true,"meta":{"duration_ms":-5,"exit_code":3}}`, meta: tool.Meta{"exit_code": 3}},
		{name: "ok is missing", answer: `{"stdout":""}`, says: `member "ok" is missing`},
		{name: "ok in capitals is another member", answer: `{"OK":true}`, says: `there are ok, stdout`},
		{name: "ok is text", answer: `{"ok":"true"}`, says: `"ok": must be true or false, and is text`},
		{name: "ok is null", answer: `{"ok":null}`, says: `"ok": must be true or false, and is null`},
		{name: "ok comes twice", answer: `{"ok":false,"ok":true}`, says: `"ok" is there twice`},
		{name: "a member of meta comes twice", answer: `{"ok":true,"meta":{"a":1,"a":2}}`, says: `"a" twice`},
		{name: "stdout is a list", answer: `{"ok":true,"stdout":[]}`, says: `"stdout": must be text, and is a list`},
		{name: "stderr is a number", answer: `{"ok":true,"stderr":1}`, says: `"stderr": must be text, and is a number`},
		{name: "meta is a list", answer: `{"ok":true,"meta":[]}`, says: `"meta": must be an object, and is a list`},
		{name: "meta is null", answer: `{"ok":true,"meta":null}`, says: `"meta": must be an object, and is null`},
		{name: "a member that is not known", answer: `{"ok":true,"std_out":"x"}`, says: `"std_out": is not known; there are ok, stdout`},
		{name: "a code that there is not", answer: `{"ok":false,"meta":{"error_code":"OOPS"}}`, says: `error_code is "OOPS"; there are PERMISSION_DENIED`},
		{name: "a code that is a number", answer: `{"ok":false,"meta":{"error_code":42}}`, says: `error_code is 42`},
		{name: "a code where all is well", answer: `{"ok":true,"meta":{"error_code":"IO_ERROR"}}`, says: `leave one out`},
		{name: "an exit code that is text", answer: `{"ok":true,"meta":{"exit_code":"0"}}`, says: `exit_code must be a whole number`},
		{name: "a number that no machine has", answer: `{"ok":true,"meta":{"n":1e999}}`, says: "too large"},
		{name: "a number of a thousand digits", answer: `{"ok":true,"meta":{"n":` + strings.Repeat("9", 1000) + `}}`, says: "1000 characters"},
		{name: "meta is deep", answer: `{"ok":true,"meta":{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`, says: "nested more than 32"},
		{name: "meta has very many values", answer: `{"ok":true,"meta":{"a":[` + strings.Repeat("1,", 2000) + `1]}}`, says: "more than 1000 values"},
		{name: "meta is long", answer: `{"ok":true,"meta":{"a":"` + strings.Repeat("x", 70_000) + `"}}`, says: "belongs into stdout"},
		{name: "a list is no answer", answer: `[{"ok":true}]`, says: "no JSON object"},
		{name: "very many members", answer: `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"s":1}`, says: "too many members"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := probe(t, "", sh("cat <<'END'\n"+tt.answer+"\nEND\n"), nil)
			res := p.Invoke(t.Context(), machine(t), goCall())
			if tt.says == "" {
				if diff := cmp.Diff(tool.Result{OK: true, Meta: tt.meta}, res); diff != "" {
					t.Error(diff)
				}
				return
			}
			if res.Code() != tool.ParseError {
				t.Errorf("code = %q, want %q", res.Code(), tool.ParseError)
			}
			wantIn(t, "Stderr", res.Stderr, tt.says)
		})
	}
}

func TestThePluginSeesTheCallAndNoMoreThanItMay(t *testing.T) {
	t.Setenv("AGENTS_OWN", "the guest agent has it")
	m := machine(t)
	p := probe(t, "env: [WANTED, ABSENT]", "#!/bin/sh\ncat >call; env >env; pwd >dir; echo '{\"ok\":true}'", nil)
	call := goCall()
	call.Args = json.RawMessage(`{ "z" : "<é>\u0041", "a":12345678901234567890 }`)
	if res := p.Invoke(t.Context(), m, call); !res.OK {
		t.Fatalf("Invoke: %s", res.Stderr)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(m.WorkDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if got, want := read("call"), `{"tool":"probe","action":"go","args":{"a":12345678901234567890,"z":"<é>A"}}`+"\n"; got != want {
		t.Errorf("stdin = %q, want %q", got, want)
	}
	if got := strings.TrimSpace(read("dir")); got != m.WorkDir {
		t.Errorf("the working folder is %q, want %q", got, m.WorkDir)
	}
	env := "\n" + read("env")
	wantIn(t, "env", env, "\nWANTED=this one\n", "\nLC_ALL=C\n", "\nAIRLOCK_TOOL=probe\n", "\nAIRLOCK_PLUGIN_DIR=/", "\nPATH=")
	for _, not := range []string{"SECRET", "ABSENT", "AGENTS_OWN"} {
		if strings.Contains(env, not) {
			t.Errorf("env has %s", not)
		}
	}
}

func TestStderrGoesToTheLogAndLiveToWhoWatches(t *testing.T) {
	log, text := logged()
	p := probe(t, "", sh(`printf 'one\n\033[2Jtwo\nthree' >&2; echo '{"ok":true,"stderr":"for the caller"}'`), &plugin.Options{Logger: log})
	m := machine(t)
	var live strings.Builder
	m.Stderr = &live
	res := p.Invoke(t.Context(), m, goCall())
	if !res.OK || res.Stderr != "for the caller" {
		t.Errorf("Invoke: ok %v, stderr %q", res.OK, res.Stderr)
	}
	if got, want := live.String(), "one\n\x1b[2Jtwo\nthree"; got != want {
		t.Errorf("live stderr = %q, want %q", got, want)
	}
	wantIn(t, "the log", text(), "level=INFO", "plugin=probe", "line=one\n", `x1b[2Jtwo`, "line=three\n")
	if strings.Contains(text(), "\x1b") {
		t.Error("the log has an escape character")
	}
}

func TestStderrWithoutEndIsBounded(t *testing.T) {
	log, text := logged()
	p := probe(t, "", sh(`head -c 3000000 /dev/zero | tr '\0' x >&2; echo '{"ok":true}'`), &plugin.Options{Logger: log})
	m := machine(t)
	live := 0
	m.Stderr = writerFunc(func(p []byte) (int, error) { live += len(p); return len(p), nil })
	if res := p.Invoke(t.Context(), m, goCall()); !res.OK {
		t.Fatalf("Invoke: %s", res.Stderr)
	}
	if live != 1<<20 || len(text()) > 2<<20 {
		t.Errorf("live %d bytes, logged %d", live, len(text()))
	}
	if n := strings.Count(text(), "level=WARN"); n != 1 {
		t.Errorf("the log says %d times that something was dropped, want once", n)
	}
}

func TestAWatcherWhoFailsDoesNotFailTheCall(t *testing.T) {
	m := machine(t)
	m.Stderr = writerFunc(func([]byte) (int, error) { return 0, errors.New("the terminal is gone") })
	p := probe(t, "", sh(`echo a >&2; echo b >&2; echo '{"ok":true}'`), nil)
	if res := p.Invoke(t.Context(), m, goCall()); !res.OK {
		t.Errorf("Invoke: %s", res.Stderr)
	}
}

func TestOnTheHostOnlyWithTheManifestsWord(t *testing.T) {
	script := sh(`touch ran; echo '{"ok":true}'`)
	m := machine(t)
	m.Where = tool.OnHost
	res := probe(t, "", script, nil).Invoke(t.Context(), m, goCall())
	if res.Code() != tool.PermissionDenied {
		t.Errorf("a plugin of the sandbox: code %q (%s), want %q", res.Code(), res.Stderr, tool.PermissionDenied)
	}
	wantIn(t, "Stderr", res.Stderr, "run: host")
	if _, err := os.Stat(filepath.Join(m.WorkDir, "ran")); err == nil {
		t.Error("it ran")
	}
	if res := probe(t, "run: host", script, nil).Invoke(t.Context(), m, goCall()); !res.OK {
		t.Errorf("a plugin of the host: %s", res.Stderr)
	}
}

func TestTheExecutableChangesAfterLoad(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(path string) error
		code   tool.ErrorCode
	}{
		{"it vanishes", os.Remove, tool.NotFound},
		{"it is no longer executable", func(p string) error { return os.Chmod(p, 0o644) }, tool.PermissionDenied},
		{"a link takes its place", func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/bin/true", p)) }, tool.PermissionDenied},
		{"a folder takes its place", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) }, tool.PermissionDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := probe(t, "", sh("echo '{\"ok\":true}'"), nil)
			file, _, _ := strings.Cut(p.Info().Source, ".yaml")
			if err := tt.change(file); err != nil {
				t.Fatal(err)
			}
			res := p.Invoke(t.Context(), machine(t), goCall())
			if res.Code() != tt.code {
				t.Errorf("code = %q (%s), want %q", res.Code(), res.Stderr, tt.code)
			}
			wantIn(t, "Stderr", res.Stderr, "probe")
		})
	}
}

func TestOnTheHostOnlyWhatWasLoadedRuns(t *testing.T) {
	p := probe(t, "run: host", sh("echo '{\"ok\":true}'"), nil)
	file, _, _ := strings.Cut(p.Info().Source, ".yaml")
	m := machine(t)
	m.Where = tool.OnHost
	if res := p.Invoke(t.Context(), m, goCall()); !res.OK {
		t.Fatalf("as it was loaded: %s", res.Stderr)
	}
	write(t, file, sh("touch changed; echo '{\"ok\":true}'"), 0o755)
	res := p.Invoke(t.Context(), m, goCall())
	if res.Code() != tool.PermissionDenied {
		t.Errorf("changed: code %q (%s), want %q", res.Code(), res.Stderr, tool.PermissionDenied)
	}
	if _, err := os.Stat(filepath.Join(m.WorkDir, "changed")); err == nil {
		t.Error("what took its place was run")
	}
}

func TestALongCallThatIsNeverReadDoesNotHoldTheAnswer(t *testing.T) {
	for name, script := range map[string]string{
		"it never reads":      "#!/bin/sh\necho '{\"ok\":true}'\n",
		"it closes its end":   "#!/bin/sh\nexec 0<&-\nsleep 0.1\necho '{\"ok\":true}'\n",
		"it reads some of it": "#!/bin/sh\nhead -c 10 >/dev/null\necho '{\"ok\":true}'\n",
	} {
		t.Run(name, func(t *testing.T) {
			call := goCall()
			call.Args = []byte(`{"a":"` + strings.Repeat("x", 1_000_000) + `"}`)
			if res := probe(t, "", script, nil).Invoke(t.Context(), machine(t), call); !res.OK {
				t.Errorf("Invoke: %s", res.Stderr)
			}
		})
	}
}

func TestCallsThatAreNoCalls(t *testing.T) {
	p := probe(t, "", sh("touch ran; echo '{\"ok\":true}'"), nil)
	m := machine(t)
	for _, args := range []string{"[]", "null", "{", "{}{}", `"x"`, `{"a":"` + strings.Repeat("x", 2<<20) + `"}`} {
		call := goCall()
		call.Args = []byte(args)
		if res := p.Invoke(t.Context(), m, call); res.Code() != tool.InvalidArgs {
			t.Errorf("%.20s: code %q, want %q", args, res.Code(), tool.InvalidArgs)
		}
	}
	if _, err := os.Stat(filepath.Join(m.WorkDir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestACallThatIsCanceledEndsAtOnce(t *testing.T) {
	m := machine(t)
	p := probe(t, "", sh("echo ready >&2; exec sleep 600"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.Stderr = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if res := p.Invoke(ctx, m, goCall()); res.Code() != tool.IOError || !strings.Contains(res.Stderr, "canceled") {
		t.Errorf("Invoke: code %q, stderr %q", res.Code(), res.Stderr)
	}
}

func TestTheMachinesTimeIsTheShorterOne(t *testing.T) {
	m := machine(t)
	m.MaxTime = 100 * time.Millisecond
	res := probe(t, "", sh("exec sleep 600"), nil).Invoke(t.Context(), m, goCall())
	if res.Code() != tool.Timeout {
		t.Errorf("code = %q, want %q", res.Code(), tool.Timeout)
	}
	wantIn(t, "Stderr", res.Stderr, "100ms")
}

func TestSignalsReachThePlugin(t *testing.T) {
	m := machine(t)
	signals := make(chan string, 1)
	m.Signals = signals
	var once sync.Once // the shell may have more to say when the signal comes
	m.Stderr = writerFunc(func(p []byte) (int, error) {
		once.Do(func() { signals <- "SIGUSR1" })
		return len(p), nil
	})
	res := probe(t, "", sh(`trap 'echo "{\"ok\":true}"; exit 0' USR1; echo ready >&2; while :; do sleep 0.05; done`), nil).Invoke(t.Context(), m, goCall())
	if !res.OK {
		t.Errorf("Invoke: %s", res.Stderr)
	}
}

func TestAMachineThatIsGoneIsAFailure(t *testing.T) {
	m := machine(t)
	m.Client.Close()
	if res := probe(t, "", sh("echo '{\"ok\":true}'"), nil).Invoke(t.Context(), m, goCall()); res.Code() != tool.IOError {
		t.Errorf("code = %q (%s), want %q", res.Code(), res.Stderr, tool.IOError)
	}
}
