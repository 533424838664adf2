package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"airlock/internal/surface/stdio"
	"airlock/internal/tool"
)

// echo answers with what it was asked. The tool "bad" answers an error, and "wait" waits
// for the end of its context.
func echo(ctx context.Context, name string, params json.RawMessage) (json.RawMessage, bool) {
	switch name {
	case "bad":
		return json.RawMessage(`{"status": "error"}`), false
	case "wait":
		<-ctx.Done()
		return json.RawMessage(`"canceled"`), false
	}
	document, err := json.MarshalIndent(map[string]any{"tool": name, "params": params}, "", "  ")
	if err != nil {
		return nil, false
	}
	return document, true
}

func TestLines(t *testing.T) {
	big := strings.Repeat("x", tool.MaxCall)
	for _, tt := range []struct {
		name, in, out string
		failed        bool
	}{
		{"nothing is asked", "", "", false},
		{"one call", `{"tool": "a", "params": {"n": 1}}` + "\n", `{"params":{"n":1},"tool":"a"}`, false},
		{"two calls are answered in order", `{"tool":"a"}` + "\n" + `{"tool":"b"}` + "\n", `{"params":{},"tool":"a"}` + "\n" + `{"params":{},"tool":"b"}`, false},
		{"the last line has no end", `{"tool":"a"}`, `{"params":{},"tool":"a"}`, false},
		{"lines end as they do on Windows", "{\"tool\":\"a\"}\r\n\r\n{\"tool\":\"b\"}\r\n", `{"params":{},"tool":"a"}` + "\n" + `{"params":{},"tool":"b"}`, false},
		{"the text begins with a byte order mark", "\ufeff" + `{"tool":"a"}` + "\n", `{"params":{},"tool":"a"}`, false},
		{"a byte order mark stands elsewhere", "\n\ufeff{}\n", `{"status":"error","error":"Invalid JSON on line 2: invalid character 'ï' looking for beginning of value, at byte 1"}`, true},
		{"blank lines are passed over and counted", "\n  \n\t\n5\n", `{"status":"error","error":"Invalid JSON on line 4: it is a number: want an object with 'tool' and 'params', or a list of them"}`, true},
		{"params are null", `{"tool":"a","params":null}`, `{"params":{},"tool":"a"}`, false},
		{"params are a list", `{"tool":"a","params":[]}`, `{"status":"error","error":"'params' in payload is a list: want an object"}`, true},
		{"params are a text", `{"tool":"a","params":"{}"}`, `{"status":"error","error":"'params' in payload is a text: want an object"}`, true},
		{"a number keeps its digits", `{"tool":"a","params":{"n":12345678901234567890.10}}`, `{"params":{"n":12345678901234567890.10},"tool":"a"}`, false},
		{"a member that nobody knows", `{"tool":"a","id":7}`, `{"params":{},"tool":"a"}`, false},
		{"no tool", `{"params":{}}`, `{"status":"error","error":"Missing 'tool' in payload"}`, true},
		{"nothing at all", `{}`, `{"status":"error","error":"Missing 'tool' in payload"}`, true},
		{"a tool that is null", `{"tool":null}`, `{"status":"error","error":"Missing 'tool' in payload"}`, true},
		{"a tool without a name", `{"tool":""}`, `{"status":"error","error":"Missing 'tool' in payload"}`, true},
		{"a tool that is a number", `{"tool":7}`, `{"status":"error","error":"'tool' in payload is a number: want a text"}`, true},
		{"a tool with a capital", `{"Tool":"a"}`, `{"status":"error","error":"Unknown member \"Tool\" in payload; did you mean 'tool'?"}`, true},
		{"params that only fold to it", `{"tool":"a","param\u017f":{}}`, `{"status":"error","error":"Unknown member \"paramſ\" in payload; did you mean 'params'?"}`, true},
		{"two tools", `{"tool":"a","tool":"b"}`, `{"status":"error","error":"Invalid JSON on line 1: it has the name \"tool\" twice in one object"}`, true},
		{"two values of a parameter", `{"tool":"a","params":{"x":1,"x":2}}`, `{"status":"error","error":"Invalid JSON on line 1: it has the name \"x\" twice in one object"}`, true},
		{"no JSON, and then a call", "tool a\n" + `{"tool":"a"}`, `{"status":"error","error":"Invalid JSON on line 1: invalid character 'o' in literal true (expecting 'r'), at byte 2"}` + "\n" + `{"params":{},"tool":"a"}`, true},
		{"half a call", `{"tool":"a"`, `{"status":"error","error":"Invalid JSON on line 1: it ends too early"}`, true},
		{"two calls on a line", `{"tool":"a"}{"tool":"b"}`, `{"status":"error","error":"Invalid JSON on line 1: it has something behind its end, at byte 13"}`, true},
		{"no text", "{\"tool\":\"\xff\"}", `{"status":"error","error":"Invalid JSON on line 1: it is not UTF-8"}`, true},
		{"brackets without an end", `{"tool":"a","params":` + strings.Repeat(`{"a":`, 100000), `{"status":"error","error":"Invalid JSON on line 1: it is nested deeper than 64 levels"}`, true},
		{"a long line, and then a call", big + "y\n" + `{"tool":"a"}`, `{"status":"error","error":"Invalid JSON on line 1: it has more than 1114112 bytes"}` + "\n" + `{"params":{},"tool":"a"}`, true},
		{"a line that is just not too long", big, `{"status":"error","error":"Invalid JSON on line 1: invalid character 'x' looking for beginning of value, at byte 1"}`, true},
		{"an error answer", `{"tool":"bad"}`, `{"status":"error"}`, true},
		{"an error is not forgotten", `{"tool":"bad"}` + "\n" + `{"tool":"a"}`, `{"status":"error"}` + "\n" + `{"params":{},"tool":"a"}`, true},
		{"a batch", `[{"tool":"a"}, {"tool":"b","params":{"n":1}}]`, `[{"params":{},"tool":"a"},{"params":{"n":1},"tool":"b"}]`, false},
		{"a batch of one", `[{"tool":"a"}]`, `[{"params":{},"tool":"a"}]`, false},
		{"a batch of none", ` [ ] `, `[]`, false},
		{"a batch with what is no call", `[{"tool":"a"},{},7,[],{"tool":"bad"}]`, `[{"params":{},"tool":"a"},{"status":"error","error":"Missing 'tool' in payload"},` +
			`{"status":"error","error":"Invalid call: it is a number: want an object with 'tool' and 'params'"},{"status":"error","error":"Invalid call: it is a list: want an object with 'tool' and 'params'"},{"status":"error"}]`, true},
		{"a batch of too many", "[" + strings.Repeat(`{"tool":"a"},`, 1000) + `{"tool":"a"}]`, `{"status":"error","error":"Invalid JSON on line 1: it is a batch of 1001 calls, more than 1000"}`, true},
		{"a cancel with nothing to end", `{"cancel":true}` + "\n" + `{"tool":"a"}`, `{"params":{},"tool":"a"}`, false},
		{"a cancel that is none", `{"cancel":false}`, `{"status":"error","error":"Missing 'tool' in payload"}`, true},
		{"a cancel in a batch", `[{"cancel":true}]`, `[{"status":"error","error":"'cancel' is no part of a call: it stands on a line of its own"}]`, true},
		{"a cancel in a call", `{"tool":"a","cancel":true}`, `{"status":"error","error":"'cancel' is no part of a call: it stands on a line of its own"}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			failed, err := (&stdio.Server{Call: echo, Jobs: 2}).Serve(t.Context(), strings.NewReader(tt.in), &out)
			if err != nil || failed != tt.failed {
				t.Errorf("Serve: failed = %t, err = %v, want %t", failed, err, tt.failed)
			}
			want := tt.out
			if want != "" {
				want += "\n"
			}
			if out.String() != want {
				t.Errorf("answers:\n%s\nwant:\n%s", out.String(), want)
			}
		})
	}
}

// TestAnAnswerIsOneLine: whatever a document holds.
func TestAnAnswerIsOneLine(t *testing.T) {
	for _, tt := range []struct{ name, document, want string }{
		{"a document on many lines", "{\n\"a\" :\r\n[ 1,\t2 ]\n}\n", `{"a":[1,2]}`},
		{"characters that some take for a line's end", "\"a\u2028b\u2029c\u0085d\"", `"a\u2028b\u2029c\u0085d"`},
		{"characters that a terminal takes for a command", "\"\u009b2J\x7f é 😀\"", `"\u009b2J\u007f é 😀"`},
		{"bytes that are no text", "\"a\xffb\"", `"a�b"`},
		{"a document that is a text", `"<a&b>"`, `"<a&b>"`},
		{"null", `null`, `null`},
		{"nothing", ``, `{"status":"error","error":"the answer of \"a\" is no JSON document: unexpected end of JSON input"}`},
		{"two documents", `{} {}`, `{"status":"error","error":"the answer of \"a\" is no JSON document: invalid character '{' after top-level value"}`},
		{"a line's end in a text", "\"a\nb\"", `{"status":"error","error":"the answer of \"a\" is no JSON document: invalid character '\\n' in string literal"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stdio.Server{Call: func(context.Context, string, json.RawMessage) (json.RawMessage, bool) {
				return json.RawMessage(tt.document), true
			}}
			for in, want := range map[string]string{`{"tool":"a"}`: tt.want + "\n", `[{"tool":"a"},{"tool":"a"}]`: "[" + tt.want + "," + tt.want + "]\n"} {
				var out bytes.Buffer
				failed, err := s.Serve(t.Context(), strings.NewReader(in), &out)
				if out.String() != want || err != nil {
					t.Errorf("%s: %q, %v, want %q", in, out.String(), err, want)
				}
				if isError := strings.Contains(want, "status"); failed != isError {
					t.Errorf("%s: failed = %t, want %t", in, failed, isError)
				}
			}
		})
	}
}

