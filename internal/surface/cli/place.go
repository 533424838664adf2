package cli

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"airlock/internal/executor"
	"airlock/internal/hostview"
	"airlock/internal/sandbox"
)

// placeFlags say what sandbox to make, for every command that makes one.
type placeFlags struct {
	memory               string
	cpus                 float64
	procs                int64
	env, envFiles        []string
	dir                  string
	hide, show, readOnly []string
}

func (f *placeFlags) add(fl *pflag.FlagSet) {
	fl.StringVarP(&f.memory, "memory", "m", "", "limit the sandbox's memory, as in 512m or 2g")
	fl.Float64Var(&f.cpus, "cpus", 0, "limit processor time, as in 0.5 or 2")
	fl.Int64Var(&f.procs, "pids", 0, "limit how many processes and threads a command may have at once")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "pass a variable: NAME=VALUE, or NAME for its value here")
	fl.StringArrayVar(&f.envFiles, "env-file", nil, "pass the variables in a file, NAME=VALUE a line")
	fl.StringVarP(&f.dir, "workdir", "w", "", "run in this folder, whose changes are the work (default: the current one)")
	fl.StringArrayVar(&f.hide, "hide", nil, "hide a path from the sandbox")
	fl.StringArrayVar(&f.show, "show", nil, "show a path that is hidden by default")
	fl.StringArrayVar(&f.readOnly, "ro", nil, "make a path read-only in the sandbox")
}

// place turns what was typed into what sandbox to make.
func (p *Program) place(f *placeFlags) (*executor.Place, error) {
	memory, err := parseSize(f.memory)
	if err != nil {
		return nil, usage("--memory %s: %w", f.memory, err)
	}
	switch {
	case f.cpus < 0:
		return nil, usage("--cpus %g: it is negative", f.cpus)
	case f.procs < 0:
		return nil, usage("--pids %d: it is negative", f.procs)
	}
	named, err := namedVariables(f.envFiles, f.env)
	if err != nil {
		return nil, err
	}
	env, err := hostview.Environ(p.Environ, named)
	if err != nil {
		return nil, usage("%w", err)
	}
	dir := f.dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return nil, fail(exitFailed, fmt.Errorf("the working folder: %w", err))
		}
	}
	dir, err = folder(dir)
	if err != nil {
		return nil, usage("%w", err)
	}
	env["PWD"] = dir
	readOnly, err := existing(f.readOnly)
	if err != nil {
		return nil, usage("--ro %w", err)
	}
	return &executor.Place{
		WorkDir: dir, Env: env, Limits: sandbox.Limits{Memory: memory, CPUs: f.cpus, Procs: f.procs},
		Hide: f.hide, Show: f.show, ReadOnly: readOnly,
	}, nil
}

// namedVariables are the words of --env-file's files and then those of --env.
func namedVariables(files, words []string) ([]string, error) {
	var named []string
	for _, file := range files {
		vars, err := hostview.EnvFile(file)
		if err != nil {
			return nil, usage("%w", err)
		}
		named = append(named, vars...)
	}
	return append(named, words...), nil
}
