//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/config"
)

func TestWhoMayWriteWhatAsksAModel(t *testing.T) {
	const ai = "ai: {provider: openai, key_command: pass show x}\n"
	for _, tt := range []struct {
		name, text   string
		file, folder os.FileMode
		uid          int
		want         string
	}{
		{"only the person", ai, 0o600, 0o755, 0, ""},
		{"all may read it", ai, 0o644, 0o755, 0, ""},
		{"the group may write to it", ai, 0o664, 0o755, 0, "others may write to it (mode 0664), so its ai: is not trusted; chmod go-w /"},
		{"the group may write to its folder", ai, 0o644, 0o775, 0, "others may write to its folder (mode 0775)"},
		{"all may, but take nobody's files", ai, 0o644, 0o777 | os.ModeSticky, 0, ""},
		{"another's", ai, 0o644, 0o755, 1234, "it belongs to another user"},
		{"the group may write to what asks no model", "record: {max_age: 3d}\n", 0o664, 0o775, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "config.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.uid != 0 {
				if os.Getuid() != 0 {
					t.Skip("only the superuser can give a file away")
				}
				if err := os.Chown(path, tt.uid, -1); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(path, tt.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.folder); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(path)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load: err = %v, want %q", err, tt.want)
			}
		})
	}
}