// A talk is a client that is answered while it writes.
type talk struct {
	in  *io.PipeWriter
	out *io.PipeReader
	end chan error // what Serve has returned
}

func begin(ctx context.Context, s *stdio.Server) *talk {
	in, write := io.Pipe()
	read, out := io.Pipe()
	c := &talk{write, read, make(chan error, 1)}
	go func() {
		_, err := s.Serve(ctx, in, out)
		out.Close()
		c.end <- err
	}()
	return c
}

func (c *talk) says(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		t.Fatal(err)
	}
}

// rest closes the one side and reads the other to its end.
func (c *talk) rest(t *testing.T) string {
	t.Helper()
	c.in.Close()
	text, err := io.ReadAll(c.out)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-c.end; err != nil {
		t.Errorf("Serve: %v", err)
	}
	return string(text)
}

// waiter is a Server whose calls of "wait" tell that they have begun.
func waiter() (*stdio.Server, <-chan struct{}) {
	began := make(chan struct{}, 100)
	return &stdio.Server{Jobs: 2, Call: func(ctx context.Context, name string, params json.RawMessage) (json.RawMessage, bool) {
		if name == "wait" {
			began <- struct{}{}
		}
		return echo(ctx, name, params)
	}}, began
}

const canceled = `{"status":"error","error":"Agent execution was canceled"}`

