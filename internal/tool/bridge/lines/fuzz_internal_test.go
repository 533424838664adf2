package lines

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a line is, reading it ends, and what is taken for a message can be answered on
// one line that says what it was meant for.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"type":"hello","protocol":"1.1"}`, `{"type":"progress","message":"x","done":3,"total":10}`, `{"type":"partial","data":[1]}`,
		`{"type":"call","id":1,"tool":"fs.read_file","action":"read","args":{"a":1}}`, `{"type":"call","id":"\u2028","tool":"x","params":{}}`,
		`{"type":"ask","id":-1.5e3,"question":"?","choices":["a","b"],"default":"a"}`, `{"type":"result","result":null}`,
		` {"\u0074ype":"call","type":"ask","ID":1} `, `{"type":"result","result":` + strings.Repeat("[", 10_100) + `}`,
		"{\"type\":\"call\",\"id\":\"\xff\"}", `{"type":{"type":"call"}}`, `{}`, `{"type":"call"}}`, "\x00", `[{"type":"call"}]`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		whole := bytes.Clone(line)
		m, err := decode(line)
		if !bytes.Equal(line, whole) {
			t.Fatal("decode changed the line")
		}
		if m == nil {
			if err != nil {
				t.Fatalf("decode: error %v without a message", err)
			}
			return
		}
		if membersOf(m.kind) == nil || !json.Valid(line) {
			t.Fatalf("decode: kind %q of %q", m.kind, line)
		}
		if err == nil && !utf8.Valid(line) {
			t.Fatal("decode took what is not UTF-8")
		}
		if err == nil && (m.kind == call || m.kind == ask) && m.id == nil {
			t.Fatal("decode took what cannot be answered")
		}
		if err == nil && m.kind == call && (m.tool == "" || len(m.args) == 0 || m.args[0] != '{') {
			t.Fatalf("decode took a call of %q with %q", m.tool, m.args)
		}
		text := "all right"
		if err != nil {
			text = err.Error()
		}
		reply := errorLine(m.id, text)
		var back struct {
			ID    json.RawMessage `json:"id"`
			Error string          `json:"error"`
		}
		if json.Unmarshal(reply, &back) != nil || bytes.IndexByte(reply, '\n') != len(reply)-1 || strings.ContainsAny(string(reply), "\u2028\u2029") {
			t.Fatalf("the reply %q is not one line of JSON", reply)
		}
		if m.id != nil && !sameJSON(t, back.ID, m.id) {
			t.Fatalf("the reply's id is %q, want %q", back.ID, m.id)
		}
	})
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	values := make([]any, 2)
	for i, raw := range []json.RawMessage{a, b} {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			t.Fatalf("id %q: %v", raw, err)
		}
	}
	return values[0] == values[1]
}

// However the bytes come, the lines are the same, and none is longer than it may be.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\nbc\n\n\ndef"), 2, 10)
	f.Add([]byte("abcdefgh\n"), 3, 4)
	f.Add([]byte("\n\n\n"), 1, 0)
	f.Fuzz(func(t *testing.T, data []byte, piece, most int) {
		piece, most = max(piece&0xff, 1), most&0xffff
		s := splitter{most: most}
		var got []byte
		for rest := data; len(rest) > 0; {
			now := rest[:min(piece, len(rest))]
			rest = rest[len(now):]
			for len(now) > 0 {
				line, after, whole, long := s.next(now)
				got = append(got, line...)
				if long {
					want := string(data[len(got)-len(line):])
					if end := strings.IndexByte(want, '\n'); end >= 0 {
						want = want[:end]
					}
					if len(want) <= most {
						t.Fatalf("a line of %d bytes is said to be longer than %d", len(want), most)
					}
					return
				}
				if whole && (bytes.IndexByte(line, '\n') != len(line)-1 || len(line)-1 > most) {
					t.Fatalf("%q is no line of at most %d bytes", line, most)
				}
				if len(s.line) > most {
					t.Fatalf("it keeps %d bytes, more than %d", len(s.line), most)
				}
				now = after
			}
		}
		if got = append(got, s.cut()...); !bytes.Equal(got, data) {
			t.Fatalf("the lines are %q, want %q", got, data)
		}
	})
}
