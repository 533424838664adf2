package cli_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"airlock/agent"
	"airlock/internal/surface/cli"
)

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"text stays", "make test é 日本", "make test é 日本"},
		{"an escape sequence does not reach the terminal", "\x1b[2J", `\x1b[2J`},
		{"a new line does not make one", "a\nb", `a\nb`},
		{"what reorders is shown", "\u202egpj", `\u202egpj`},
		{"what is invisible is shown", "a\u200bb\u00adc", `a\u200bb\u00adc`},
		{"C1 controls too", "\u009b31m", `\u009b31m`},
		{"bytes that are no text are marked", "a\xffb", `a\ufffdb`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.Printable(tt.text); got != tt.want {
				t.Errorf("Printable(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		n          int
		want       string
	}{
		{"what fits stays", "héllo", 5, "héllo"},
		{"what does not ends in a mark", "héllo!", 5, "héll…"},
		{"nothing stays nothing", "", 5, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.Cut(tt.text, tt.n); got != tt.want {
				t.Errorf("Cut = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPlural(t *testing.T) {
	for want, got := range map[string]string{
		"0 changes": cli.Plural(0, "change"), "1 change": cli.Plural(1, "change"), "2 changes": cli.Plural(2, "change"),
		"1 earlier sandbox": cli.Plural(1, "earlier sandbox"), "2 earlier sandboxes": cli.Plural(2, "earlier sandbox"),
	} {
		if got != want {
			t.Errorf("Plural = %q, want %q", got, want)
		}
	}
}

func TestCapture(t *testing.T) {
	for _, tt := range []struct {
		name string
		give []string
		want string
	}{
		{"nothing", nil, ""},
		{"text in pieces", []string{"a", "b"}, "ab"},
		{"exactly what there is room for", []string{strings.Repeat("x", agent.MaxOutput)}, strings.Repeat("x", agent.MaxOutput)},
		{"a byte more is cut and marked", []string{strings.Repeat("x", agent.MaxOutput), "y"}, strings.Repeat("x", agent.MaxOutput) + agent.TruncatedMarker},
		{"no character is cut in two", []string{strings.Repeat("x", agent.MaxOutput-1), "é"}, strings.Repeat("x", agent.MaxOutput-1) + agent.TruncatedMarker},
		{"nor one of four bytes", []string{strings.Repeat("x", agent.MaxOutput-3), "😀"}, strings.Repeat("x", agent.MaxOutput-3) + agent.TruncatedMarker},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c cli.Capture
			for _, s := range tt.give {
				if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
					t.Errorf("Write = %d, %v, want %d: a command must not be stopped by what is kept of it", n, err, len(s))
				}
			}
			if got := c.String(); got != tt.want {
				t.Errorf("String has %d bytes, want %d", len(got), len(tt.want))
			}
		})
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("é"), uint8(1))
	f.Fuzz(func(t *testing.T, tail []byte, before uint8) {
		var c cli.Capture
		_, _ = c.Write(bytes.Repeat([]byte("x"), agent.MaxOutput-int(before)))
		_, _ = c.Write(tail)
		if got := c.String(); utf8.Valid(tail) && !utf8.ValidString(got) {
			t.Errorf("text became something else: %q", got[agent.MaxOutput-int(before):])
		}
	})
}

func TestScreen(t *testing.T) {
	for _, tt := range []struct{ name, give, want string }{
		{"a whole line is followed at once", "a\n", "\r\x1b[J"},
		{"half a line is ended first", "a", "\n\r\x1b[J"},
		{"nothing needs nothing", "", "\r\x1b[J"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, said bytes.Buffer
			w, tidy := cli.Screen(&out)
			if n, err := w.Write([]byte(tt.give)); n != len(tt.give) || err != nil || out.String() != tt.give {
				t.Errorf("Write = %d, %v, and %q came out", n, err, out.String())
			}
			tidy(&said)
			tidy(&said) // a second time does nothing
			if got := said.String(); got != cli.Sane+tt.want {
				t.Errorf("tidy writes %q, want the sequence and %q", got, tt.want)
			}
		})
	}
}