func TestACancelEndsWhatWasAskedBefore(t *testing.T) {
	for _, tt := range []struct{ name, before, want string }{
		{"one call", `{"tool":"wait"}`, `"canceled"`},
		{"calls that wait for it", `{"tool":"wait"}` + "\n" + `{"tool":"a"}` + "\n" + `[{"tool":"a"},{"tool":"a"}]`, `"canceled"` + "\n" + canceled + "\n[" + canceled + "," + canceled + "]"},
		{"a batch", `[{"tool":"wait"},{"tool":"wait"},{"tool":"a"},{"tool":"wait"}]`, `["canceled","canceled",` + canceled + "," + canceled + "]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, began := waiter()
			c := begin(t.Context(), s)
			c.says(t, tt.before+"\n")
			<-began
			if strings.HasPrefix(tt.before, "[") {
				<-began
			}
			c.says(t, `{"cancel": true}`+"\n"+`{"tool":"b"}`+"\n")
			want := tt.want + "\n" + `{"params":{},"tool":"b"}` + "\n"
			if got := c.rest(t); got != want {
				t.Errorf("answers:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestTheEndOfTheTextEndsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stdio.Server{Call: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, bool) {
			select {
			case <-ctx.Done():
				return json.RawMessage(`"ended"`), false
			case <-time.After(time.Hour):
				return json.RawMessage(`"done"`), true
			}
		}}
		var out bytes.Buffer
		failed, err := s.Serve(t.Context(), strings.NewReader(`[{"tool":"a"},{"tool":"a"}]`+"\n"+`{"tool":"a"}`), &out)
		if want := "[\"done\",\"done\"]\n\"done\"\n"; out.String() != want || failed || err != nil {
			t.Errorf("Serve: %q, %t, %v, want %q", out.String(), failed, err, want)
		}
	})
}

