package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/internal/config"
)

func TestLoad(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	for _, tt := range []struct {
		name, text string
		want       func(c *config.Config)
	}{
		{"an empty file is the defaults", "", func(*config.Config) {}},
		{"so is one of comments", "# nothing\n---\n", func(*config.Config) {}},
		{"all of it", "record: {max_age: 30d, max_size: 1g}\nplugins: [~/plugins, /opt/x/]\napproval: {expires: 90s}\n", func(c *config.Config) {
			c.Record = config.Record{MaxAge: 720 * time.Hour, MaxSize: 1 << 30}
			c.Plugins = []string{"/home/ann/plugins", "/opt/x"}
			c.Approval.Expires = 90 * time.Second
		}},
		{"in blocks", "record:\r\n  max_size: 1048576\r\nplugins:\r\n  - \"/a b\"\r\n", func(c *config.Config) {
			c.Record.MaxSize = 1 << 20
			c.Plugins = []string{"/a b"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := config.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			want := config.Default()
			tt.want(want)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("Load (-want +got):\n%s", d)
			}
		})
	}
	t.Run("no file is the defaults", func(t *testing.T) {
		got, err := config.Load(filepath.Join(t.TempDir(), "none", "config.yaml"))
		if d := cmp.Diff(config.Default(), got); err != nil || d != "" {
			t.Errorf("Load: %v\n%s", err, d)
		}
	})
	t.Run("what everybody can write is not trusted", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o602); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
			t.Errorf("Load: err = %v", err)
		}
	})
	t.Run("a folder is no file", func(t *testing.T) {
		if _, err := config.Load(t.TempDir()); err == nil {
			t.Error("Load: err = nil")
		}
	})
}

func TestWrongSettings(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown member", "recrod: {}\n", `c.yaml:1:1: the settings: there is no "recrod"; did you mean "record"?`},
		{"one within", "record:\n  max_age: 3d\n  maxsize: 1g\n", `c.yaml:3:3: record: there is no "maxsize"; did you mean "max_size"?`},
		{"one like none", "color: red\n", `there is no "color"; there is ai, approval, bridges, plugins, record`},
		{"a member twice", "approval: {expires: 5m}\nrecord: {}\napproval: {expires: 5m}\n", `c.yaml:3:1: `},
		{"no value", "plugins:\n", `c.yaml:1:1: plugins has no value; take it out`},
		{"a time without a unit", "approval: {expires: 5}\n", `c.yaml:1:21: expires is "5"; write a time span such as 90d`},
		{"no time at all", "approval: {expires: 0s}\n", `write a time span`},
		{"a time before", "record: {max_age: -1d}\n", `write a time span`},
		{"more days than there are", "record: {max_age: 4000000000d}\n", `write a time span`},
		{"no size", "record: {max_size: 0}\n", `write a number of bytes`},
		{"more bytes than there are", "record: {max_size: 9999999999999t}\n", `write a number of bytes`},
		{"a relative folder", "plugins: [plugins]\n", `c.yaml:1:11: plugins: "plugins" is neither absolute`},
		{"another's home", "plugins: [~root/x]\n", `neither absolute`},
		{"one folder without a list", "plugins: /x\n", `plugins is a list of folders`},
		{"a list of lists", "plugins: [[/x]]\n", `write one word`},
		{"a list", "- a\n", `write members`},
		{"a word", "record\n", `write members`},
		{"a number as a name", "1.5: a\n", `write one word`},
		{"a bomb", "a: &a [x,x]\nb: [*a,*a]\n", `no anchors, aliases`},
		{"a tag", "plugins: !!binary aGVsbG8=\n", `no anchors, aliases, tags`},
		{"two documents", "record: {}\n---\nrecord: {}\n", `second document`},
		{"deep nesting", "plugins: " + strings.Repeat("[", 5000), `too many lists`},
		{"what is no YAML", "a: [\n", `c.yaml:`},
		{"what is no text", "a: \xff\n", `not UTF-8`},
		{"a large file", strings.Repeat("# x\n", 1<<15), `more than 65536 bytes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Parse("c.yaml", []byte(tt.text))
			var wrong *config.Error
			if got != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse = %+v, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "record: {max_age: 30d, max_size: 1g}\nplugins: [/a]\n", "a: &a [*a]", "- - -", "? a\n: b", "'\n", "plugins:\n- /x\n- ~/y\n", "{", "a: |\n  x\n", "<<: {}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse("c.yaml", text)
		switch {
		case err != nil && c != nil:
			t.Errorf("Parse = %+v and %v", c, err)
		case err == nil && (c.Record.MaxAge <= 0 || c.Record.MaxSize <= 0 || c.Approval.Expires <= 0):
			t.Errorf("Parse = %+v: a bound is unset", c)
		}
	})
}
