package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"airlock/agent"
	"airlock/internal/sandbox"
)

// LabelTemplate marks the sandbox in which a template is built. Its value is the template's name.
const LabelTemplate = "airlock.template"

const (
	maxRun     = 256
	maxRunText = 64 << 10
	maxTail    = 4 << 10 // bytes of a failed command's output in its error
)

// A TemplateRequest says what template to make.
type TemplateRequest struct {
	Name    string   `json:"name"`
	Request Request  `json:"request"` // of its sandboxes
	Run     []string `json:"run"`     // shell lines, one after the other; one that fails ends the build

	Output io.Writer `json:"-"` // takes what they write; nil discards
}

// CreateTemplate makes a template: a sandbox in which commands have run, saved. Where no state can be saved, it is kept
// without, and says so: the commands run in each sandbox anew.
func (m *Manager) CreateTemplate(ctx context.Context, req *TemplateRequest) (*Template, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	if _, err := m.settle(ctx); err != nil {
		return nil, err
	}
	release, err := m.lock(ctx, templateKey(req.Name), "create")
	if err != nil {
		return nil, err
	}
	defer release()
	if _, err := os.Lstat(m.templatePath(req.Name)); err == nil {
		return nil, problem("there is a template %s already; build it again (airlock template build %s), or remove it (airlock template rm %s)", req.Name, req.Name, req.Name)
	}
	return m.build(ctx, req)
}

// BuildTemplate makes a template again from what it was made of. Until that is done the old one is there.
func (m *Manager) BuildTemplate(ctx context.Context, name string, output io.Writer) (*Template, error) {
	if checkName("template", name) != nil {
		return nil, &NotFound{"template", name}
	}
	if _, err := m.settle(ctx); err != nil {
		return nil, err
	}
	release, err := m.lock(ctx, templateKey(name), "build")
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := m.InspectTemplate(ctx, name)
	if err != nil {
		return nil, err
	}
	return m.build(ctx, &TemplateRequest{Name: name, Request: t.Request, Run: t.Run, Output: output})
}

func (req *TemplateRequest) check() error {
	if err := checkName("template", req.Name); err != nil {
		return err
	}
	if req.Request.Template != "" {
		return problem("a template is not made from another one; name its image, or none")
	}
	if len(req.Run) > maxRun {
		return problem("%d commands are more than %d; put them into a script", len(req.Run), maxRun)
	}
	for _, line := range req.Run {
		if strings.TrimSpace(line) == "" || len(line) > maxRunText || strings.ContainsRune(line, 0) {
			return problem("a command of a template is a shell line of at most %d bytes, unlike %.40q", maxRunText, line)
		}
	}
	if req.Request.Image == "" && req.Request.WorkDir == "" {
		return problem("a template over the host needs a working folder")
	}
	return req.Request.check()
}

// build makes a template's folder, under its lock, in the place of one that is there.
func (m *Manager) build(ctx context.Context, req *TemplateRequest) (*Template, error) {
	t := &Template{Name: req.Name, Request: req.Request, Run: slices.Clone(req.Run)}
	r := m.newRow(&req.Request)
	r.info.Labels, r.info.Times = map[string]string{LabelTemplate: req.Name}, Times{}
	if err := m.record(ctx, "template", req.Name, req); err != nil {
		return nil, err
	}
	release, err := m.lock(ctx, r.info.ID, "build")
	if err != nil {
		return nil, err
	}
	defer release()
	if err := m.insert(ctx, r); err != nil {
		return nil, err
	}
	part, err := m.buildIn(ctx, r, t, req)
	if err != nil {
		return nil, m.stillborn(ctx, r, err)
	}
	if err := m.ended(ctx, r, Ending{Reason: Removed}); err != nil {
		return nil, m.unfill(ctx, part, templateKey(t.Name), err)
	}
	if err := exchange(part, m.templatePath(t.Name)); err != nil {
		return nil, fmt.Errorf("template %s: %w", t.Name, err)
	}
	return t, os.RemoveAll(part)
}

// buildIn makes the sandbox, which the row says is being made until it has ended, and fills the folder.
func (m *Manager) buildIn(ctx context.Context, r *row, t *Template, req *TemplateRequest) (part string, err error) {
	b := &birth{m: m, info: &r.info}
	l, err := m.keep(r, &req.Request)(ctx, b)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.endNow(ctx, l)) }()
	box := &Box{l, r.info}
	if err := runAll(ctx, box, req.Run, req.Output); err != nil {
		return "", err
	}
	need, err := m.need(ctx, box)
	if err == nil {
		err = m.makeRoom(ctx, 0, need)
	}
	if err != nil {
		return "", err
	}
	key := templateKey(t.Name)
	part = filepath.Join(m.templateDir(), tempMark+key)
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	t.Created, t.Saved, t.Sandbox = time.Now().UTC(), true, &box.Info
	meta := func() (any, error) {
		t.Size, err = sizeOf(part)
		return t, err
	}
	_, err = m.fill(ctx, box, part, meta, key)
	if !errors.Is(err, sandbox.ErrNotSaved) {
		return part, err
	}
	t.Saved, t.Sandbox, t.Note = false, nil, err.Error()
	if err := os.MkdirAll(part, 0o700); err != nil {
		return "", err
	}
	return part, writeMeta(filepath.Join(part, metaFile), t)
}

