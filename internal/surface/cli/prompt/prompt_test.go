package prompt_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"airlock/internal/surface/cli/prompt"
)

func TestTextIsLaidOutInRows(t *testing.T) {
	tests := []struct {
		name        string
		text        string
		pos, width  int
		rows        []string
		row, column int
	}{
		{"nothing", "", 0, 20, []string{"> "}, 0, 2},
		{"one line", "abc", 1, 20, []string{"> abc"}, 0, 3},
		{"lines of the text have a prompt each", "a\nb", 3, 20, []string{"> a", ". b"}, 1, 3},
		{"a full row has the cursor below it", "abcdef", 6, 8, []string{"> abcdef", ""}, 1, 0},
		{"a long line is broken", "abcdefghij", 10, 8, []string{"> abcdef", "ghij"}, 1, 4},
		{"a wide character is not broken", "abcde漢", 6, 8, []string{"> abcde", "漢"}, 1, 2},
		{"what combines takes no room", "e\u0301x", 2, 20, []string{"> e\u0301x"}, 0, 3},
		{"what cannot be shown is escaped", "a\x1b\u200db", 4, 20, []string{"> a^[\\u200db"}, 0, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, _, row, column := prompt.Rows(tt.text, tt.pos, tt.width)
			if !slices.Equal(rows, tt.rows) || row != tt.row || column != tt.column {
				t.Errorf("rows %q, cursor at %d,%d; want %q, %d,%d", rows, row, column, tt.rows, tt.row, tt.column)
			}
		})
	}
}

func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"abc\r", "\x1b[200~a\rb\x1b[201~", "\x1b[1;5D\x1bOA\x18\x05", "\xff\xc3\r", "\x1b[27;2;13~\x1b[13;2u"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, text := range prompt.Keys(data) {
			if !utf8.ValidString(text) || strings.Contains(text, "\r") {
				t.Errorf("a key gave %q", text)
			}
		}
	})
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte("\"one\"\n\"two\\nlines\"\n{}\n\"cut"))
	f.Add([]byte("\"\\ud800\\r\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var again []byte
		entries := prompt.Decode(data)
		for _, text := range entries {
			line, err := prompt.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, line...)
		}
		if got := prompt.Decode(again); !slices.Equal(got, entries) {
			t.Errorf("written and read again, %q is %q", entries, got)
		}
	})
}

func FuzzLayout(f *testing.F) {
	f.Add("a\nb漢\x1b[31m", 3, 10)
	f.Fuzz(func(t *testing.T, text string, pos, width int) {
		width = min(max(width, 8), 300)
		runes := len([]rune(text))
		if pos < 0 || pos > runes {
			pos = runes
		}
		rows, used, row, column := prompt.Rows(text, pos, width)
		if row < 0 || row >= len(rows) || column < 0 || column >= width {
			t.Errorf("the cursor is at %d,%d of %d rows", row, column, len(rows))
		}
		for i, r := range rows {
			if used[i] > width || strings.IndexFunc(r, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }) >= 0 {
				t.Errorf("row %q takes %d of %d columns", r, used[i], width)
			}
		}
	})
}
