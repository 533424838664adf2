package guest

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// The conversions of text are no part of the package's face, and too many cases to reach
// through a command's output.

func TestLossy(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"text stays", "héllo 世界 🎈", "héllo 世界 🎈"},
		{"each stray byte is one", "a\x80\xbfb", "a??b"},
		{"bytes that begin nothing are one each", "\xc0\xc1\xf5\xff", "????"},
		{"a character that breaks off is one", "\xf0\x9f\x98", "?"},
		{"a character that breaks off before another", "\xe4\xb8x\xe4", "?x?"},
		{"an overlong form is one for each byte", "\xe0\x80\x80", "???"},
		{"a surrogate is one for each byte", "\xed\xa0\x80", "???"},
		{"above the last character is one for each byte", "\xf4\x90\x80\x80", "????"},
		{"what is U+FFFD already stays", "\uFFFD", "?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(tt.want, "?", "\uFFFD")
			if got, cut := lossy([]byte(tt.in), 1000); got != want || cut {
				t.Errorf("lossy(%q) = %q, %v, want %q", tt.in, got, cut, want)
			}
		})
	}
}

func FuzzLossy(f *testing.F) {
	for _, s := range []string{"", "abc", "é", "\xff", "a\xf0\x9f\x98", "\xe0\x80\x80\x80", "<>&\u2028\x01\x7f\"\\"} {
		f.Add([]byte(s), 4)
	}
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		limit = max(limit%(len(b)+8), 0)
		whole, _ := lossy(b, 3*len(b))
		if !utf8.ValidString(whole) || utf8.Valid(b) && whole != string(b) {
			t.Fatalf("lossy(%q) = %q", b, whole)
		}
		text, cut := lossy(b, limit)
		if len(text) > limit || !utf8.ValidString(text) || !strings.HasPrefix(whole, text) || cut != (text != whole) {
			t.Fatalf("lossy(%q, %d) = %q, %v", b, limit, text, cut)
		}
		if cut && len(text)+utf8.UTFMax <= limit {
			t.Fatalf("lossy(%q, %d) = %q: there was room for more", b, limit, text)
		}
		if n, ok := wholeChars(b); ok && (!utf8.Valid(b[:n]) || len(b)-n >= utf8.UTFMax) {
			t.Fatalf("wholeChars(%q) = %d", b, n)
		}
		var sb strings.Builder
		enc := json.NewEncoder(&sb)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(whole); err != nil || int64(sb.Len()-1) > jsonLen(whole) {
			t.Fatalf("jsonLen(%q) = %d, and it takes %d", whole, jsonLen(whole), sb.Len()-1)
		}
	})
}
