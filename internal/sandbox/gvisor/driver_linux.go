package gvisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

// Options are the settings of a Driver. StateDir is required.
type Options struct {
	// StateDir holds what running sandboxes need; the sandbox never sees it.
	StateDir string
	// Engine names the program that runs as the engine (see Engine): a static build of
	// airlock. Empty: this program.
	Engine func(ctx context.Context) (string, error)
	// Agent is the guest agent's executable. Empty: the engine itself.
	Agent string
	// Env is the environment of the agent inside; empty by default.
	Env []string
	// EngineLog is an existing folder for the engine's own debug logs. Empty: none.
	EngineLog string
	// UpperMemory bounds the memory of the host that reading out a sandbox's changes may
	// take, and so the largest file in them; 0 is 8 GiB. It is never more than half of
	// what the machine has to spare.
	UpperMemory int64
	// Logger; nil discards.
	Logger *slog.Logger
}

// Driver makes gVisor sandboxes. It is safe for concurrent use.
type Driver struct {
	opts Options
	log  *slog.Logger
}

// New makes a Driver.
func New(opts *Options) *Driver {
	d := &Driver{opts: *opts, log: opts.Logger}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// Name is "gvisor".
func (d *Driver) Name() string { return "gvisor" }

// Ahead starts what the next sandbox needs whatever it will be, so that it starts some milliseconds
// sooner: for programs that know before they know what. Close ends it if nothing used it.
func (d *Driver) Ahead(ctx context.Context) {
	engine, err := d.engine(ctx)
	if err == nil { // else the start says so
		launch.Ahead(engine)
	}
}

// Close ends what was started ahead. Sandboxes are closed by themselves.
func (d *Driver) Close() { launch.End() }

func (d *Driver) runDir() string { return filepath.Join(d.opts.StateDir, "run") }

// Start makes a sandbox.
func (d *Driver) Start(ctx context.Context, spec *sandbox.Spec) (sandbox.Sandbox, error) {
	sb, engine, err := d.newBox(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := sb.start(ctx, engine); err != nil {
		return nil, errors.Join(err, sb.abandon())
	}
	return sb, nil
}

// newBox prepares the start of a sandbox with the engine that is named beside it.
func (d *Driver) newBox(ctx context.Context, spec *sandbox.Spec) (*box, string, error) {
	if !filepath.IsAbs(spec.WorkDir) {
		return nil, "", fmt.Errorf("start sandbox: the working folder %q is not absolute", spec.WorkDir)
	}
	if spec.Root != "" && !filepath.IsAbs(spec.Root) {
		return nil, "", fmt.Errorf("start sandbox: the root folder %q is not absolute", spec.Root)
	}
	engine, err := d.engine(ctx)
	if err != nil {
		return nil, "", err
	}
	sb := &box{driver: d, spec: *spec, done: make(chan struct{}), replies: make(chan reply, 1), heard: make(chan struct{})}
	if sb.spec.ID == "" {
		sb.spec.ID = sandbox.NewID()
	}
	if !sandbox.ValidID(sb.spec.ID) {
		return nil, "", fmt.Errorf("start sandbox: %q is not a sandbox's ID", sb.spec.ID)
	}
	if _, err := d.Sweep(ctx); err != nil {
		d.log.WarnContext(ctx, "sweep failed", "error", err)
	}
	return sb, engine, nil
}

func (d *Driver) engine(ctx context.Context) (string, error) {
	if d.opts.Engine != nil {
		return d.opts.Engine(ctx)
	}
	return "/proc/self/exe", nil
}
