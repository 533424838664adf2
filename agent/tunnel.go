package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"airlock/internal/rpc"
)

const maxStreamAnswer = 64 << 10 // bytes of the line before a stream

// Dial makes a connection to a port inside of conn, a fresh connection to a guest agent that nothing was said on, and owns
// conn from now on: it is closed with the result, and also when Dial fails. ctx bounds the wait
// for the answer alone. A guest without CapTunnels is ErrUnsupported.
//
// The result has CloseWrite() error, which says that no more comes; where conn cannot say so, it is errors.ErrUnsupported.
func Dial(ctx context.Context, conn net.Conn, params DialParams) (net.Conn, error) {
	return stream(ctx, conn, MethodDial, params, nil)
}

// Accept waits until somebody inside connects to address, which Client.Listen returned, and makes the connection to it of
// conn, as Dial does. peer is the other end's address inside. To stop waiting, end ctx.
func Accept(ctx context.Context, conn net.Conn, address string) (_ net.Conn, peer string, err error) {
	var res AcceptResult
	tunnel, err := stream(ctx, conn, MethodAccept, AcceptParams{Address: address}, &res)
	return tunnel, res.Peer, err
}

// Listen opens a port on the guest's loopback for Accept, "127.0.0.1:3128", or says that it is open; port 0 takes any. It returns
// the address. The port stays open while the agent lives.
func (c *Client) Listen(ctx context.Context, address string) (string, error) {
	if _, err := c.need(ctx, MethodListen, CapTunnels); err != nil {
		return "", err
	}
	var res ListenResult
	if err := c.Call(ctx, MethodListen, ListenParams{Address: address}, &res); err != nil {
		return "", err
	}
	if res.Address == "" {
		return "", malformed(MethodListen, "no address")
	}
	return res.Address, nil
}

// stream makes the last request of a fresh connection. Afterwards the connection is the stream.
func stream(ctx context.Context, conn net.Conn, method string, params, result any) (net.Conn, error) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		conn.Close()
	})
	opened, err := ask(conn, method, params, result)
	if !stop() {
		<-cut
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, callError(ctx, method, err)
	}
	return opened, nil
}

// ask makes a request and reads the line that answers it.
func ask(conn net.Conn, method string, params, result any) (net.Conn, error) {
	line, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", 1, method, params})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	in := bufio.NewReaderSize(conn, 4<<10)
	line, err = readLine(in, maxStreamAnswer)
	if err != nil {
		return nil, err
	}
	var answer struct {
		ID     *int            `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *rpc.Error      `json:"error"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	switch {
	case answer.Error != nil && answer.Error.Code == rpc.CodeMethodNotFound:
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, printable([]byte(answer.Error.Message)))
	case answer.Error != nil:
		return nil, answer.Error
	case answer.ID == nil || *answer.ID != 1:
		return nil, fmt.Errorf("%w: an answer to something else", ErrJSON)
	case answer.Result == nil:
		return nil, ErrMissingResult
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrJSON, err)
		}
	}
	if in.Buffered() == 0 {
		if _, ok := conn.(interface{ CloseWrite() error }); ok {
			return conn, nil
		}
	}
	return &streamConn{conn, in}, nil
}

// readLine reads a line of a bounded length, without its end.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, fmt.Errorf("%w: a line above %d bytes", ErrJSON, most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("%w: %w", ErrConnectionLost, err)
		}
	}
}

// A streamConn is a connection of which more was read than the answer.
type streamConn struct {
	net.Conn
	ahead *bufio.Reader
}

func (c *streamConn) Read(p []byte) (int, error) {
	if c.ahead != nil && c.ahead.Buffered() > 0 {
		return c.ahead.Read(p[:min(len(p), c.ahead.Buffered())])
	}
	c.ahead = nil
	return c.Conn.Read(p)
}

func (c *streamConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
