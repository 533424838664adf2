package manager

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"airlock/internal/sandbox"
)

// Create makes a sandbox, and returns when it answers. It can be called many times at once. When ctx ends before
// that, nothing of it stays but the row that says so.
func (m *Manager) Create(ctx context.Context, req *Request) (*Box, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if _, err := m.settle(ctx); err != nil {
		return nil, err
	}
	if req.Template != "" {
		return m.createFromTemplate(ctx, req)
	}
	if req.Image == "" && req.WorkDir == "" {
		return nil, problem("a sandbox over the host needs a working folder")
	}
	r := m.newRow(req)
	return m.make(ctx, "create", r, req, m.keep(r, req))
}

// keep makes a sandbox that goes on from nothing.
func (m *Manager) keep(r *row, req *Request) func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
	return func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
		if err := m.prepare(ctx, r, req); err != nil {
			return nil, err
		}
		if err := m.gate(ctx, b, nil, nil); err != nil {
			return nil, err
		}
		return m.inTurn(ctx, func() (sandbox.Lasting, error) { return m.opts.Driver.Keep(ctx, b.spec()) })
	}
}

// newRow is the row of a sandbox that is to be made as a request says.
func (m *Manager) newRow(req *Request) *row {
	limits := req.Limits
	if m.opts.Defaults != nil {
		limits = limits.orDefaults(m.opts.Defaults())
	}
	return &row{info: Info{
		ID: sandbox.NewID(), State: Creating, Labels: maps.Clone(req.Labels), WorkDir: req.WorkDir, Image: req.Image, Template: req.Template,
		Hide: req.Hide, Show: req.Show, ReadOnly: req.ReadOnly, Hostname: req.Hostname, Env: maps.Clone(req.Env),
		Created: time.Now().UTC(), Limits: limits, Times: req.Times, Net: req.Net,
	}}
}

// A birth is a sandbox that is being made.
type birth struct {
	m    *Manager
	info *Info
	gate *Gate // nil: none
}

// spec is what the driver is told.
func (b *birth) spec() *sandbox.LastingSpec {
	i := b.info
	s := &sandbox.LastingSpec{
		Spec: sandbox.Spec{
			ID: i.ID, WorkDir: i.WorkDir, Root: i.root, Hide: i.Hidden, ReadOnly: i.ReadOnly, Limits: i.Limits.engine(),
			Hostname: i.Hostname, HostNetwork: i.Net.Mode == NetHost,
		},
		Times: i.Times.engine(),
	}
	if i.OverHost() {
		s.Expired = b.m.expired(i.ID)
	}
	if b.gate != nil {
		s.Gate, s.GateInput = b.gate.Argv, b.gate.Input
	}
	return s
}

// make holds a new sandbox's lock while start makes it, with its row before and after.
func (m *Manager) make(ctx context.Context, verb string, r *row, about any,
	start func(ctx context.Context, b *birth) (sandbox.Lasting, error),
) (*Box, error) {
	release, err := m.lock(ctx, r.info.ID, verb)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := m.record(ctx, verb, r.info.ID, about); err != nil {
		return nil, err
	}
	if err := m.insert(ctx, r); err != nil {
		return nil, err
	}
	return m.bear(ctx, r, start)
}

// bear makes the sandbox of a row that says that it is being made, under its lock.
func (m *Manager) bear(ctx context.Context, r *row, start func(ctx context.Context, b *birth) (sandbox.Lasting, error)) (*Box, error) {
	b := &birth{m: m, info: &r.info}
	if err := os.MkdirAll(m.expiredDir(), 0o700); err != nil {
		return nil, m.stillborn(ctx, r, err)
	}
	l, err := start(ctx, b)
	if err != nil {
		return nil, m.stillborn(ctx, r, err)
	}
	if err = m.learn(ctx, b, l); err == nil {
		err = m.update(ctx, r)
	}
	if err != nil {
		return nil, m.stillborn(ctx, r, errors.Join(err, m.endNow(ctx, l)))
	}
	m.keepBallast()
	return &Box{l, r.info}, nil
}

// learn asks a new sandbox what there is to be known of it, which is then ready.
func (m *Manager) learn(ctx context.Context, b *birth, l sandbox.Lasting) (err error) {
	i := b.info
	if b.gate != nil && b.gate.Ports != nil {
		if i.Ports, err = m.ports(ctx, l, b.gate); err != nil {
			return err
		}
	}
	i.State, i.Started, i.Notes = Ready, l.Started(), append(i.Notes, l.Notes()...)
	return nil
}

// endNow ends a sandbox that is not to be, also when ctx has ended.
func (m *Manager) endNow(ctx context.Context, l sandbox.Lasting) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	return errors.Join(m.end(ctx, l), l.Release())
}

// inTurn makes a sandbox when it is its turn: many that are made at once take longer than one after
// the other.
func (m *Manager) inTurn(ctx context.Context, start func() (sandbox.Lasting, error)) (sandbox.Lasting, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l, err := start()
	if err != nil {
		return nil, err // and no pointer that is nil
	}
	return l, nil
}

// ports asks which ports the gate publishes.
func (m *Manager) ports(ctx context.Context, l sandbox.Lasting, g *Gate) ([]Port, error) {
	st, err := l.Status(ctx)
	if err != nil {
		return nil, err
	}
	return g.Ports(st.Gate)
}

// stillborn writes down that a sandbox could not be made, and gives the error that says why.
func (m *Manager) stillborn(ctx context.Context, r *row, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	return errors.Join(why, m.ended(ctx, r, Ending{Reason: Failed, Text: why.Error()}))
}

// prepare finds what a new sandbox is laid over.
func (m *Manager) prepare(ctx context.Context, r *row, req *Request) error {
	i := &r.info
	if req.Image == "" {
		i.Hidden = req.Hide
		if m.opts.View == nil {
			return nil
		}
		work, hidden, err := m.opts.View(req.WorkDir, req.Hide, req.Show)
		i.WorkDir, i.Hidden = work, hidden
		return err
	}
	if m.opts.Images == nil {
		return problem("there are no images here; leave out --image")
	}
	img, err := m.opts.Images.Use(ctx, req.Image, req.Pull, owner(i.ID), req.Progress)
	if err != nil {
		return err // which names the image
	}
	i.lay(img)
	return nil
}

// lay takes what an image says, where the request says nothing.
func (i *Info) lay(img *Image) {
	i.Digest, i.root, i.User = img.Digest, img.Root, img.User
	if i.WorkDir == "" {
		i.WorkDir = img.WorkDir
	}
	if i.WorkDir == "" {
		i.WorkDir = "/"
	}
	env := maps.Clone(img.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, i.Env)
	i.Env = env
}

// gate asks for what runs beside a sandbox. env and input are GateRequest's.
func (m *Manager) gate(ctx context.Context, b *birth, env map[string]string, input []byte) error {
	i := b.info
	if !i.Net.gated() {
		return nil
	}
	if m.opts.Gate == nil {
		return problem("there is no gate to the network here; leave out --net allow=, --publish and --secret")
	}
	g, err := m.opts.Gate(ctx, &GateRequest{ID: i.ID, Net: i.Net, Env: env, Input: input})
	if err != nil {
		return err
	}
	b.gate = g
	if i.Env == nil {
		i.Env = map[string]string{}
	}
	maps.Copy(i.Env, g.Env)
	return nil
}
