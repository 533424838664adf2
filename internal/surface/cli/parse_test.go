package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/surface/cli"
)

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int64
		err        string
	}{
		{"nothing is no limit", "", 0, ""},
		{"a number is bytes", "134217728", 128 << 20, ""},
		{"a unit is of 1024", "512m", 512 << 20, ""},
		{"in any case, with b or ib", "2GiB", 2 << 30, ""},
		{"a fraction of a unit", "1.5g", 3 << 29, ""},
		{"with space around", " 64mb ", 64 << 20, ""},
		{"terabytes", "1t", 1 << 40, ""},
		{"too little for a sandbox", "63m", 0, "at least 64m"},
		{"too much for anything", "9999999t", 0, "less than 8 EiB"},
		{"zero is not no limit", "0", 0, "more than nothing"},
		{"a negative number", "-1g", 0, "more than nothing"},
		{"a word", "lots", 0, "512m or 2g"},
		{"a unit alone", "g", 0, "512m or 2g"},
		{"an unknown unit", "5q", 0, "512m or 2g"},
		{"no hexadecimal", "0x8000000", 0, "512m or 2g"},
		{"no exponent", "1e9", 0, "512m or 2g"},
		{"no infinity", "inf", 0, "512m or 2g"},
		{"not a number", "nan", 0, "512m or 2g"},
		{"two units", "1gm", 0, "512m or 2g"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cli.ParseSize(tt.text)
			if got != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("ParseSize(%q) = %d, %v, want %d, %q", tt.text, got, err, tt.want, tt.err)
			}
		})
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"", "1g", "512m", "1.5gib", "-1", "nan", "9e99", "0x1p60"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := cli.ParseSize(s); err == nil && s != "" && n < 64<<20 {
			t.Errorf("ParseSize(%q) = %d, too little for a sandbox", s, n)
		}
	})
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got, err := cli.Folder("."); err != nil || got != dir {
		t.Errorf("Folder(.) = %q, %v, want %q", got, err, dir)
	}
	for _, bad := range []string{file, filepath.Join(dir, "none")} {
		if _, err := cli.Folder(bad); err == nil {
			t.Errorf("Folder(%q): no error", bad)
		}
	}
}
