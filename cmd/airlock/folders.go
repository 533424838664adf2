package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// dirs are where Airlock keeps what lasts, what can be made again, and what people set.
type dirs struct{ state, cache, config string }

// system is where the machine's own settings are.
const system = "/etc/airlock"

// folders finds them. AIRLOCK_HOME takes the place of the first two; settings are where
// a person's settings are.
func folders() (dirs, error) {
	var d dirs
	all := homes()
	for _, f := range []struct {
		to              *string
		variable, below string
	}{
		{&d.state, "XDG_STATE_HOME", ".local/state"}, {&d.cache, "XDG_CACHE_HOME", ".cache"}, {&d.config, "XDG_CONFIG_HOME", ".config"},
	} {
		if dir := os.Getenv(f.variable); filepath.IsAbs(dir) {
			*f.to = filepath.Join(dir, "airlock")
		} else if len(all) > 0 {
			*f.to = filepath.Join(all[0], f.below, "airlock")
		}
	}
	if home := os.Getenv("AIRLOCK_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return dirs{}, err
		}
		d.state, d.cache = abs, filepath.Join(abs, "cache")
	}
	if d.state == "" || d.cache == "" {
		return dirs{}, errors.New("there is no home folder to keep state in; set AIRLOCK_HOME")
	}
	return d, nil
}

// homes are the person's home folders: $HOME, and what the account says, which a changed
// $HOME must not uncover.
func homes() []string {
	var out []string
	add := func(dir string) {
		if filepath.IsAbs(dir) && dir != "/" && !slices.Contains(out, filepath.Clean(dir)) {
			out = append(out, filepath.Clean(dir))
		}
	}
	add(os.Getenv("HOME"))
	if u, err := user.Current(); err == nil {
		add(u.HomeDir)
	}
	return out
}

// beside is a program of ours that lies beside this one; "" where there is none.
func beside(name string) string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(exe), name)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return ""
	}
	return path
}

// logger logs to stderr at AIRLOCK_LOG's level, or not at all.
func logger() *slog.Logger {
	var level slog.Level
	text := os.Getenv("AIRLOCK_LOG")
	if text == "" || level.UnmarshalText([]byte(text)) != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// settings are the folders of Airlock's settings.
func (d *dirs) settings() []string {
	if d.config == "" {
		return []string{system}
	}
	return []string{system, d.config}
}

// setting is a file of the person's settings; "" where there is no place for them.
func (d *dirs) setting(name string) string {
	if d.config == "" {
		return ""
	}
	return filepath.Join(d.config, name)
}

// identity is who runs on which machine: an approval holds for that alone.
func identity() string {
	host, _ := os.Hostname() // without one, the machine's ID tells
	machine, _ := os.ReadFile("/etc/machine-id")
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return fmt.Sprintf("%s@%s:%s", name, host, strings.TrimSpace(string(machine)))
}
