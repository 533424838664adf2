package lines_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/event"
	"airlock/internal/tool"
)

// What an agent prints, with nobody to take what it asks for.
func TestOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, script  string
		code          int
		stdout, final string
	}{
		{"nothing at all", ``, 0, "", ""},
		{"what is no message is the answer, as it was printed", `printf '{"a":\n 1}\n'; echo '{"type":"progress","message":"x"}'; printf ' end'`, 0, "{\"a\":\n 1}\n end", ""},
		{"a type that is not known is no message", `echo '{"type":"log","text":"x"}'`, 0, "{\"type\":\"log\",\"text\":\"x\"}\n", ""},
		{"a type that is no text is no message", `echo '{"type":["call"]}'`, 0, "{\"type\":[\"call\"]}\n", ""},
		{"a message with something before or behind it is none", `echo 'x {"type":"result","result":1}'; echo '{"type":"result","result":1} x'`, 0, "x {\"type\":\"result\",\"result\":1}\n{\"type\":\"result\",\"result\":1} x\n", ""},
		{"two messages on a line are none", `echo '{"type":"result","result":1}{"type":"result","result":1}'`, 0, "{\"type\":\"result\",\"result\":1}{\"type\":\"result\",\"result\":1}\n", ""},
		{"a result is the answer", `echo '{"type":"result","result":{"status":"success"}}'`, 0, "", `{"status":"success"}`},
		{"a result needs no end of a line", `printf '{"type":"result","result":[1, 2]}'`, 0, "", `[1, 2]`},
		{"a result may be null", `echo '{"type":"result","result":null}'`, 0, "", `null`},
		{"blanks and a carriage return around a message are nothing", `printf ' \t{ "type" : "result" , "result" : 7 } \r\n'`, 0, "", `7`},
		{"a name may be written with escapes", `echo '{"\u0074ype":"result","resul\u0074":7}'`, 0, "", `7`},
		{"of two results the first counts", `echo '{"type":"result","result":1}'; echo '{"type":"result","result":2}'`, 0, "", `1`},
		{"what comes after a result is passed over", `echo before; echo '{"type":"result","result":1}'; echo after; printf more`, 0, "before\n", `1`},
		{"a result closes stdin", `read -r p; echo '{"type":"result","result":1}'; cat >/dev/null; exit 4`, 4, "", `1`},
		{"a result and then another exit code", `echo '{"type":"result","result":1}'; exit 3`, 3, "", `1`},
		{"protocol 1.1 may be said", `echo '{"type":"hello","protocol":"1.1"}'; echo '{"type":"result","result":1}'`, 0, "", `1`},
		{"protocol 1.0 closes stdin, and all that follows is the answer", `echo '{"type":"hello","protocol":"1.0"}'; cat >/dev/null; echo '{"type":"result","result":1}'`, 0, "{\"type\":\"result\",\"result\":1}\n", ""},
		{"stdout is closed, and it goes on", `exec >&-; read -r p; test -n "$p" || exit 9; exit 5`, 5, "", ""},
		{"stdin is closed, and it goes on", `exec <&-; echo '{"type":"call","id":1,"tool":"x"}'; echo '{"type":"nothing"}'; exit 6`, 6, "{\"type\":\"nothing\"}\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.sh(t, c.script, setting{}).wantOut(t, c.code, c.stdout, c.final)
		})
	}
}

// The first line of stdin.
func TestOpening(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const about = `"_airlock":{"protocol":"1.1","tool":"probe","call":"c1","attempt":1,"timeout_ms":300000,"features":["progress","partial","call","ask","cancel"]}}` + "\n"
	for _, c := range []struct{ name, args, want string }{
		{"no parameters", "", "{" + about},
		{"an empty object", " { } ", "{" + about},
		{"parameters as they are written, on one line", "{\"b\": 1.50,\n \"a\": \"<\\u00e4 \\n\"}\n", `{"b":1.50,"a":"<\u00e4 \n",` + about},
		{"no character ends the line for anybody", "{\"a\":\"x\u2028y\u2029z\"}", `{"a":"x\u2028y\u2029z",` + about},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.sh(t, `read -r line; printf '%s\n' "$line"`, setting{args: c.args}).wantOut(t, 0, c.want, "")
		})
	}
	for _, c := range []struct{ name, args, want string }{
		{"a parameter of Airlock's name", `{"_airlock":{"call":"forged"}}`, "_airlock is Airlock's own word"},
		{"Airlock's name with escapes", `{"_\u0061irlock":1}`, "_airlock is Airlock's own word"},
		{"a list", `[1]`, "no JSON object"},
		{"null", `null`, "no JSON object"},
		{"two objects", `{}{}`, "no JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.sh(t, `echo started`, setting{args: c.args})
			if got.err != nil || got.Err == nil || len(got.Stdout) > 0 {
				t.Fatalf("Do: %+v, error %v; want the outcome's and nothing started", got.Outcome, got.err)
			}
			wantIn(t, "Do: Outcome.Err", got.Err.Error(), c.want)
		})
	}
}

