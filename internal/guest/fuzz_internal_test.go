//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"airlock/agent"
	"airlock/internal/rpc"
)

// FuzzParams gives every method params of all sorts. Nothing is started or opened: of a
// method that acts, only the part that validates is called.
func FuzzParams(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `{"cmd":"x"}`, `{"argv":["a","b"],"env":{"A":"b"},"groups":[1]}`, `{"lang":"sh","code":"x","tty":{"rows":1,"cols":2}}`,
		`{"path":"/a","offset":1,"limit":2,"encoding":"raw"}`, `{"path":"a","content":"b","mode":493,"offset":0}`, `{"id":1,"data":"AA==","eof":true}`,
		`{"id":1,"rows":2,"cols":3}`, `{"id":1,"signal":"SIGINT"}`, `{"from":"a","to":"b"}`, `{"protocol":"1.1","raw":true}`, `{"cmd":{"a":[1,{"b":2}]}}`,
		`{"timeout_ms":` + strings.Repeat("9", 5000) + `}`, `{"env":{"` + strings.Repeat("x", 5000) + `":1}}`, `{"data":"` + strings.Repeat("%", 5000) + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		if !json.Valid(params) || len(params) == 0 {
			return // the transport lets no such through
		}
		req := &rpc.Request{ID: 1, Params: json.RawMessage(strings.TrimSpace(string(params)))}
		check := func(p any, valid func() error) {
			err := decode(req, p)
			if err == nil && valid != nil {
				err = valid()
			}
			var answer *rpc.Error
			if err != nil && (!errors.As(err, &answer) || answer.Code != rpc.CodeInvalidParams || len(answer.Message) > 4096) {
				t.Fatalf("%.300s: %v", params, err)
			}
		}
		var e execParams
		check(&e, e.check)
		var c codeParams
		check(&c, c.check)
		var r readParams
		check(&r, func() error { return r.check(true) })
		var w writeParams
		check(&w, func() error {
			err := w.check(true)
			if err == nil {
				_, err = w.content(req)
			}
			return err
		})
		check(&agent.HelloParams{}, nil)
		check(&agent.InputParams{}, nil)
		check(&agent.ResizeParams{}, nil)
		check(&agent.SignalParams{}, nil)
		check(&agent.MkdirParams{}, nil)
	})
}

// FuzzPaths asks the methods that only look for paths of all sorts.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"", "/", "a/b", "/proc/self/mem", "/dev/zero", "/proc/kmsg", strings.Repeat("a/", 3000), "\xff", "..", "/etc/passwd/x"} {
		f.Add(s, int64(0), int64(100))
	}
	a, err := New(&Options{MaxFrame: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	s := newSession(a, nil)
	f.Fuzz(func(t *testing.T, path string, offset, limit int64) {
		params, err := json.Marshal(map[string]any{"path": path, "offset": offset, "limit": limit})
		if err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{agent.MethodReadFile, agent.MethodListDir, agent.MethodStat} {
			req := &rpc.Request{ID: 1, Method: method, Params: params}
			res, err := s.Handle(context.Background(), &textPeer{}, req)
			if req.Sent != nil {
				req.Sent() // or soon no memory would be left for answers
			}
			if (res == nil) == (err == nil) {
				t.Fatalf("%s %q: %v, %v", method, path, res, err)
			}
		}
		if trimmed := trimSlashes(path); trimmed == "" || len(trimmed) > 1 && strings.HasSuffix(trimmed, "/") {
			t.Fatalf("trimSlashes(%q) = %q", path, trimmed)
		}
	})
}

// A textPeer is a client that agreed on nothing.
type textPeer struct{ rpc.Peer }

func (*textPeer) RawAllowed() bool { return false }

func FuzzStat(f *testing.F) {
	f.Add("1 (a) S 0 1 1 0")
	f.Add("1 (a ) S 2) R 3 4 5 6")
	f.Add("x")
	f.Add("1 (a) \x00 0 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		if stat, ok := parseStat(line); ok && !letter(stat.state) {
			t.Fatalf("parseStat(%q) = %+v", line, stat)
		}
		_ = ownGroup(line, strings.Contains(line, "1"))
	})
}
