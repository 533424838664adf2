package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"airlock/internal/tool"
)

// FuzzLine holds for all that can come in on a line: it is calls, each with a tool and an
// object or with what is wrong with it, or it cancels and asks for nothing.
func FuzzLine(f *testing.F) {
	for _, text := range []string{
		`{"tool":"a"}`, `{"tool":"a","params":{"x":[1,{"y":null}]}}`, `[{"tool":"a"},7,{},[],null]`, `[]`, `{"cancel":true}`, `{"cancel":1}`, `[{"cancel":true}]`,
		"{\"tool\":\"\xff\"}", `{"tool":"\ud800"}`, `{"tool":"a","tool":"b"}`, `{"Tool":"a"}`, `[[[[[[`, "{}{}", "\x00", `{"tool":"\u0000\u009b"}`, `{ "tool" : "a" , "params" : null }`,
		`{"tool":"a","params":{"n":1e9999}}`, `null`, `"a"`, `{"tool":null}`, `{"tool":[]}`, `{"tool":"a","params":[]}`, `{"tool":"a","PARAMS":{}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := bytes.TrimSpace(data)
		if len(text) == 0 {
			return
		}
		l := decode(1, text)
		value, err := tool.ParseJSON(text)
		switch list, isList := value.([]any); {
		case l.cancel:
			if object, ok := value.(map[string]any); !ok || len(object) != 1 || object["cancel"] != true || len(l.calls) > 0 {
				t.Errorf("%q cancels", text)
			}
		case err == nil && isList && len(list) <= maxBatch:
			if !l.batch || len(l.calls) != len(list) {
				t.Errorf("%q is %d calls", text, len(l.calls))
			}
		case l.batch || len(l.calls) != 1 || err != nil && l.calls[0].wrong == "":
			t.Errorf("%q is %+v", text, l)
		}
		for _, c := range l.calls {
			params, err := tool.ParseJSON(c.params)
			_, object := params.(map[string]any)
			if right := c.wrong == ""; right != (err == nil && object) || right != (c.tool != "") || !utf8.ValidString(c.tool) {
				t.Errorf("%q has the call %q of %q: %q", text, c.params, c.tool, c.wrong)
			}
		}
	})
}

// FuzzReadLine: lines are read whole, whatever they are made of.
func FuzzReadLine(f *testing.F) {
	for _, text := range []string{"", "\n", "a", "a\n", "a\r\n\r\nb\r\n", "\n\na\x00b\n\xff", strings.Repeat("x", 100) + "\ny"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		buf := bufio.NewReaderSize(bytes.NewReader(data), 16)
		var all []byte
		for {
			text, tooLong, err := readLine(buf)
			if tooLong || bytes.Count(text, []byte("\n")) > 1 || err == nil && !bytes.HasSuffix(text, []byte("\n")) {
				t.Fatalf("the line %q, too long: %t", text, tooLong)
			}
			all = append(all, text...)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
		}
		if !bytes.Equal(all, data) {
			t.Errorf("%q was read of %q", all, data)
		}
	})
}

// FuzzOneLine: a document is the same document on one line, or none.
func FuzzOneLine(f *testing.F) {
	for _, text := range []string{"{\n\"a\": [1, 2e3, \"b\u2028\u0085\\n\"]}", `"` + "\x7f\u009b\xff" + `é😀"`, `null`, ``, `{}{}`, `"\ud800"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		line, err := oneLine(data)
		if (err == nil) != json.Valid(data) {
			t.Fatalf("%q: %v", data, err)
		}
		if err != nil {
			return
		}
		if !json.Valid(line) || !utf8.Valid(line) || bytes.ContainsFunc(line, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029'
		}) {
			t.Errorf("%q became %q", data, line)
		}
		var before, after any
		if json.Unmarshal(data, &before) != nil || json.Unmarshal(line, &after) != nil {
			return // a number without a size
		}
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(after)
		if !bytes.Equal(a, b) {
			t.Errorf("%q became %q", a, b)
		}
	})
}