// What an agent asks for, and the line that answers it, which it prints behind a dot.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := tool.Back(nil)
	for _, c := range []struct {
		name, ask string
		back      tool.Back
		want      string
	}{
		{"a call", `{"type":"call","id":1,"tool":"x","action":"y","args":{"a":"<"}}`, &back{}, `{"type":"result","id":1,"ok":true,"stdout":"done","stderr":"","meta":{"n":1}}`},
		{"an id is given back as it was written", `{"type":"call","id":"\u00e4<1>","tool":"x"}`, &back{}, `{"type":"result","id":"\u00e4<1>","ok":true,"stdout":"done","stderr":"","meta":{"n":1}}`},
		{"a number of any form is an id", `{"type":"call","id":1.50e3,"tool":"x"}`, &back{}, `{"type":"result","id":1.50e3,"ok":true,"stdout":"done","stderr":"","meta":{"n":1}}`},
		{"a call that nobody takes", `{"type":"call","id":1,"tool":"x"}`, nobody, `{"type":"result","id":1,"ok":false,"stdout":"","stderr":"there is nobody here who takes calls","meta":{"error_code":"PERMISSION_DENIED"}}`},
		{"a result without meta", `{"type":"call","id":1,"tool":"x"}`, &back{call: func(context.Context, tool.Call) tool.Result { return tool.Result{Stdout: "\xff\u2028"} }}, `{"type":"result","id":1,"ok":false,"stdout":"\ufffd\u2028","stderr":"","meta":{}}`},
		{"a result that JSON cannot hold", `{"type":"call","id":1,"tool":"x"}`, &back{call: func(context.Context, tool.Call) tool.Result { return tool.Result{Meta: tool.Meta{"f": func() {}}} }}, `{"type":"error","id":1,"error":"the result cannot be written as JSON: json: unsupported type: func()"}`},
		{"a bridged agent's result", `{"type":"call","id":1,"tool":"x"}`, &back{call: func(context.Context, tool.Call) tool.Result {
			return tool.Result{OK: true, Stdout: `[1]`, Meta: tool.Meta{"outcome": "ok"}}
		}}, `{"type":"result","id":1,"ok":true,"stdout":"[1]","stderr":"","meta":{"outcome":"ok"},"document":[1]}`},
		{"a bridged agent's long result", `{"type":"call","id":1,"tool":"x"}`, &back{call: func(context.Context, tool.Call) tool.Result {
			return tool.Result{OK: true, Meta: tool.Meta{"outcome": "ok", "document": json.RawMessage(`{"long":"\u003c"}`)}}
		}}, `{"type":"result","id":1,"ok":true,"stdout":"","stderr":"","meta":{"outcome":"ok"},"document":{"long":"\u003c"}}`},
		{"a question", `{"type":"ask","id":"q","question":"?","choices":["a","b"],"default":"a"}`, &back{ask: func(_ context.Context, p *tool.Prompt) (string, error) { return p.Choices[1], nil }}, `{"type":"answer","id":"q","answer":"b"}`},
		{"an answer may be empty", `{"type":"ask","id":2,"question":"?"}`, &back{ask: func(context.Context, *tool.Prompt) (string, error) { return "", nil }}, `{"type":"answer","id":2,"answer":""}`},
		{"a question that nobody hears", `{"type":"ask","id":2,"question":"?"}`, &back{}, `{"type":"answer","id":2,"error":"there is nobody to ask"}`},
		{"a question without anybody behind", `{"type":"ask","id":2,"question":"?"}`, nobody, `{"type":"answer","id":2,"error":"there is nobody to ask"}`},
		{"a message that is not right, with an id", `{"type":"call","id":3}`, nobody, `{"type":"error","id":3,"error":"call: tool is missing"}`},
		{"a message that is not right, without an id", `{"type":"partial"}`, nobody, `{"type":"error","error":"partial: data is missing"}`},
		{"an id beside what has none", `{"type":"partial","id":9}`, nobody, `{"type":"error","id":9,"error":"partial: data is missing"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := `read -r p; printf '%s\n' '` + c.ask + `'; read -r line; printf '.%s\n' "$line"`
			w.sh(t, script, setting{back: c.back}).wantOut(t, 0, "."+c.want+"\n", "")
		})
	}
}

func TestCallsAreHandedOn(t *testing.T) {
	t.Parallel()
	b := &back{}
	got := newWorld(t).sh(t, `
		read -r p
		echo '{"type":"call","id":1,"tool":"fs.read_file","action":"read","args":{"path":"a", "n":1.0},"more":1}'; read -r l
		echo '{"type":"call","id":1,"tool":"cmd.run","params":{"command":"x"}}'; read -r l
		echo '{"type":"call","id":1,"tool":"Some-Agent.x"}'; read -r l
		echo '{"type":"ask","id":1,"question":"a\u001b[31m?","choices":["x","y"],"default":"y"}'; read -r l`, setting{back: b})
	got.wantOut(t, 0, "", "")
	if diff := cmp.Diff([]tool.Call{
		{Tool: "fs.read_file", Action: "read", Args: []byte(`{"path":"a", "n":1.0}`)},
		{Tool: "cmd.run", Args: []byte(`{"command":"x"}`)},
		{Tool: "Some-Agent.x", Args: []byte(`{}`)},
	}, b.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]tool.Prompt{{Tool: "probe", Question: "a\x1b[31m?", Choices: []string{"x", "y"}, Default: "y"}}, b.asked); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	b := &back{}
	newWorld(t).sh(t, `
		echo '{"type":"partial","data":{"a": [1]}}'
		echo '{"type":"partial","data":null}'
		printf '%s\n' '{"type":"progress","message":"a\u001b[31mb\nc","done":1.5,"total":0}'`, setting{back: b}).wantOut(t, 0, "", "")
	zero := 0.0
	if diff := cmp.Diff([]event.Event{
		event.Partial{Tool: "probe", Data: []byte(`{"a": [1]}`)},
		event.Partial{Tool: "probe", Data: []byte(`null`)},
		event.Progress{Tool: "probe", Message: `a\x1b[31mb\nc`, Done: 1.5, Total: &zero},
	}, b.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// What an agent does wrong, and is told or ended for.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ name, script, want string }{
		{"a version that Airlock does not speak", `echo '{"type":"hello","protocol":"2.0\u001b[31m"}'; sleep 600`, `it speaks protocol "2.0\x1b[31m", and Airlock speaks 1.1 and 1.0`},
		{"the same as its last word", `printf '{"type":"hello","protocol":"2.0"}'`, `it speaks protocol "2.0", and Airlock speaks 1.1 and 1.0`},
		{"a result without one", `echo '{"type":"result","answer":1}'`, `its answer is not right: result: result is missing`},
		{"a result with two", `echo '{"type":"result","result":1,"result":2}'`, `its answer is not right: result: result is there twice`},
		{"a result of another case", `echo '{"type":"result","Result":"\u0000"}'`, `its answer is not right: result: it has a member "Result": did you mean "result"?`},
		{"a result that is not UTF-8", `printf '{"type":"result","result":"\344"}\n'`, `its answer is not right: result: it is not UTF-8`},
		{"more messages than may come", `yes '{"type":"partial","data":1}' | head -n 10001; sleep 600`, `it sent more than 10000 messages`},
		{"more wrong messages than may come, unread", `yes '{"type":"call","id":7}' | head -n 10001; sleep 600`, `it sent more than 10000 messages`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := w.sh(t, c.script, setting{})
			if got.err == nil || got.Err != nil || got.final != "" {
				t.Fatalf("Do: %+v, final %q, error %v; want an error", got.Outcome, got.final, got.err)
			}
			wantIn(t, "Do: error", got.err.Error(), c.want)
		})
	}
	t.Run("a wrong result, and another exit code", func(t *testing.T) {
		w.sh(t, `echo '{"type":"result"}'; exit 3`, setting{}).wantOut(t, 3, "", "")
	})
	t.Run("a wrong result and then a right one", func(t *testing.T) {
		w.sh(t, `read -r p; echo '{"type":"result"}'; read -r l; printf '%s\n' "$l"; echo '{"type":"result","result":1}'`, setting{}).
			wantOut(t, 0, `{"type":"error","error":"result: result is missing"}`+"\n", "1")
	})
	t.Run("as many messages as may come", func(t *testing.T) {
		b := &back{}
		w.sh(t, `yes '{"type":"partial","data":1}' | head -n 10000`, setting{back: b}).wantOut(t, 0, "", "")
		if len(b.events) != 10_000 {
			t.Errorf("%d events, want 10000", len(b.events))
		}
	})
	for _, c := range []struct{ name, script string }{
		{"a late hello", `echo '{"type":"progress"}'; echo '{"type":"hello","protocol":"1.1"}'`},
		{"a second hello", `echo '{"type":"hello","protocol":"1.1"}'; echo '{"type":"hello","protocol":"1.0"}'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.sh(t, "read -r p; "+c.script+`; read -r l; printf '%s\n' "$l"`, setting{}).
				wantOut(t, 0, `{"type":"error","error":"hello: it comes first, and once"}`+"\n", "")
		})
	}
}

func TestOnlySoManyAreOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wait := func(ctx context.Context, _ tool.Call) tool.Result {
		<-ctx.Done()
		return tool.Fail(tool.IOError, "canceled")
	}
	t.Run("seventeen", func(t *testing.T) {
		b := &back{call: wait, ask: func(ctx context.Context, _ *tool.Prompt) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
		w.sh(t, `read -r p
			for i in 1 2 3 4 5 6 7 8; do echo '{"type":"call","id":'$i',"tool":"x"}'; echo '{"type":"ask","id":"'$i'","question":"x"}'; done
			echo '{"type":"call","id":17,"tool":"x"}'; read -r l; printf '%s\n' "$l"`, setting{back: b}).
			wantOut(t, 0, `{"type":"error","id":17,"error":"call: 16 calls and questions are open, and no more may be: read the answers"}`+"\n", "")
		if len(b.calls)+len(b.asked) != 16 {
			t.Errorf("%d calls and %d questions, want 16", len(b.calls), len(b.asked))
		}
	})
	t.Run("two of one id", func(t *testing.T) {
		w.sh(t, `read -r p
			echo '{"type":"call","id":"a","tool":"x"}'; echo '{"type":"ask","id":"a","question":"x"}'; read -r l; printf '%s\n' "$l"`, setting{back: &back{call: wait}}).
			wantOut(t, 0, `{"type":"error","id":"a","error":"ask: what has id \"a\" is not answered yet: give each an id of its own"}`+"\n", "")
	})
}

