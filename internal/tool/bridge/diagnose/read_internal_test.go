package diagnose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRequirements(t *testing.T) {
	for name, c := range map[string]struct {
		text              string
		always, sometimes []string
		more              bool
	}{
		"names, versions and extras": {"requests>=2,<3\nflask[async] == 2.0\nPyYAML\n", []string{"requests", "flask", "PyYAML"}, nil, false},
		"comments and blank lines":   {"# a\n\n  b  # c\nd#e\n", []string{"b"}, nil, true},
		"conditions":                 {"a ; sys_platform == 'win32'\nb>1; python_version<'3'\n", nil, []string{"a", "b"}, false},
		"lines that go on":           {"a \\\n  --hash=sha256:00\r\nb\r\n", []string{"a", "b"}, nil, false},
		"what names no package":      {"-r other.txt\n-e .\nhttps://x.example/a.whl\n./a.whl\n--index-url x\n", nil, nil, true},
		"a package from elsewhere":   {"a @ https://x.example/a.whl\n", []string{"a"}, nil, false},
		"one name twice":             {"a\na>1\n", []string{"a"}, nil, false},
		"a mark at the beginning":    {"\ufeffa\n", []string{"a"}, nil, false},
		"options in disguise":        {"--upgrade\n-x\n", nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRequirements(c.text)
			if !slices.Equal(r.always, c.always) || !slices.Equal(r.sometimes, c.sometimes) || r.more != c.more {
				t.Errorf("parseRequirements = %+v, want %+v", *r, c)
			}
		})
	}
}

func FuzzRequirements(f *testing.F) {
	f.Add("requests>=2 ; python_version < '3.9'\n-r x\n# c\na[b]@c\\\nd")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseRequirements(text)
		if len(r.always)+len(r.sometimes) > maxPackages {
			t.Errorf("%d names", len(r.always)+len(r.sometimes))
		}
		for _, name := range slices.Concat(r.always, r.sometimes) {
			if len(name) > 100 || name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n\x00;@[/\\'\"") {
				t.Errorf("%q is no name", name)
			}
		}
	})
}

func TestVariables(t *testing.T) {
	for script, want := range map[string]bool{
		`os.environ["X_1"]`:     true,
		`os.getenv('X_1', "")`:  true,
		`process.env.X_1`:       true,
		"echo $X_1":             true,
		"echo ${X_1:-none}":     true,
		"ENV.fetch(`X_1`)":      true,
		"X_1 = 3":               false,
		`"a X_1 b"`:             false,
		`os.environ["X_12"]`:    false,
		`os.environ["MY_X_1"]`:  false,
		"export X_1_TOKEN=x_1 ": false,
	} {
		if got := variables(script)["X_1"]; got != want {
			t.Errorf("variables(%q) has X_1: %v, want %v", script, got, want)
		}
	}
	for word, want := range map[string]bool{"GITHUB_TOKEN": true, "A_KEY": true, "DB_PASSWORD": true, "KEY": false, "token": false, "my_token": false, "TOKENS": false} {
		if got := variables("uses " + word + " here")[word]; got != want {
			t.Errorf("%s counts as a credential: %v, want %v", word, got, want)
		}
	}
}

func FuzzVariables(f *testing.F) {
	f.Add(`os.environ["GITHUB_TOKEN"] $A ${B} env.C`)
	f.Fuzz(func(t *testing.T, script string) {
		for name := range variables(script) {
			if !strings.Contains(script, name) || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 'z' || !isWord(byte(r)) }) {
				t.Errorf("%q is no name in %q", name, script)
			}
		}
	})
}

// TestPutAside: what SQLite keeps beside a database goes with it.
func TestPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.WriteFile(path+suffix, []byte(suffix), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	aside, err := putAside(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if text, err := os.ReadFile(aside + suffix); err != nil || string(text) != suffix {
			t.Errorf("%s holds %q, %v", aside+suffix, text, err)
		}
		if isRegular(path + suffix) {
			t.Errorf("%s is still there", path+suffix)
		}
	}
}

func TestVersions(t *testing.T) {
	for out, want := range map[string][2]int{
		"Python 3.11.7\n": {3, 11}, "Python 3.13.0rc1\n": {3, 13}, "warning\nPython 3.8.1+\n": {3, 8}, "Python 2.7.18": {2, 7},
		"Python 3\n": {}, "": {}, "Python 99999999999999999999.1": {}, "Pythonesque 3.9": {},
	} {
		major, minor, ok := parseVersion(out)
		if major != want[0] || minor != want[1] || ok != (want[0] > 0) {
			t.Errorf("parseVersion(%q) = %d, %d, %v, want %v", out, major, minor, ok, want)
		}
	}
}

func FuzzShebang(f *testing.F) {
	f.Add([]byte("#!/usr/bin/env python3\n"))
	f.Add([]byte("#! /bin/sh\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		program, found := shebang(head)
		if found != strings.HasPrefix(string(head), "#!") || strings.ContainsAny(program, " \t\n") {
			t.Errorf("shebang(%q) = %q, %v", head, program, found)
		}
	})
}
