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

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"

	"airlock/internal/executor"
	"airlock/internal/hostview"
	"airlock/internal/image"
	"airlock/internal/netgate"
	"airlock/internal/sandbox/gvisor"
	"airlock/internal/sandbox/manager"
	"airlock/internal/sandbox/pool"
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
			Dir: d.state, Driver: driver, Ended: ended(driver), Forget: driver.Forget, Changes: livingSets{runner}, Images: images(k.images), View: k.view, Gate: k.gate, Defaults: k.defaults, Orphan: k.orphan,
			Record: record.Record, Logger: log,
		})
		k.mu.Lock()
		k.opened = m
		k.mu.Unlock()
		return m, nil
	})
	return k
}

// orphan reports whether a sandbox waits in a pool of a program that has ended.
func (k *keeping) orphan(info *manager.Info) bool {
	owner, pooled := info.Labels[manager.LabelPool]
	if !pooled {
		return false
	}
	lives, err := pool.Lives(filepath.Join(k.dirs.state, "pools"), owner)
	return err == nil && !lives
}

// Bounds of sandboxes that are asked for without: as many processes as a big build has, and such parts
// of the disk and the memory that the machine goes on.
const (
	defaultProcs  = 4096
	diskPart      = 2 // of what is free
	memoryPartNum = 3
	memoryPartDen = 4 // of all there is; for root alone, whose limits the kernel holds
)

func (k *keeping) defaults() manager.Limits {
	l := manager.Limits{Procs: defaultProcs}
	if d, err := disk.Usage(k.dirs.state); err == nil {
		l.Disk = int64(d.Free / diskPart)
	}
	if v, err := mem.VirtualMemory(); err == nil && os.Geteuid() == 0 {
		l.Memory = int64(v.Total / memoryPartDen * memoryPartNum)
	}
	return l
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
	plan, err := netPlan(&req.Net)
	if err != nil {
		return nil, err
	}
	in := &gateInput{State: k.dirs.state, Settings: k.dirs.setting("config.yaml")}
	if req.Input != nil {
		// A fork's: with the secrets that its parent has, and what else is its own.
		if err := json.Unmarshal(req.Input, in); err != nil {
			return nil, fmt.Errorf("what the parent's gate was started with: %w", err)
		}
		in.Config.Allow, in.Config.Publish = plan.Allow, plan.Publish
	} else {
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

// ended says how a sandbox ended, as its keeper wrote it down.
func ended(driver *gvisor.Driver) func(string) (manager.Ending, bool) {
	return func(id string) (manager.Ending, bool) {
		e, ok := driver.Ended(id)
		return manager.Ending{Reason: e.Reason, Time: e.At, Text: e.Text}, ok
	}
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
	return ready(img), nil
}

// ready is an image as the manager knows it.
func ready(img *image.Image) *manager.Image {
	out := &manager.Image{Digest: img.ID, Root: img.RootDir, WorkDir: img.Config.WorkingDir, User: img.Config.User, Env: map[string]string{}}
	for _, line := range img.Config.Env {
		name, value, _ := strings.Cut(line, "=")
		out.Env[name] = value
	}
	return out
}

func (open images) Hold(ctx context.Context, digest, owner string) (*manager.Image, error) {
	store, err := open()
	if err != nil {
		return nil, err
	}
	if err := store.Hold(ctx, digest, owner); err != nil {
		return nil, err
	}
	img, err := store.Inspect(ctx, digest)
	if err != nil {
		return nil, err
	}
	return ready(img), nil
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
	_ manager.Images = images(nil)
	_ manager.Forker = (*gvisor.Driver)(nil)
)