// An agent that has read an answer has its place again, and may use the id again.
func TestPlacesAreFreeAtOnce(t *testing.T) {
	t.Parallel()
	b := &back{}
	newWorld(t).sh(t, `read -r p; i=0
		while [ $i -lt 16 ]; do i=$((i+1)); echo '{"type":"call","id":'$i',"tool":"x"}'; done
		i=0; while [ $i -lt 500 ]; do i=$((i+1)); read -r l
			case $l in *error*) printf '%s\n' "$l"; exit 1;; esac
			id=${l#*'"id":'}; echo '{"type":"call","id":'${id%%,*}',"tool":"x"}'; done`, setting{back: b}).wantOut(t, 0, "", "")
	if len(b.calls) < 516-16 {
		t.Errorf("%d calls were made, want 500 at least", len(b.calls))
	}
}

func TestAnAgentThatEndsEndsItsCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, script string
		code         int
		final        string
	}{
		{"it exits in the middle", `exit 3`, 3, ""},
		{"it is ended by a signal", `kill -KILL $$`, -1, ""},
		{"it has given its result", `echo '{"type":"result","result":1}'; cat >/dev/null`, 0, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ended []error
			b := &back{call: func(ctx context.Context, _ tool.Call) tool.Result {
				<-ctx.Done()
				ended = append(ended, ctx.Err())
				return tool.Fail(tool.IOError, "canceled")
			}}
			w.sh(t, `echo '{"type":"call","id":1,"tool":"x"}'; `+c.script, setting{back: b}).wantOut(t, c.code, "", c.final)
			if !slices.ContainsFunc(ended, func(err error) bool { return errors.Is(err, context.Canceled) }) {
				t.Errorf("the call ended with %v, want it canceled", ended)
			}
		})
	}
}

func TestALongMessageIsCut(t *testing.T) {
	t.Parallel()
	b := &back{}
	newWorld(t).sh(t, `printf '{"type":"progress","message":"%s"}\n' `+strings.Repeat("ä", 1500), setting{back: b}).wantOut(t, 0, "", "")
	if got, want := b.events[0].(event.Progress).Message, strings.Repeat("ä", 1000)+"…"; got != want {
		t.Errorf("message = %q, want 1000 characters and …", got)
	}
}

// The result ends what is open, and not only the agent's own end after it.
func TestAResultEndsCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	over := filepath.Join(w.dir, "over")
	b := &back{call: func(ctx context.Context, _ tool.Call) tool.Result {
		<-ctx.Done()
		if err := os.WriteFile(over, nil, 0o600); err != nil {
			t.Error(err)
		}
		return tool.Fail(tool.IOError, "canceled")
	}}
	begun := time.Now()
	w.sh(t, `echo '{"type":"call","id":1,"tool":"x"}'; echo '{"type":"result","result":1}'; until [ -e '`+over+`' ]; do sleep 0.01; done`, setting{back: b, limit: notSoon}).
		wantOut(t, 0, "", "1")
	if took := time.Since(begun); took >= notSoon {
		t.Errorf("Do took %v: the time's end has canceled it, want the result", took)
	}
}
