package netgate

import (
	"context"
	"net"
	"strconv"

	"airlock/agent"
)

// inside is what is asked of the guest agent, each on a connection of its own.
type inside struct {
	connect func(ctx context.Context) (net.Conn, error)
	address string // of the proxy
}

// listen opens the proxy's port inside. It is the same port when it is open already.
func (in *inside) listen(ctx context.Context) error {
	conn, err := in.connect(ctx)
	if err != nil {
		return err
	}
	client := agent.NewClient(conn, nil)
	_, err = client.Listen(ctx, in.address)
	_ = client.Close()
	return err
}

// accept waits for somebody inside to connect to the proxy.
func (in *inside) accept(ctx context.Context) (net.Conn, error) {
	conn, err := in.connect(ctx)
	if err != nil {
		return nil, err
	}
	tunnel, _, err := agent.Accept(ctx, conn, in.address)
	return tunnel, err
}

// dial connects to a port inside, on IPv4's loopback or IPv6's.
func (in *inside) dial(ctx context.Context, port int) (net.Conn, error) {
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := in.connect(ctx)
		if err != nil {
			return nil, err
		}
		tunnel, err := agent.Dial(ctx, conn, agent.DialParams{Network: "tcp", Address: net.JoinHostPort(host, strconv.Itoa(port))})
		if err == nil {
			return tunnel, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
