package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestWhatIsPassedOnToTheSDK(t *testing.T) {
	t.Parallel()
	more := strings.Repeat("x", 1<<16)
	for name, test := range map[string]struct{ line, want string }{
		"a request":                         {`{"jsonrpc":"2.0","id":"a","method":"x","params":[1, 2]}`, `{"jsonrpc":"2.0","method":"x","id":"a","params":[1, 2]}`},
		"nothing that stands beside it":     {`{"more":"` + more + `","id":1,"result":"` + more + `","method":"x"}`, `{"jsonrpc":"2.0","method":"x","id":1}`},
		"the last of what is there twice":   {`{"id":1,"method":"x","ID":2,"METHOD":"y"}`, `{"jsonrpc":"2.0","method":"y","id":2}`},
		"the answer that is waited for":     {`{"id":5,"result":{}}`, `{"id":5,"result":{}}`},
		"no other":                          {`{"id":6,"result":{}}`, ""},
		"no notification":                   {`{"method":"x"}`, ""},
		"but the one that takes back":       {`{"method":"$/cancel_request","params":{"requestId":1},"x":1}`, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`},
		"unless it is long":                 {`{"method":"$/cancel_request","params":{"requestId":"` + more + `"}}`, ""},
		"an id of null is none":             {`{"id":null,"method":"x"}`, ""},
		"nothing that is no message at all": {`[]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newInbox(1 << 20)
			b.notify, b.noise = func(string, json.RawMessage) {}, func() {}
			b.broken = func(err error) { t.Error(err) }
			b.await(5, nil)
			fmt.Fprintln(b, test.line)
			b.returned()
			b.close()
			got, err := io.ReadAll(b)
			if err != nil || strings.TrimSuffix(string(got), "\n") != test.want {
				t.Errorf("passed on: %.300q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestRequestsOfManyBytesEndTheSession(t *testing.T) {
	t.Parallel()
	b := newInbox(1 << 24)
	var why error
	b.broken = func(err error) { why = err }
	line := `{"id":1,"method":"x","params":"` + strings.Repeat("x", 9<<20) + `"}` + "\n"
	for range 4 {
		_, _ = io.WriteString(b, line)
	}
	if why == nil || !strings.Contains(why.Error(), "its open requests have more than 33554432 bytes") || len(b.queue) != 3 {
		t.Errorf("%v with %d requests, want that they have too many bytes after 3", why, len(b.queue))
	}
	if n, err := io.WriteString(b, "more"); n != 4 || err != nil || len(b.line) != 0 {
		t.Errorf("Write = %d, %v and keeps %d bytes, want all of it dropped", n, err, len(b.line))
	}
}

func TestRoomForResultsIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newOutbox(func() {})
	ctx := t.Context()
	for range 3 {
		if err := b.reserve(ctx, maxRead); err != nil {
			t.Fatal(err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	fourth := make(chan error)
	go func() { fourth <- b.reserve(canceled, maxRead) }()
	cancel()
	if err := <-fourth; !errors.Is(err, context.Canceled) {
		t.Errorf("reserve = %v, want that it was canceled: there was no room", err)
	}
	go func() { fourth <- b.reserve(ctx, maxRead) }()
	b.release(maxRead)
	if err := <-fourth; err != nil || b.reserved != 3*maxRead {
		t.Errorf("reserve = %v with %d bytes reserved", err, b.reserved)
	}
	if _, err := b.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)); err != nil || b.reserved >= 3*maxRead {
		t.Errorf("Write = %v with %d bytes reserved, want fewer", err, b.reserved)
	}
}

func TestWhatIsAnAnswerIsCounted(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`: true, `{"jsonrpc":"2.0","id":"1,\"method\":","error":{}}`: true, `{"jsonrpc":"2.0","id":12}`: true,
		`{"jsonrpc":"2.0","id":12,"method":"x"}`: false, `{"jsonrpc":"2.0","method":"x"}`: false,
	} {
		if got := isAnswer([]byte(line)); got != want {
			t.Errorf("isAnswer(%s) = %v, want %v", line, got, want)
		}
	}
}
