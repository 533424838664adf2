package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"airlock/internal/surface/cli"
	"airlock/internal/surface/stdio"
	"airlock/internal/tool"
	"airlock/internal/tool/bridge"
	"airlock/internal/tool/bridge/diagnose"
	"airlock/internal/tool/bridge/journal"
	"airlock/internal/tool/bridge/metrics"
	"airlock/internal/tool/bridge/setup"
)

// flushTime is how long what a bridge has still to write down may take at its end.
const flushTime = 5 * time.Second

// metricsFile is where it is kept how agents' calls went.
func (d *dirs) metricsFile() string { return filepath.Join(d.state, "bridge.db") }

// home is the person's home folder; "" where there is none.
func home() string {
	if all := homes(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// A bridged is a configuration of agents that was read.
type bridged struct {
	file   *setup.File
	agents []tool.Tool
	store  *metrics.Store
	end    func() error // writes down what is not yet
}

// loadBridge reads a configuration, for agents beside others.
func loadBridge(d *dirs, config string, others []tool.Tool) (*bridged, error) {
	file, err := setup.Load(config, os.Getenv, home())
	if err != nil {
		return nil, err
	}
	log, closer, logged := journal.Open(&file.Logging)
	store := metrics.Open(d.metricsFile(), file.Path, file.Metrics.Retention, &metrics.Options{Logger: log})
	b := &bridged{file: file, store: store, end: func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		return errors.Join(store.Close(ctx), logged, closer.Close())
	}}
	opts := &bridge.Options{Environ: os.Environ(), Log: log}
	if file.Metrics.Collect {
		opts.Metrics = store
	}
	if b.agents, err = bridge.New(file, opts); err == nil {
		if slices.ContainsFunc(others, isHealth) {
			// One tells of its own configuration alone; airlock bridge --config FILE health of any.
			b.agents = slices.DeleteFunc(b.agents, isHealth)
		}
		err = apart(others, b.agents)
	}
	if err != nil {
		return nil, errors.Join(err, b.end())
	}
	return b, nil
}

func isHealth(t tool.Tool) bool { return t.Info().Name == bridge.HealthCheck }

// apart refuses agents whose names begin as those of other tools do: what a policy says
// of "fs.*" is not for them.
func apart(others, agents []tool.Tool) error {
	families := map[string]bool{}
	for _, t := range others {
		family, _, _ := strings.Cut(t.Info().Name, ".")
		families[family] = true
	}
	for _, a := range agents {
		if family, _, _ := strings.Cut(a.Info().Name, "."); families[family] {
			return fmt.Errorf("%s: agent %s: there are tools already whose names begin with %q; begin this one's name with another word", a.Info().Source, a.Info().Name, family)
		}
	}
	return nil
}

// openBridge reads the configuration that a person names, for agents beside tools.
func openBridge(d *dirs, config string, tools []tool.Tool) (*cli.Bridge, error) {
	b, err := loadBridge(d, config, tools)
	if err != nil {
		return nil, err
	}
	reg, err := tool.NewRegistry(slices.Concat(tools, b.agents)...)
	if err != nil {
		return nil, errors.Join(err, b.end())
	}
	return &cli.Bridge{File: b.file, Tools: reg, Health: b.store.Health, Close: b.end}, nil
}

// withBridges adds the agents of the configurations that the settings name. What could
// not be loaded is said. end writes down what they have not yet.
func withBridges(d *dirs, configs []string, tools []tool.Tool) (all []tool.Tool, said []string, end func()) {
	end = func() {}
	for _, config := range configs {
		b, err := loadBridge(d, config, tools)
		if err == nil {
			var reg *tool.Registry
			if reg, err = tool.NewRegistry(slices.Concat(tools, b.agents)...); reg == nil {
				err = errors.Join(err, b.end())
			}
		}
		if err != nil {
			said = append(said, err.Error())
			continue
		}
		tools = slices.Concat(tools, b.agents)
		before := end
		end = func() {
			before()
			_ = b.end() // a log or numbers that are not kept fail no call
		}
	}
	return tools, said, end
}

// diagnoses looks at what a configuration's agents need.
func diagnoses(d *dirs) func(ctx context.Context, config string, fix bool) []diagnose.Finding {
	return func(ctx context.Context, config string, fix bool) []diagnose.Finding {
		load := func() (*setup.File, error) { return setup.Load(config, os.Getenv, home()) }
		file, err := load()
		return diagnose.Run(ctx, &diagnose.Options{
			Path: config, File: file, Problem: err, Reload: load, Metrics: d.metricsFile(), Env: os.Environ(), Fix: fix,
		})
	}
}

// lines serves the line protocol.
func lines(ctx context.Context, in io.Reader, out io.Writer, jobs int, call cli.BridgeCall) (bool, error) {
	s := &stdio.Server{Jobs: jobs, Call: func(ctx context.Context, name string, params json.RawMessage) (json.RawMessage, bool) {
		return call(ctx, name, params)
	}}
	return s.Serve(ctx, in, out)
}
