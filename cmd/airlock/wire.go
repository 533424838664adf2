package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"airlock/agent"
	"airlock/internal/audit"
	"airlock/internal/changes"
	"airlock/internal/config"
	"airlock/internal/executor"
	"airlock/internal/gate"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/sandbox/host"
	"airlock/internal/surface/cli"
	"airlock/internal/tool"
	"airlock/internal/tool/builtin"
	"airlock/internal/tool/builtin/pkgs"
	"airlock/internal/tool/builtin/svcs"
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
	record, closeRecord := openOnce(filepath.Join(dirs.state, "record.db"), dirs.setting("config.yaml"))
	driver := gvisor.New(&gvisor.Options{
		StateDir:  dirs.state,
		Engine:    engine(dirs.cache),
		Agent:     beside("airlock-agent"),
		EngineLog: os.Getenv("AIRLOCK_ENGINE_LOG"),
		Logger:    log,
	})
	runner := &executor.Runner{
		Driver: driver, Store: store, Homes: homes(), State: []string{dirs.state}, Settings: dirs.settings(),
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
	terminal := cli.NewTerminal(os.Stdin, os.Stderr)
	guard, err := gate.New(&gate.Options{
		System: filepath.Join(system, "policy.yaml"), User: dirs.setting("policy.yaml"),
		Homes: homes(), State: append(dirs.settings(), dirs.state), Private: []string{dirs.state}, HostIdentity: identity(),
		Approver: terminal, Setting: expires(dirs.setting("config.yaml")), Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	builtins := slices.Concat(builtin.Tools(), pkgs.Tools(), svcs.Tools())
	plans := sync.OnceValues(func() (*executor.PlanRunner, error) {
		tools, err := tool.NewRegistry(builtins...)
		return &executor.PlanRunner{
			Runner:   runner,
			Caller:   &executor.Caller{Tools: tools, Guard: guard, Record: recorder(record)},
			Journals: &executor.Journals{Dir: filepath.Join(dirs.state, "plans")},
			Host:     hostAgent(log),
		}, err
	})
	kept := newKeeping(&dirs, driver, runner, recorder(record), log)
	box := &toolbox{dirs: &dirs, builtins: builtins, log: log}
	p := &cli.Program{
		Version: version, Driver: driver, Runner: runner, Store: store, Record: record, Gate: guard, Plans: plans,
		Sandboxes: kept.manager, Images: kept.images, EngineLog: engineLog(dirs.state),
		Tools: box.registry, Bridge: box.bridge, Diagnose: diagnoses(&dirs), Lines: lines, Terminal: terminal,
		Settings: func() (*config.Config, error) { return config.Load(dirs.setting("config.yaml")) },
		Model:    models(dirs.setting("config.yaml")),
		Stdin:    os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
	}
	return p, func() {
		box.end()
		kept.end()
		driver.Close()
		closeRecord()
	}, nil
}

// expires is how long a question waits, by the settings. Settings that cannot be read have
// stopped the record before anything is asked.
func expires(settings string) func() time.Duration {
	return func() time.Duration {
		c, err := config.Load(settings)
		if err != nil {
			return 0
		}
		return c.Approval.Expires
	}
}

// hostAgent starts a guest agent on the host itself.
func hostAgent(log *slog.Logger) func(context.Context) (*agent.Client, io.Closer, error) {
	return func(ctx context.Context) (*agent.Client, io.Closer, error) {
		a, err := host.Start(ctx, &host.Options{Agent: beside("airlock-agent"), Logger: log})
		if err != nil {
			return nil, nil, err
		}
		return a.Client(), a, nil
	}
}

// engine finds the program that is the engine: the one made for it, where it lies beside
// this one, else this one, in a static build.
func engine(cache string) func(context.Context) (string, error) {
	if path := beside("airlock-engine"); path != "" {
		return func(context.Context) (string, error) { return path, nil }
	}
	return gvisor.StaticEngine(cache, os.Stderr)
}

// recorder is the record, opened when its first row is written.
type recorder func() (*audit.Log, error)

func (r recorder) Record(ctx context.Context, kind, id string, data any) error {
	log, err := r()
	if err != nil {
		return err
	}
	return log.Record(ctx, kind, id, data)
}

func (r recorder) Queue(kind, id string, data any) (func(context.Context) error, error) {
	log, err := r()
	if err != nil {
		return nil, err
	}
	return log.Queue(kind, id, data)
}

// openOnce opens the record when it is first asked for, with the bounds of the settings.
// What is returned beside that closes it, if it was opened.
func openOnce(path, settings string) (open func() (*audit.Log, error), end func()) {
	var opened atomic.Pointer[audit.Log]
	open = sync.OnceValues(func() (*audit.Log, error) {
		c, err := config.Load(settings)
		if err != nil {
			return nil, err
		}
		log, err := audit.Open(path, &audit.Options{MaxAge: c.Record.MaxAge, MaxBytes: c.Record.MaxSize})
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
