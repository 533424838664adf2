package material_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"airlock/internal/planner/material"
)

var osReleases = []struct{ name, in, want string }{
	{"Ubuntu's", "PRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"22.04\"\nID=ubuntu\n", "Ubuntu 22.04"},
	{"Alpine's", "NAME='Alpine Linux'\r\nVERSION_ID=3.20.1\r\n", "Alpine Linux 3.20.1"},
	{"without a version", "NAME=\"Arch Linux\"\n# VERSION_ID=1\n", "Arch Linux"},
	{"without a name", "VERSION_ID=1\n", ""},
	{"escapes", `NAME="a\"b\$c\\d"`, `a"b$c\d`},
	{"a command", "NAME=$(reboot)\nVERSION_ID=1", ""},
	{"a command in quotes", "NAME=\"`reboot`\"\nNAME=\"Real\"", "Real"},
	{"a quote that is not closed", "NAME=\"Ubuntu\nVERSION_ID=\"1\"", ""},
	{"two words", "NAME=Debian GNU\nNAME='x'y'", ""},
	{"what plays with the terminal", "NAME=\"\x1b]0;owned\x07\u202e\"", `\x1b]0;owned\x07\u202e`},
	{"a long one", "NAME=" + strings.Repeat("a", 4000), strings.Repeat("a", 128)},
	{"nothing", "", ""},
}

func TestDistro(t *testing.T) {
	for _, tt := range osReleases {
		t.Run(tt.name, func(t *testing.T) {
			if got := material.DistroOf(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzDistro(f *testing.F) {
	for _, tt := range osReleases {
		f.Add(tt.in)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := material.DistroOf(text)
		if len(got) > 128 || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q is told as %q", text, got)
		}
	})
}

var terminals = []struct{ name, in, want string }{
	{"nothing", "", ""},
	{"plain", "a\tb\nc é 漢\n", "a\tb\nc é 漢\n"},
	{"colours", "\x1b[1;31mred\x1b[0m \x1b[38;5;1mx", "red x"},
	{"titles and links", "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"},
	{"a title without an end", "a\x1b]0;title\nb", "a\nb"},
	{"line ends", "a\r\nb\rc\r\r\n", "a\nb\nc\n\n"},
	{"erasing", "secret\b\b\b\x1b[2K\x1b[1Ax", "secretx"},
	{"eight bits", "a\u009b31mb\u0085", "ab"},
	{"what is invisible", "a\u200b\u202eb\u2066\ufeff", "ab"},
	{"what is not UTF-8", "a\xff\x9bb", "a\ufffdb"},
	{"half a sequence", "a\x1b[", "a"},
	{"an escape alone", "a\x1b", "a"},
	{"a device's string", "\x1bP1$r\x1b\\x\x1b(By\x1bc", "xy"},
}

func TestPlainText(t *testing.T) {
	for _, tt := range terminals {
		t.Run(tt.name, func(t *testing.T) {
			if got := material.PlainText(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzPlainText(f *testing.F) {
	for _, tt := range terminals {
		f.Add(tt.in)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := material.PlainText(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("of %q, %q is left", text, got)
		}
		if again := material.PlainText(got); again != got {
			t.Errorf("of %q, %q is left, and of that %q", text, got, again)
		}
	})
}

func FuzzEnv(f *testing.F) {
	f.Add(known, "")
	f.Add("A=\"x\nB='", "'\"\n")
	f.Add("A=`\\", "`#\r\n")
	const sentinel = "Tq8vZr1LmW/the-value"
	same := func(s string) string { return s }
	f.Fuzz(func(t *testing.T, before, after string) {
		if all, _ := material.EnvParts(before); all != before {
			t.Errorf("the parts of %q are %q", before, all)
		}
		once := material.RedactEnv(before, same)
		if again := material.RedactEnv(once, same); again != once {
			t.Errorf("%q is redacted to %q, and that to %q", before, once, again)
		}
		// Whatever stands around it, an assignment's value is taken out.
		for _, text := range []string{before + "\nKEY=" + sentinel + "\n" + after, before + "\n export KEY = '" + sentinel + "'" + after} {
			if got := material.RedactEnv(text, same); strings.Contains(got, sentinel) && !strings.Contains(before+after, sentinel) {
				t.Errorf("%q is redacted to %q", text, got)
			}
		}
	})
}

func FuzzRedactor(f *testing.F) {
	values := []string{"Tq8vZr1LmW", `Tq8v Zr1"L\mW/+=`, "aaaaaa", "aaaaaaab", "hunter2-hunter2", "line one\nline two"}
	r := material.NewRedactor(&material.RedactorOptions{Extra: values})
	for _, v := range values {
		f.Add("x" + v + "y")
		f.Add("PASSWORD=" + v + " https://ann:" + v + "@host")
	}
	f.Add(known)
	f.Fuzz(func(t *testing.T, text string) {
		got := r.Text(text)
		for _, v := range values {
			if strings.Contains(got, v) {
				t.Errorf("of %q, %q is left: %q", text, got, v)
			}
		}
		if again := r.Text(got); again != got {
			t.Errorf("%q is redacted to %q, and that to %q", text, got, again)
		}
	})
}
