package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"airlock/internal/executor"
	"airlock/internal/hostview"
	"airlock/internal/image"
	"airlock/internal/netgate"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/sandbox/manager"
)

// keeping composes what keeps sandboxes that last.
type keeping struct {
	dirs   *dirs
	driver *gvisor.Driver
	runner *executor.Runner
	record recorder
	log    *slog.Logger

	manager func() (*manager.Manager, error)
	images  func() (*image.Store, error)

	mu     sync.Mutex
	opened *manager.Manager
}

func newKeeping(d *dirs, driver *gvisor.Driver, runner *executor.Runner, record recorder, log *slog.Logger) *keeping {
	k := &keeping{dirs: d, driver: driver, runner: runner, record: record, log: log}
	k.images = sync.OnceValues(func() (*image.Store, error) {
		return image.Open(filepath.Join(d.cache, "images"), nil)
	})
	k.manager = sync.OnceValues(func() (*manager.Manager, error) {
		m := manager.New(&manager.Options{
			Dir: d.state, Driver: endings{driver}, Images: images(k.images), View: k.view, Gate: k.gate,
			Record: record.Record, Logger: log,
		})
		k.mu.Lock()
		k.opened = m
		k.mu.Unlock()
		return m, nil
	})
	return k
}

// end lets go of the manager, if it was opened.
func (k *keeping) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opened != nil {
		_ = k.opened.Close() // the sandboxes go on, and nobody is left to tell
	}
}

// view says what a sandbox over the host does not see.
func (k *keeping) view(workdir string, hide, show []string) (string, []string, error) {
	work, err := filepath.EvalSymlinks(workdir)
	if err != nil {
		return "", nil, fmt.Errorf("the working folder: %w", err)
	}
	r := k.runner
	hidden, err := hostview.Hidden(&hostview.Rules{Homes: r.Homes, State: r.State, Settings: r.Settings, WorkDir: work, Hide: hide, Show: show})
	return work, hidden, err
}

// gate makes the network's gate of a sandbox: this program, once more.
func (k *keeping) gate(ctx context.Context, req *manager.GateRequest) (*manager.Gate, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &manager.Gate{Argv: []string{exe, gateArgument}, Ports: gatePorts}
	in := &gateInput{State: k.dirs.state, Settings: k.dirs.setting("config.yaml")}
	if req.Input != nil {
		// A fork's: with the secrets that its parent has. Ports of the host are its parent's as well.
		if err := json.Unmarshal(req.Input, in); err != nil {
			return nil, fmt.Errorf("what the parent's gate was started with: %w", err)
		}
		for i := range in.Config.Publish {
			in.Config.Publish[i].HostPort = 0
		}
	} else {
		plan, err := netPlan(&req.Net)
		if err != nil {
			return nil, err
		}
		config, err := plan.Hold(ctx, os.LookupEnv)
		if err != nil {
			return nil, err
		}
		// What goes on from a state has placeholders in its memory, which stay what they are.
		for i, held := range config.Secrets {
			if old := req.Env[held.Name]; old != "" {
				config.Secrets[i].Placeholder = old
			}
		}
		if err := config.Check(); err != nil {
			return nil, err
		}
		in.Config = *config
	}
	g.Env = map[string]string{}
	for _, line := range in.Config.Env() {
		name, value, _ := strings.Cut(line, "=")
		g.Env[name] = value
	}
	g.Input, err = json.Marshal(in)
	return g, err
}

// netPlan reads what a person asked of the network.
func netPlan(n *manager.Net) (*netgate.Plan, error) {
	plan := &netgate.Plan{}
	for _, text := range n.Allow {
		rules, err := netgate.ParseAllow(text)
		if err != nil {
			return nil, err
		}
		plan.Allow = append(plan.Allow, rules...)
	}
	for _, text := range n.Publish {
		p, err := netgate.ParsePublish(text)
		if err != nil {
			return nil, err
		}
		plan.Publish = append(plan.Publish, p)
	}
	for _, text := range n.Secrets {
		s, err := netgate.ParseSecret(text)
		if err != nil {
			return nil, err
		}
		plan.Secrets = append(plan.Secrets, s)
	}
	return plan, plan.Check()
}

// gatePorts reads what gateReady says.
func gatePorts(said []byte) ([]manager.Port, error) {
	var ready gateReady
	if err := json.Unmarshal(said, &ready); err != nil {
		return nil, err
	}
	var ports []manager.Port
	for _, p := range ready.Ports {
		ports = append(ports, manager.Port{Guest: p.Port, Host: p.HostPort})
	}
	return ports, nil
}

// endings is the driver as the manager asks it.
type endings struct{ *gvisor.Driver }

func (d endings) Ended(_ context.Context, id string) (manager.Ending, bool) {
	e, ok := d.Driver.Ended(id)
	return manager.Ending{Reason: e.Reason, Time: e.At, Text: e.Text}, ok
}

func (d endings) Forget(_ context.Context, id string) error {
	d.Driver.Forget(id)
	return nil
}

// images is the store as the manager asks it.
type images func() (*image.Store, error)

func (open images) Use(ctx context.Context, ref, pull, owner string, progress any) (*manager.Image, error) {
	store, err := open()
	if err != nil {
		return nil, err
	}
	policy, err := image.ParsePolicy(pull)
	if err != nil {
		return nil, err
	}
	opts := &image.PullOptions{Policy: policy, Owner: owner}
	opts.Progress, _ = progress.(func(image.Progress))
	img, err := store.Pull(ctx, ref, opts)
	if err != nil {
		return nil, err
	}
	out := &manager.Image{Digest: img.ID, Root: img.RootDir, WorkDir: img.Config.WorkingDir, User: img.Config.User, Env: map[string]string{}}
	for _, line := range img.Config.Env {
		name, value, _ := strings.Cut(line, "=")
		out.Env[name] = value
	}
	return out, nil
}

func (open images) Hold(ctx context.Context, digest, owner string) error {
	store, err := open()
	if err != nil {
		return err
	}
	return store.Hold(ctx, digest, owner)
}

func (open images) Release(ctx context.Context, owner string) error {
	store, err := open()
	if err != nil {
		return err
	}
	return store.Release(ctx, owner)
}

func (open images) Owners(ctx context.Context) ([]string, error) {
	store, err := open()
	if err != nil {
		return nil, err
	}
	return store.Holders(ctx)
}

var (
	_ manager.Images  = images(nil)
	_ manager.Endings = endings{}
	_ sandbox.Keeping = endings{}
)
