package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"airlock/internal/sandbox/manager"
)

func (p *Program) sandboxCreateCmd() *cobra.Command {
	f := &sandboxFlags{}
	cmd := &cobra.Command{
		Use:   "create [flags]",
		Short: "Make a sandbox that stays, and print its ID",
		Long: `Make a sandbox that stays until it is removed, and print its ID. It is laid over this
machine's files, or over those of --image, and has no network unless --net gives it some.`,
		Example: `  airlock sandbox create
  airlock sandbox create --image alpine:3.20 --memory 512M --ttl 1h
  airlock sandbox create --net allow=pypi.org,files.pythonhosted.org:443
  airlock sandbox create --template python --label job=17`,
		Args:              takes(0, 0, "airlock sandbox create takes flags alone; airlock sandbox exec ID -- CMD runs a command in what it made"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	fl := cmd.Flags()
	f.addMaking(fl)
	f.addUse(fl)
	fl.StringVar(&f.template, "template", "", "start from a template")
	p.completeFlags(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		info, err := p.create(ctx, cmd, f, *asJSON)
		return p.made(ctx, signals, *asJSON, info, err)
	}
	return cmd
}

func (p *Program) create(ctx context.Context, cmd *cobra.Command, f *sandboxFlags, quiet bool) (*manager.Info, error) {
	req, err := f.request(cmd.Flags(), p.Environ)
	if err != nil {
		return nil, err
	}
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	progress := p.pulls(quiet)
	req.Progress = progress.take
	box, err := m.Create(ctx, req)
	progress.end()
	if err != nil {
		return nil, err
	}
	info := box.Info
	return &info, box.Release()
}

// made says which sandbox was made, or why none was.
func (p *Program) made(ctx context.Context, signals *endSignals, asJSON bool, info *manager.Info, err error) error {
	if err != nil {
		return p.interrupted(ctx, signals, asJSON, err)
	}
	for _, note := range info.Notes {
		p.say("%s", printable(note))
	}
	if asJSON {
		if m, err := p.Sandboxes(); err == nil {
			if now, err := m.Inspect(ctx, info.ID); err == nil {
				info = now // with how it is
			}
		}
		return p.orRemoved(ctx, info.ID, p.printJSON(info))
	}
	if err := p.writeLine(info.ID); err != nil {
		return p.orRemoved(ctx, info.ID, err)
	}
	p.tellPorts(info)
	return nil
}

// orRemoved removes a new sandbox that nobody could be told of.
func (p *Program) orRemoved(ctx context.Context, id string, unwritten error) error {
	if unwritten == nil {
		return nil
	}
	m, err := p.Sandboxes()
	if err == nil {
		err = m.Remove(context.WithoutCancel(ctx), id)
	}
	if err != nil {
		p.complain(fmt.Errorf("sandbox %s stays: %w", id, err))
	}
	return unwritten
}

// tellPorts says where published ports are that the host chose.
func (p *Program) tellPorts(info *manager.Info) {
	for _, port := range info.Ports {
		p.say("127.0.0.1:%d leads to port %d of the sandbox", port.Host, port.Guest)
	}
}

// interrupted is ends for what a signal may have ended: the code is then the signal's.
func (p *Program) interrupted(ctx context.Context, signals *endSignals, asJSON bool, err error) error {
	code := signals.code()
	if told, ok := errors.AsType[*codeError](err); ok && told.err == nil && code != 0 {
		return fail(code, nil)
	}
	if code == 0 || !errors.Is(err, context.Canceled) {
		return p.ends(ctx, asJSON, err)
	}
	if asJSON {
		if err := p.printJSON(&failure{Error: "interrupted"}); err != nil {
			return err
		}
	}
	return fail(code, nil)
}
