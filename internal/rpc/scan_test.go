package rpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"airlock/internal/rpc"
)

// halves finds \u escapes of surrogates; what remains after whole pairs are taken out is half.
var (
	escapes = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)
	pairs   = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	half    = regexp.MustCompile(`^\\u[dD][89a-fA-F]`)
)

// wellFormed is the scanner's notion of JSON in terms of other people's code.
func wellFormed(line []byte) bool {
	if !json.Valid(line) || !utf8.Valid(line) {
		return false
	}
	depth, deepest := 0, 0
	dec := json.NewDecoder(bytes.NewReader(line))
	for {
		tok, err := dec.Token()
		if err != nil {
			break
		}
		if d, ok := tok.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
			deepest = max(deepest, depth)
		}
	}
	if deepest > 128 {
		return false
	}
	// Escaped backslashes first, so that \\ud800 is no escape of a surrogate.
	text := bytes.ReplaceAll(line, []byte(`\\`), []byte(`__`))
	text = pairs.ReplaceAll(text, nil)
	return !slices.ContainsFunc(escapes.FindAll(text, -1), half.Match)
}

var scanSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`,
	`{"jsonrpc":"2.0","id":18446744073709551615,"result":{"pong":true},"raw":5}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`,
	`{"a":[1,-0,0.5,1e9,1E+2,-1.5e-3,"\ud83d\ude00\n",true,false,null,{},[]]}`,
	`{"method":"p\u0069ng","\u0069d":1,"params":[[[]]]}`,
	`[1,2]`, `"x"`, `null`, `01`, `1.`, `-`, `1e`, `{"a":1,}`, `[,]`, `{"a" 1}`, "{\"a\":\"\x01\"}", `{"a":"\x"}`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", `{} {}`, ` `, ``,
	strings.Repeat("[", 128) + strings.Repeat("]", 128), strings.Repeat("[", 129) + strings.Repeat("]", 129),
	strings.Repeat(`{"a":`, 128) + "1" + strings.Repeat("}", 128), strings.Repeat(`{"a":`, 129) + "1" + strings.Repeat("}", 129),
}

func checkScan(t *testing.T, line []byte) {
	t.Helper()
	ok, got, dup := rpc.Scan(line)
	if want := wellFormed(line); ok != want {
		t.Fatalf("scan of %q: well formed = %v, want %v", line, ok, want)
	}
	trimmed := bytes.TrimLeft(line, " \t\r\n")
	if !ok || trimmed[0] != '{' || dup {
		return
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(line, &want); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"params", "result", "error"} {
		if v, has := want[name]; has != (got[name] != "") || string(v) != got[name] {
			t.Fatalf("scan of %q: %s = %q, want %q", line, name, got[name], v)
		}
	}
	var method string
	if v := want["method"]; len(v) > 0 && v[0] == '"' {
		_ = json.Unmarshal(v, &method)
	}
	if got["method"] != method {
		t.Fatalf("scan of %q: method = %q, want %q", line, got["method"], method)
	}
	id, err := strconv.ParseUint(string(want["id"]), 10, 64)
	gotID, gotOK := rpc.ScanID(line)
	if gotOK != (err == nil) || gotOK && gotID != id {
		t.Fatalf("scan of %q: id = %d, %v, want %d, %v", line, gotID, gotOK, id, err)
	}
}

func TestScanAgreesWithEncodingJSON(t *testing.T) {
	for _, seed := range scanSeeds {
		checkScan(t, []byte(seed))
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range scanSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(checkScan)
}

func TestLinesAndPayloads(t *testing.T) {
	const stream = "one\r\n\ntwo\n12345three\nfour"
	for name, src := range map[string]io.Reader{
		"all at once":   strings.NewReader(stream),
		"byte by byte":  iotest.OneByteReader(strings.NewReader(stream)),
		"half the room": iotest.HalfReader(strings.NewReader(stream)),
		"data with EOF": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			r := rpc.NewReader(src, 100)
			for _, want := range []string{"one", "", "two"} {
				if got, err := r.Line(); err != nil || string(got) != want {
					t.Fatalf("Line = %q, %v, want %q", got, err, want)
				}
			}
			if got, err := r.Payload(5); err != nil || string(got) != "12345" {
				t.Fatalf("Payload = %q, %v", got, err)
			}
			if got, err := r.Line(); err != nil || string(got) != "three" {
				t.Fatalf("Line = %q, %v", got, err)
			}
			if _, err := r.Line(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("half a line: err = %v, want %v", err, io.ErrUnexpectedEOF)
			}
		})
	}
}

// FuzzReader holds the reader, fed in pieces, against the stream cut by hand.
func FuzzReader(f *testing.F) {
	f.Add([]byte("one\r\n\ntwo\n12345three\nfour"), uint8(3), uint8(5))
	f.Add(bytes.Repeat([]byte("x"), 300), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, stream []byte, piece, raw uint8) {
		const limit = 200
		rest := stream
		r := rpc.NewReader(&pieces{rest: stream, n: int(piece%16) + 1}, limit)
		for turn := 0; ; turn++ {
			line, err := r.Line()
			want, tail, whole := bytes.Cut(rest, []byte("\n"))
			switch {
			case len(want) > limit:
				if err == nil {
					t.Fatalf("Line = %q, above the limit", line)
				}
				return
			case !whole:
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("Line at the end: %q, %v", line, err)
				}
				return
			case err != nil || string(line) != strings.TrimSuffix(string(want), "\r"):
				t.Fatalf("Line = %q, %v, want %q", line, err, want)
			}
			rest = tail
			r.Buffered()
			if turn%2 == 0 {
				n := min(int(raw), len(rest))
				got, err := r.Payload(int64(n))
				if err != nil || !bytes.Equal(got, rest[:n]) {
					t.Fatalf("Payload = %q, %v, want %q", got, err, rest[:n])
				}
				rest = rest[n:]
			}
		}
	})
}

// pieces is a source that gives n bytes at a time.
type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func TestAlteredTextIsSeen(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"plain text", "plain", false},
		{"the replacement character itself", "\uFFFD", false},
		{"a backslash before the word", `\ufffd`, false},
		{"two backslashes before the word", `\\ufffd`, false},
		{"a byte that is not UTF-8", "a\xffb", true},
		{"such a byte behind a backslash", "\\\xff", true},
		{"such a byte behind the word", `\ufffd` + "\xff", true},
	} {
		line, err := json.Marshal(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := rpc.Altered(line); got != tt.want {
			t.Errorf("%s: altered(%s) = %v, want %v", tt.name, line, got, tt.want)
		}
	}
}
