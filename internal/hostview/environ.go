package hostview

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// passed are the variables of the environment that a sandbox is given; LC_* are, too.
var passed = map[string]bool{
	"PATH": true, "HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "LANG": true, "LANGUAGE": true,
	"TERM": true, "COLORTERM": true, "NO_COLOR": true, "CLICOLOR": true, "FORCE_COLOR": true, "TZ": true,
	"COLUMNS": true, "LINES": true, "EDITOR": true, "VISUAL": true,
	"GOPATH": true, "GOROOT": true, "GOMODCACHE": true, "GOCACHE": true, "GOFLAGS": true,
	"CARGO_HOME": true, "RUSTUP_HOME": true, "JAVA_HOME": true, "PYENV_ROOT": true, "NVM_DIR": true, "VIRTUAL_ENV": true,
	"XDG_CONFIG_HOME": true, "XDG_CACHE_HOME": true, "XDG_DATA_HOME": true, "XDG_STATE_HOME": true,
}

// Environ picks what a sandbox is given out of environ (NAME=VALUE each), and adds what
// a person named: NAME=VALUE, or NAME for the value it has now. Later ones win. A NAME
// that has no value now is left out, as docker does it.
func Environ(environ, named []string) (map[string]string, error) {
	env := map[string]string{}
	all := map[string]string{}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		all[name] = value
		if passed[name] || strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
	}
	for _, kv := range named {
		name, value, ok := strings.Cut(kv, "=")
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("-e %s: %w", kv, err)
		}
		if !ok {
			if value, ok = all[name]; !ok {
				continue
			}
		}
		env[name] = value
	}
	return env, nil
}

func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("the name of the variable is missing; write NAME=VALUE")
	}
	if strings.ContainsAny(name, " \t\n\x00") {
		return fmt.Errorf("%q is not the name of a variable", name)
	}
	return nil
}

// maxEnvFile is how much of an --env-file is read.
const maxEnvFile = 1 << 20

// EnvFile reads NAME=VALUE or NAME lines; empty lines and those that begin with # are
// passed over. A value is taken as it stands: quotes are part of it, as docker does it.
func EnvFile(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	if st.IsDir() {
		return nil, fmt.Errorf("--env-file %s: it is a folder", path)
	}
	return envLines(path, io.LimitReader(f, maxEnvFile+1))
}

func envLines(path string, r io.Reader) ([]string, error) {
	var out []string
	total := 0
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEnvFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if total += len(line) + 1; total > maxEnvFile {
			return nil, fmt.Errorf("--env-file %s: it is larger than %d bytes", path, maxEnvFile)
		}
		trimmed := strings.TrimLeft(line, " \t")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(trimmed, "=")
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("--env-file %s, line %d: %w", path, n, err)
		}
		out = append(out, trimmed)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", path, err)
	}
	return out, nil
}