func TestTheEndOfTheContextEndsAll(t *testing.T) {
	for name, lines := range map[string]string{
		"while a call runs":                `{"tool":"wait"}` + "\n" + `{"tool":"wait"}` + "\n",
		"while a batch runs":               `[{"tool":"wait"},{"tool":"wait"},{"tool":"wait"}]` + "\n",
		"with more lines than are read in": strings.Repeat(`{"tool":"wait"}`+"\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a reader has some time to take what is being written
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				s, began := waiter()
				c := begin(ctx, s)
				go func() { _, _ = io.WriteString(c.in, lines) }() // it may find nobody who reads
				<-began
				stop()
				text, err := io.ReadAll(c.out)
				if err != nil {
					t.Fatal(err)
				}
				if err := <-c.end; !errors.Is(err, context.Canceled) {
					t.Errorf("Serve: err = %v, want %v", err, context.Canceled)
				}
				if n := strings.Count(string(text), "\n"); n != 1 {
					t.Errorf("%d answers, want the one of what ran: %s", n, text)
				}
				c.in.Close()
			})
		})
	}
	t.Run("while nothing comes", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s, _ := waiter()
		c := begin(ctx, s)
		stop()
		if err := <-c.end; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: err = %v, want %v", err, context.Canceled)
		}
		c.in.Close()
	})
}

// TestAReaderThatTakesNothing does not hold up the end.
func TestAReaderThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := begin(ctx, &stdio.Server{Call: echo})
		c.says(t, `{"tool":"a"}`+"\n")
		synctest.Wait()
		stop()
		if err := <-c.end; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: err = %v, want %v", err, context.Canceled)
		}
		c.in.Close()
		c.out.Close()
	})
}

// gone is a pipe whose reader has gone after some bytes.
type gone struct{ left int }

func (g *gone) Write(p []byte) (int, error) {
	n := min(len(p), g.left)
	g.left -= n
	if n < len(p) {
		return n, syscall.EPIPE
	}
	return n, nil
}

func TestAReaderThatHasGoneEndsAll(t *testing.T) {
	for name, in := range map[string]string{
		"one call": `{"tool":"a"}` + "\n" + `{"tool":"wait"}` + "\n",
		"a batch":  `[{"tool":"a"},{"tool":"a"}]` + "\n" + `[{"tool":"wait"},{"tool":"wait"}]` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&stdio.Server{Call: echo}).Serve(t.Context(), strings.NewReader(in), &gone{left: 3})
			if !errors.Is(err, syscall.EPIPE) {
				t.Errorf("Serve: err = %v, want %v", err, syscall.EPIPE)
			}
		})
	}
}

func TestATextThatCannotBeReadOn(t *testing.T) {
	torn := errors.New("torn")
	var out bytes.Buffer
	_, err := (&stdio.Server{Call: echo}).Serve(t.Context(), io.MultiReader(strings.NewReader(`{"tool":"a"}`+"\n"+`{"tool":`), brokenReader{torn}), &out)
	if !errors.Is(err, torn) {
		t.Errorf("Serve: err = %v, want %v", err, torn)
	}
	if want := `{"params":{},"tool":"a"}` + "\n"; out.String() != want {
		t.Errorf("answers: %s, want %s", out.String(), want)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }
