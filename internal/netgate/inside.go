package netgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	conn, err := in.ask(ctx, agent.MethodListen, agent.ListenParams{Address: in.address})
	if err != nil {
		return err
	}
	return conn.Close()
}

// accept waits for somebody inside to connect to the proxy.
func (in *inside) accept(ctx context.Context) (net.Conn, error) {
	return in.ask(ctx, agent.MethodAccept, agent.AcceptParams{Address: in.address})
}

// dial connects to a port inside, on IPv4's loopback or IPv6's.
func (in *inside) dial(ctx context.Context, port int) (net.Conn, error) {
	var first error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := in.ask(ctx, agent.MethodDial, agent.DialParams{Network: "tcp", Address: net.JoinHostPort(host, strconv.Itoa(port))})
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// ask makes the one request of a connection, which is a stream from then on.
func (in *inside) ask(ctx context.Context, method string, params any) (net.Conn, error) {
	conn, err := in.connect(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = exchange(conn, method, params)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

const maxLine = 4 << 10

func exchange(conn net.Conn, method string, params any) error {
	request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(request, '\n')); err != nil {
		return err
	}
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := conn.Read(one); err != nil {
			return err
		}
		if one[0] == '\n' {
			break
		}
		if line = append(line, one[0]); len(line) > maxLine {
			return errors.New("the guest agent's answer is too long")
		}
	}
	var answer struct {
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return fmt.Errorf("the guest agent's answer is no JSON: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("the guest agent says: %s", quote(answer.Error.Message))
	}
	return nil
}
