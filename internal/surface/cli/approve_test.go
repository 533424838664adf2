package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"airlock/internal/gate"
	"airlock/internal/surface/cli"
	"airlock/internal/tool"
)

// request is a question about a line.
func request(risk tool.Risk, text string) *gate.Request {
	return &gate.Request{
		ID: "1", Digest: "sha256:abc", Tool: "cmd.run", Action: "execute", Text: text, Risk: risk, Rule: "default " + string(risk),
		Why: "because", WorkDir: "/home/you/project", User: "you", Expires: time.Now().Add(time.Minute),
		Parts: []tool.Part{{Text: "part one", Verdict: tool.Ask, Risk: risk, Rule: "default x", Why: "because"}}, Touches: []string{"/home/you/x"},
	}
}

func TestAskApproval(t *testing.T) {
	for _, tt := range []struct {
		name  string
		risk  tool.Risk
		typed string
		yes   bool
		says  string
	}{
		{"y lets an ordinary one run", tool.RiskWritesInside, "y\n", true, ""},
		{"yes does, too", tool.RiskNetwork, " YES \r\n", true, ""},
		{"Enter alone is no", tool.RiskWritesInside, "\n", false, ""},
		{"n is no", tool.RiskWritesInside, "n\n", false, ""},
		{"an end is no", tool.RiskWritesInside, "", false, ""},
		{"a letter without Enter is no", tool.RiskWritesInside, "y", false, ""},
		{"a word without Enter is no", tool.RiskDestructive, "yes", false, ""},
		{"something else is asked about again", tool.RiskWritesInside, "ok\ny\n", true, "y or n is wanted"},
		{"something else all the time is no", tool.RiskWritesInside, strings.Repeat("ok\n", 20) + "y\n", false, ""},
		{"always is no answer", tool.RiskWritesInside, "always\na\n\n", false, "y or n is wanted"},
		{"y is too little for a destructive one", tool.RiskDestructive, "y\n\n", false, "the whole word yes"},
		{"yes is enough for it", tool.RiskDestructive, "yes\n", true, ""},
		{"after an y, too", tool.RiskPrivileged, "y\nyes\n", true, "the whole word yes"},
		{"y is too little for an unknown one", tool.RiskUnknown, "y\n", false, "the whole word yes"},
		{"a question mark explains", tool.RiskUnknown, "?\nyes\n", true, "part one"},
		{"explaining names what is touched", tool.RiskUnknown, "?\n\n", false, "touches /home/you/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			r := request(tt.risk, "make it so")
			a := cli.AskApproval(strings.NewReader(tt.typed), &out, r, 80)
			if a.Approved != tt.yes || a.ID != r.ID || a.Digest != r.Digest || a.By != "terminal" {
				t.Errorf("askApproval = %+v, want approved %t", a, tt.yes)
			}
			if !strings.Contains(out.String(), tt.says) {
				t.Errorf("it said %q, want %q in it", out.String(), tt.says)
			}
		})
	}
}

// TestTheWholeCommandIsShown: nothing of a command is left out, and nothing of it can look
// like something of Airlock's own.
func TestTheWholeCommandIsShown(t *testing.T) {
	long := strings.Repeat("x", 300) + "END"
	text := "echo one\n  risk   read-only\n" + long + strings.Repeat(" ", 200) + "rm -rf ~"
	var out bytes.Buffer
	r := request(tool.RiskDestructive, text)
	r.Escaped = true
	cli.AskApproval(strings.NewReader(""), &out, r, 60)
	var shown []string
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "  | "); ok {
			shown = append(shown, rest)
		} else if rest, ok := strings.CutPrefix(line, "  > "); ok {
			shown[len(shown)-1] += rest
		} else if strings.Contains(line, "read-only") {
			t.Errorf("a line of the command's stands unmarked: %q", line)
		}
		if len(line) > 60 && (strings.HasPrefix(line, "  | ") || strings.HasPrefix(line, "  > ")) {
			t.Errorf("a line is wider than the terminal: %q", line)
		}
	}
	if got := strings.Join(shown, "\n"); got != text {
		t.Errorf("shown %q, want %q", got, text)
	}
	for _, part := range []string{"on this machine", "/home/you/project", "as     you", "risk   destructive", "rule   default destructive", "why    because", "cannot be seen"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("it said %q, want %q in it", out.String(), part)
		}
	}
	if strings.Contains(strings.ToLower(out.String()), "always") {
		t.Error("it offers to approve for ever")
	}
}

func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]gate.Approver{
		"a pipe":   cli.NewTerminal(r, os.Stderr),
		"a reader": cli.NewTerminal(strings.NewReader("yes\n"), &bytes.Buffer{}),
	} {
		if _, err := a.Approve(context.Background(), request(tool.RiskWritesInside, "x")); !errors.Is(err, gate.ErrNobody) {
			t.Errorf("%s: err = %v, want %v", name, err, gate.ErrNobody)
		}
	}
}
