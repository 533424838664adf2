package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"airlock/internal/netgate"
	"airlock/internal/sandbox/manager"
)

func (p *Program) sandboxForwardCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forward ID PORT[:HOSTPORT]…",
		Short: "Lead ports of this machine's loopback to a sandbox's until Ctrl-C",
		Long: `Lead ports of this machine's loopback to ports of the sandbox's until Ctrl-C. HOSTPORT is
PORT where it is not given; 0 takes one that is free. airlock sandbox create --publish does
it for the sandbox's whole life.`,
		Example: `  airlock sandbox exec -d ID -- python3 -m http.server 8000
  airlock sandbox forward ID 8000:9000`,
		Args:              takes(2, anyNumber, "say which ports of which sandbox: airlock sandbox forward ID PORT[:HOSTPORT]…"),
		ValidArgsFunction: p.completeSandbox,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, signals := endOnSignal(cmd.Context())
		defer signals.stop()
		if err := p.forward(ctx, args[0], args[1:], *asJSON); err != nil {
			return p.interrupted(ctx, signals, *asJSON, err)
		}
		return nil
	}
	return cmd
}

// forwardObject is what --json prints when the ports lead there, which is before the command ends.
type forwardObject struct {
	ID    string         `json:"id"`
	Ports []manager.Port `json:"ports"`
}

// forward leads ports to a sandbox until ctx ends, which is how it is meant to end.
func (p *Program) forward(ctx context.Context, id string, words []string, asJSON bool) error {
	var ports []netgate.Publish
	for _, w := range words {
		port, err := netgate.ParsePublish(w)
		if err != nil {
			return usage("%w", err)
		}
		ports = append(ports, port)
	}
	box, err := p.openBox(ctx, id)
	if err != nil {
		return err
	}
	defer func() { _ = box.Release() }() // it goes on whatever that says
	ending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(nil) })
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-box.Done():
			cancel(errSandboxEnded)
		case <-ending.Done():
		}
	}()
	var unsaid error
	err = netgate.Forward(ending, &netgate.ForwardOptions{
		Connect: box.Connect,
		Publish: ports,
		Ready: func(published []netgate.Publish) {
			if unsaid = p.tellForwarded(box.Info.ID, published, asJSON); unsaid != nil {
				cancel(nil)
			}
		},
		Failed: func(to netgate.Publish, err error) {
			p.say("a connection to port %d of the sandbox went nowhere: %s", to.Port, printable(err.Error()))
		},
	})
	ended := errors.Is(context.Cause(ending), errSandboxEnded)
	cancel(nil)
	<-watched
	switch {
	case unsaid != nil:
		return unsaid
	case ended:
		return p.gone(ctx, box)
	case err != nil:
		return err
	}
	return ctx.Err()
}

var errSandboxEnded = errors.New("the sandbox has ended")

// tellForwarded says which ports lead there.
func (p *Program) tellForwarded(id string, published []netgate.Publish, asJSON bool) error {
	o := &forwardObject{ID: id}
	for _, port := range published {
		o.Ports = append(o.Ports, manager.Port{Guest: port.Port, Host: port.HostPort})
		if asJSON {
			continue
		}
		if err := p.writeLine(fmt.Sprintf("127.0.0.1:%d leads to port %d of %s", port.HostPort, port.Port, id)); err != nil {
			return err
		}
	}
	if asJSON {
		return p.printJSON(o)
	}
	return nil
}
