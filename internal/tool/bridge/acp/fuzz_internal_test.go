package acp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
)

// FuzzMessages gives what an agent prints to the inbox and the SDK behind it, as a session
// does: nothing panics, hangs or is counted wrongly.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{"sessionId":"s1","path":"/x","line":1}}`,
		`{"jsonrpc":"2.0","id":-1.5e3,"method":"terminal/create","params":{"sessionId":"s1","command":"x","args":["a"]}}`,
		`{"jsonrpc":"2.0","id":null,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"1","rawInput":{"command":["a"]}},"options":[]}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"t","rawInput":[]}}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1e9}}`,
		"{}\n[]\n\n{\"id\":{}}", `{"ID":1,"Method":"x"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, printed string) {
		c := newClient(&Session{Tool: "probe", Workspace: "/w"}, 1<<16)
		c.turn.open("s1")
		conn := sdk.NewConnection(func(asked context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
			defer c.in.handled(len(params))
			return c.handle(asked, method, params)
		}, c.out, c.in)
		conn.SetLogger(slog.New(slog.DiscardHandler))
		read := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, c.out)
			read <- n
		}()
		c.in.await(1, nil)
		if n, err := io.WriteString(c.in, printed+"\n"); n != len(printed)+1 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
		for deadline := time.Now().Add(time.Minute); ; {
			c.in.mu.Lock()
			asked, size := c.in.asked, c.in.bytes
			c.in.mu.Unlock()
			if asked == 0 && size == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d requests of %d bytes are open", asked, size)
			}
			time.Sleep(time.Millisecond)
		}
		c.in.returned()
		c.in.close()
		<-conn.Done()
		c.finish()
		c.out.end()
		<-read
		if document := c.turn.document(sdk.StopReasonEndTurn); !json.Valid(document) {
			t.Errorf("the document %s is no JSON", document)
		}
	})
}

// FuzzWish gives any input to what makes calls of a permission request: each is a call that
// its tool can read, and there is one at least.
func FuzzWish(f *testing.F) {
	f.Add("execute", `{"command":"ls"}`, "/a")
	f.Add("edit", `{"changes":{"/a":1},"content":"x"}`, "")
	f.Add("move", `{"from":"a","to":"b'"}`, "-rf")
	f.Add("other", `[1]`, "\x00")
	f.Fuzz(func(t *testing.T, kind, input, path string) {
		w := wish{kind: sdk.ToolKind(kind), paths: []string{path}}
		_ = json.Unmarshal([]byte(input), &w.input)
		calls, err := w.calls("probe")
		if err != nil {
			return
		}
		if len(calls) == 0 {
			t.Fatal("nothing is asked about")
		}
		for _, c := range calls {
			var args map[string]string
			if err := json.Unmarshal(c.Args, &args); err != nil || strings.Contains(args["path"], "\x00") {
				t.Errorf("%s %s: %v", c.Tool, c.Args, err)
			}
			if c.Tool == "probe" && c.Action != "" {
				t.Errorf("the unclear call names the action %q", c.Action)
			}
		}
	})
}

// FuzzScreen prints any bytes in pieces: what is kept is text of at most its limit, and its
// end is what was printed last.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("aß\xff€"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, printed []byte, most, piece uint8) {
		s := screen{most: int(most)}
		for rest := printed; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			_, _ = s.Write(rest[:n])
			rest = rest[n:]
			if len(printed) > 256 {
				continue
			}
			if text, _ := s.text(); len(text) > int(most) || strings.ToValidUTF8(text, "") != text {
				t.Fatalf("text %q of at most %d bytes", text, most)
			}
		}
		s.finish()
		text, cut := s.text()
		whole := strings.ToValidUTF8(string(printed), "�")
		if !cut && text != whole || !strings.HasSuffix(whole, text) && len(printed) <= int(most) {
			t.Errorf("text %q (cut %v) of %q", text, cut, whole)
		}
	})
}
