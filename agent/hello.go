package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"airlock/internal/rpc"
)

const (
	protocolOriginal = "1.0"
	minMaxFrame      = 4 << 10 // a guest that takes less than this is of no use
)

// Has reports whether the guest announced a capability.
func (r *HelloResult) Has(capability string) bool { return slices.Contains(r.Capabilities, capability) }

// Hello asks the guest what it is and can do, once for a connection: later calls return
// the same result. The calls that need a capability say hello themselves. A guest that
// does not know hello speaks protocol 1.0 and has no capabilities.
func (c *Client) Hello(ctx context.Context) (HelloResult, error) {
	if known := c.known(); known != nil {
		return known.clone(), nil
	}
	select {
	case c.helloTurn <- struct{}{}:
		defer func() { <-c.helloTurn }()
	case <-ctx.Done():
		return HelloResult{}, callError(ctx, MethodHello, ctx.Err())
	}
	if known := c.known(); known != nil {
		return known.clone(), nil
	}
	res, err := c.sayHello(ctx)
	if err != nil {
		return HelloResult{}, err
	}
	if res.Has(CapRaw) {
		c.rpc.AllowRaw()
	}
	if res.MaxFrame > 0 {
		c.rpc.LimitFrames(res.MaxFrame)
	}
	c.mu.Lock()
	c.hello = &res
	c.mu.Unlock()
	return res.clone(), nil
}

func (c *Client) known() *HelloResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello
}

func (r *HelloResult) clone() HelloResult {
	out := *r
	out.Capabilities = slices.Clone(r.Capabilities)
	return out
}

// sayHello makes the call and holds the guest's answer against the protocol.
func (c *Client) sayHello(ctx context.Context) (HelloResult, error) {
	params := HelloParams{Protocol: ProtocolVersion, Client: c.opts.Name, Raw: !c.opts.NoRaw}
	var res HelloResult
	answer, err := c.do(ctx, rpc.Call{Method: MethodHello, Params: params, Timeout: c.callTimeout(ctx)})
	var failed *RPCError
	if errors.As(err, &failed) && failed.Code == rpc.CodeMethodNotFound {
		return HelloResult{Protocol: protocolOriginal}, nil
	}
	if err != nil {
		return res, err
	}
	if err := decode(MethodHello, answer.Result, &res); err != nil {
		return res, err
	}
	switch {
	case res.Protocol == "":
		return res, malformed(MethodHello, "no protocol")
	case res.MaxFrame != 0 && res.MaxFrame < minMaxFrame:
		return res, malformed(MethodHello, fmt.Sprintf("max_frame is %d", res.MaxFrame))
	}
	if c.opts.NoRaw {
		res.Capabilities = slices.DeleteFunc(res.Capabilities, func(s string) bool { return s == CapRaw })
	}
	return res, nil
}

// need fails with ErrUnsupported unless the guest has every one of the capabilities.
func (c *Client) need(ctx context.Context, method string, capabilities ...string) (*HelloResult, error) {
	known := c.known()
	if known == nil {
		if _, err := c.Hello(ctx); err != nil {
			return nil, err
		}
		known = c.known()
	}
	for _, want := range capabilities {
		if !known.Has(want) {
			return nil, fmt.Errorf("%s: %w: no %q in protocol %.16q", method, ErrUnsupported, want, known.Protocol)
		}
	}
	return known, nil
}
