package diagnose_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"airlock/internal/tool/bridge/diagnose"
)

var sample = []diagnose.Finding{
	{Section: diagnose.Python, Name: "py", Level: diagnose.OK, Text: "Python 3.11.7"},
	{Section: diagnose.Files, Name: "a", Level: diagnose.Error, Text: "Agent not found: <a.py>", Mend: "write it"},
	{Section: diagnose.Files, Name: "b", Level: diagnose.OK, Text: "made b executable", Fixed: true},
	{Section: diagnose.Files, Name: "log", Level: diagnose.OK, Text: "well"},
	{Section: diagnose.Gemini, Name: "gemini", Level: diagnose.Info, Text: "PATH has none", Mend: "npm"},
	{Section: diagnose.Environment, Name: "TOKEN", Level: diagnose.Warning, Text: "not set"},
}

func TestWrite(t *testing.T) {
	for name, c := range map[string]struct {
		verbose, color bool
		findings       []diagnose.Finding
		want           string
	}{
		"what is not well": {false, false, sample, `python  ok
files
  error    a: Agent not found: <a.py>
           → write it
  mended   b: made b executable
gemini  only notes, which --verbose shows
environment
  warning  TOKEN: not set

1 error, 1 warning, 1 mended
`},
		"all of it": {true, false, sample, `python
  ok       py: Python 3.11.7
files
  error    a: Agent not found: <a.py>
           → write it
  mended   b: made b executable
  ok       log: well
gemini
  note     gemini: PATH has none
           → npm
environment
  warning  TOKEN: not set

1 error, 1 warning, 1 mended
`},
		"in colour": {false, true, sample[:2], "\x1b[1mpython\x1b[0m  \x1b[32mok\x1b[0m\n\x1b[1mfiles\x1b[0m\n  \x1b[31merror  \x1b[0m  a: Agent not found: <a.py>\n           → write it\n\n1 error, 0 warnings\n"},
		"nothing":   {false, false, nil, "\n0 errors, 0 warnings\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			diagnose.Write(&b, c.findings, c.verbose, c.color)
			if b.String() != c.want {
				t.Errorf("Write:\n%s\nwant\n%s", b.String(), c.want)
			}
		})
	}
}

func TestWriteJSON(t *testing.T) {
	for name, c := range map[string]struct {
		findings []diagnose.Finding
		ok       bool
	}{
		"with an error":             {sample, false},
		"without one":               {sample[2:], true},
		"with nothing":              {nil, true},
		"a level that nobody knows": {[]diagnose.Finding{{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := diagnose.WriteJSON(&b, c.findings); err != nil {
				t.Fatal(err)
			}
			var got struct {
				OK       *bool              `json:"ok"`
				Findings []diagnose.Finding `json:"findings"`
			}
			if err := json.Unmarshal(b.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.OK == nil || *got.OK != c.ok || got.Findings == nil || len(got.Findings) != len(c.findings) {
				t.Errorf("WriteJSON: %s, want ok %v and %d findings", b.String(), c.ok, len(c.findings))
			}
			if diagnose.Failed(c.findings) == c.ok {
				t.Errorf("Failed = %v", !c.ok)
			}
		})
	}
}