// runAll runs a template's commands.
func runAll(ctx context.Context, box *Box, lines []string, output io.Writer) error {
	if len(lines) == 0 {
		return nil
	}
	client, err := box.Client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for i, line := range lines {
		tail := &tail{to: output}
		res, err := client.Run(ctx, agent.ExecParams{Cmd: line, ExecOptions: agent.ExecOptions{
			Cwd: box.Info.WorkDir, Env: box.Info.Env, User: box.User(), TimeoutMS: box.Info.Limits.Timeout.Milliseconds(),
		}}, &agent.Streams{Stdout: tail, Stderr: tail})
		switch {
		case err != nil:
			return fmt.Errorf("command %d of the template: %w", i+1, err)
		case res.TimedOut:
			return problem("command %d of the template took longer than %s: %s", i+1, box.Info.Limits.Timeout, line)
		case !res.Success():
			return problem("command %d of the template ended with %d: %s\n%s", i+1, res.ExitCode, line, tail.end)
		}
	}
	return nil
}

// A tail hands on what is written, and keeps the end of it.
type tail struct {
	to  io.Writer
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p[max(0, len(p)-maxTail):]...)
	t.end = t.end[max(0, len(t.end)-maxTail):]
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

func (m *Manager) templatePath(name string) string { return filepath.Join(m.templateDir(), name) }

// Templates lists them by name.
func (m *Manager) Templates(ctx context.Context) ([]Template, error) {
	entries, err := readDir(m.templateDir())
	if err != nil {
		return nil, err
	}
	var out []Template
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		t, err := m.InspectTemplate(ctx, e.Name())
		if err != nil {
			if _, gone := errors.AsType[*NotFound](err); !gone {
				m.log.WarnContext(ctx, "a template is damaged", "name", e.Name(), "err", err)
			}
			continue
		}
		out = append(out, *t)
	}
	return out, nil
}

// InspectTemplate gives one. *NotFound: there is none of that name.
func (m *Manager) InspectTemplate(_ context.Context, name string) (*Template, error) {
	if checkName("template", name) != nil {
		return nil, &NotFound{"template", name}
	}
	var t Template
	err := readMeta(filepath.Join(m.templatePath(name), metaFile), &t)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFound{"template", name}
	}
	if err == nil && t.Saved && t.Sandbox == nil {
		err = fmt.Errorf("template %s is damaged: it does not say what was saved; remove it: airlock template rm %s", name, name)
	}
	if err != nil {
		return nil, err
	}
	t.Name = name
	return &t, nil
}

// RemoveTemplate removes one. Sandboxes that were made from it go on.
func (m *Manager) RemoveTemplate(ctx context.Context, name string) error {
	if checkName("template", name) != nil {
		return &NotFound{"template", name}
	}
	release, err := m.lock(ctx, templateKey(name), "rm")
	if err != nil {
		return err
	}
	defer release()
	if err := m.record(ctx, "template_remove", name, nil); err != nil {
		return err
	}
	return m.drop(ctx, m.templateDir(), "template", name, templateKey(name))
}

// createFromTemplate is Create with a template.
func (m *Manager) createFromTemplate(ctx context.Context, req *Request) (*Box, error) {
	if err := req.checkRestore("a template"); err != nil {
		return nil, err
	}
	if checkName("template", req.Template) != nil {
		return nil, &NotFound{"template", req.Template}
	}
	release, err := m.lockShared(ctx, templateKey(req.Template), "create")
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := m.InspectTemplate(ctx, req.Template)
	if err != nil {
		return nil, err
	}
	r := m.templateRow(t, req)
	return m.make(ctx, "create", r, req, m.fromTemplate(r, t))
}

// templateRow is the row of a sandbox from a template.
func (m *Manager) templateRow(t *Template, req *Request) *row {
	req = t.merged(req)
	r := m.newRow(req)
	if t.Saved {
		r = restoredRow(t.Sandbox, req)
	}
	r.info.Template = t.Name
	return r
}

// merged is a request with what the template says where it says nothing.
func (t *Template) merged(req *Request) *Request {
	out := t.Request
	out.Labels, out.Progress = maps.Clone(out.Labels), req.Progress
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	maps.Copy(out.Labels, req.Labels)
	out.Env = maps.Clone(out.Env)
	if out.Env == nil {
		out.Env = map[string]string{}
	}
	maps.Copy(out.Env, req.Env)
	if req.WorkDir != "" {
		out.WorkDir = req.WorkDir
	}
	if req.Times.TTL != 0 {
		out.Times.TTL, out.Times.TTLThen = req.Times.TTL, req.Times.TTLThen
	}
	if req.Times.Idle != 0 {
		out.Times.Idle, out.Times.IdleThen = req.Times.Idle, req.Times.IdleThen
	}
	out.Limits.override(&req.Limits)
	return &out
}

// fromTemplate makes the sandbox of a row from a template that stays meanwhile.
func (m *Manager) fromTemplate(r *row, t *Template) func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
	if t.Saved {
		return m.restoring(r, t.Sandbox, m.templatePath(t.Name))
	}
	return func(ctx context.Context, b *birth) (sandbox.Lasting, error) {
		req := t.Request
		req.WorkDir = r.info.WorkDir
		l, err := m.keep(r, &req)(ctx, b)
		if err != nil {
			return nil, err
		}
		if err := runAll(ctx, &Box{l, r.info}, t.Run, nil); err != nil {
			return nil, errors.Join(err, m.endNow(ctx, l))
		}
		return l, nil
	}
}

// templateBeginning is beginning for a sandbox from a template.
func (m *Manager) templateBeginning(ctx context.Context, r *row) (start func(context.Context, *birth) (sandbox.Lasting, error), done func(), err error) {
	release, err := m.lockShared(ctx, templateKey(r.info.Template), "discard")
	if err != nil {
		return nil, nil, err
	}
	t, err := m.InspectTemplate(ctx, r.info.Template)
	if err == nil && t.Saved {
		err = m.checkUnseen(&r.info) // while there still is the sandbox
	}
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("begin anew: %w", err)
	}
	return m.fromTemplate(r, t), release, nil
}
