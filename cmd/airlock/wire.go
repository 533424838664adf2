package main

import (
	"errors"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"airlock/internal/audit"
	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/surface/cli"
)

// wire composes the program, from the command line down to the engine. What is returned
// beside it is to be called at the end.
func wire() (*cli.Program, func(), error) {
	dirs, err := folders()
	if err != nil {
		return nil, nil, err
	}
	log := logger()
	store := sync.OnceValues(func() (*changes.Store, error) {
		return changes.OpenStore(filepath.Join(dirs.state, "changes"))
	})
	record, closeRecord := openOnce(filepath.Join(dirs.state, "record.db"))
	driver := gvisor.New(&gvisor.Options{
		StateDir:  dirs.state,
		Engine:    gvisor.StaticEngine(dirs.cache, os.Stderr),
		Agent:     agentBeside(),
		EngineLog: os.Getenv("AIRLOCK_ENGINE_LOG"),
		Logger:    log,
	})
	runner := &executor.Runner{
		Driver: driver, Store: store, Homes: homes(), State: []string{dirs.state},
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
	return &cli.Program{
		Version: version, Driver: driver, Runner: runner, Store: store, Record: record,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
	}, closeRecord, nil
}

// openOnce opens the record when it is first asked for. What is returned beside that closes
// it, if it was opened.
func openOnce(path string) (open func() (*audit.Log, error), end func()) {
	var opened atomic.Pointer[audit.Log]
	open = sync.OnceValues(func() (*audit.Log, error) {
		log, err := audit.Open(path, nil)
		opened.Store(log)
		return log, err
	})
	return open, func() {
		if log := opened.Load(); log != nil {
			// All rows are on the disk already: closing only tidies up.
			_ = log.Close()
		}
	}
}

type dirs struct{ state, cache string }

// folders are where Airlock keeps what lasts and what can be made again.
func folders() (dirs, error) {
	if home := os.Getenv("AIRLOCK_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		return dirs{abs, filepath.Join(abs, "cache")}, err
	}
	state, cache := os.Getenv("XDG_STATE_HOME"), os.Getenv("XDG_CACHE_HOME")
	if filepath.IsAbs(state) && filepath.IsAbs(cache) {
		return dirs{filepath.Join(state, "airlock"), filepath.Join(cache, "airlock")}, nil
	}
	all := homes()
	if len(all) == 0 {
		return dirs{}, errors.New("there is no home folder to keep state in; set AIRLOCK_HOME")
	}
	if !filepath.IsAbs(state) {
		state = filepath.Join(all[0], ".local", "state")
	}
	if !filepath.IsAbs(cache) {
		cache = filepath.Join(all[0], ".cache")
	}
	return dirs{filepath.Join(state, "airlock"), filepath.Join(cache, "airlock")}, nil
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

// agentBeside is the small guest agent, where it lies beside this program.
func agentBeside() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(exe), "airlock-agent")
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
