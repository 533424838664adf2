package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	maxTunnels   = 512              // dials and accepts under way, of all connections
	maxArchives  = 32               // packs and unpacks: each takes half a megabyte
	maxListeners = 64               // of tunnels
	tunnelDial   = 10 * time.Second // for a port inside to answer

	leaveInterval = 250 * time.Millisecond // between two looks whether a client that sends no more has gone
)

// tunnels are what connections lead to inside.
type tunnels struct {
	slots    chan struct{} // one for each
	archives chan struct{} // one for each pack and unpack

	mu        sync.Mutex
	closed    bool
	listeners map[string]*tunnelListener // by the address that it got
}

// A tunnelListener hands each connection to whoever accepts next.
type tunnelListener struct {
	net.Listener
	next chan net.Conn
	stop chan struct{} // closed when nobody wants any more
	done chan struct{} // closed when it has ended
}

func newTunnels() *tunnels {
	return &tunnels{
		slots:     make(chan struct{}, maxTunnels),
		archives:  make(chan struct{}, maxArchives),
		listeners: map[string]*tunnelListener{},
	}
}

// take counts a tunnel. give counts it out.
func (t *tunnels) take() error {
	select {
	case t.slots <- struct{}{}:
		return nil
	default:
		return rpc.Errorf(rpc.CodeBusy, "%d tunnels are open already, and that is the limit", cap(t.slots))
	}
}

func (t *tunnels) give() { <-t.slots }

// close ends the listeners.
func (t *tunnels) close() {
	t.mu.Lock()
	t.closed = true
	all := t.listeners
	t.listeners = map[string]*tunnelListener{}
	t.mu.Unlock()
	for _, l := range all {
		close(l.stop)
		l.Listener.Close()
	}
	for _, l := range all {
		<-l.done
	}
}

// last names the methods that may make a stream of their connection.
func last(method string) bool {
	switch method {
	case agent.MethodDial, agent.MethodAccept, agent.MethodPack, agent.MethodUnpack:
		return true
	}
	return false
}

// loopback reads an address on the loopback.
func loopback(name, address string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return at, invalid("%s: %q is no address on the loopback, as 127.0.0.1:8080 is", name, clip(address))
	}
	return at, nil
}

func (s *session) dial(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		Network *string `json:"network"`
		Address *string `json:"address"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Network == nil:
		return nil, missing("network")
	case p.Address == nil:
		return nil, missing("address")
	}
	switch *p.Network {
	case "tcp":
		if _, err := loopback("address", *p.Address); err != nil {
			return nil, err
		}
	case "unix":
		if !strings.HasPrefix(*p.Address, "/") || len(*p.Address) > maxUnixPath || strings.IndexByte(*p.Address, 0) >= 0 {
			return nil, invalid("address: %q is no absolute path of a socket", clip(*p.Address))
		}
	default:
		return nil, invalid(`network: %q is neither "tcp" nor "unix"`, clip(*p.Network))
	}
	if err := s.a.tunnels.take(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, tunnelDial)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, *p.Network, *p.Address)
	if err != nil {
		s.a.tunnels.give()
		return nil, fmt.Errorf("dial %s: %w", clip(*p.Address), dialCause(err))
	}
	return s.tunnel(conn, agent.Empty{}, func() { conn.Close() }), nil
}

// dialCause is why nobody answered, without the words of package net.
func dialCause(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer")
	}
	if wrong, ok := errors.AsType[*net.OpError](err); ok {
		err = wrong.Err
	}
	return netCause(err)
}

// tunnel joins conn to the client's connection, or calls unwanted where that has gone. It gives
// the taken slot back.
func (s *session) tunnel(conn net.Conn, result any, unwanted func()) *rpc.Stream {
	return &rpc.Stream{Result: result, Serve: func(ctx context.Context, client *rpc.Conn) {
		defer s.a.tunnels.give()
		if ctx.Err() != nil {
			unwanted()
			return
		}
		s.a.join(ctx, client, conn)
	}}
}

// A halfCloser can say that no more comes from it.
type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// join copies both ways until both have ended, one has failed or ctx ends. It closes both.
func (a *Agent) join(ctx context.Context, client *rpc.Conn, conn net.Conn) {
	inside, ok := conn.(halfCloser)
	if !ok {
		conn.Close()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var copying, leaving sync.WaitGroup
	for _, way := range [2][2]halfCloser{{client, inside}, {inside, client}} {
		copying.Go(func() {
			if a.pour(way[1], way[0]) != nil || way[1].CloseWrite() != nil {
				cancel() // an end that cannot be passed on is the end of both
			}
			if way[0] == halfCloser(client) {
				leaving.Go(func() { leave(ctx, client, cancel) })
			}
		})
	}
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		inside.Close()
	})
	copying.Wait()
	if stop() {
		client.Close()
		inside.Close()
	}
	cancel()
	leaving.Wait()
}

// leave calls cancel when a client that sends no more takes no more either: what is inside may never find
// out by itself.
func leave(ctx context.Context, client *rpc.Conn, cancel func()) {
	gone := goneCheck(client.ReadWriteCloser)
	if gone == nil {
		gone = func() bool {
			_, err := client.Write(nil) // sends nothing, but fails where nobody reads
			return err != nil
		}
	}
	tick := time.NewTicker(leaveInterval)
	defer tick.Stop()
	for !gone() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	cancel()
}

// pour copies all of src to dst with memory of the agent's.
func (a *Agent) pour(dst io.Writer, src io.Reader) error {
	buf := a.chunks.Get().(*[chunkSize]byte)
	defer a.chunks.Put(buf)
	for {
		n, err := src.Read(buf[:])
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// listen opens a port on the loopback, unless it is open already.
func (s *session) listen(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		Address *string `json:"address"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if p.Address == nil {
		return nil, missing("address")
	}
	at, err := loopback("address", *p.Address)
	if err != nil {
		return nil, err
	}
	address, err := s.a.tunnels.listen(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	return agent.ListenResult{Address: address}, nil
}

func (t *tunnels) listen(ctx context.Context, at netip.AddrPort) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.listeners[at.String()]; l != nil {
		return l.Addr().String(), nil
	}
	if t.closed {
		return "", errors.New("the agent is ending")
	}
	if len(t.listeners) >= maxListeners {
		return "", rpc.Errorf(rpc.CodeBusy, "%d ports are listened on already, and that is the limit", maxListeners)
	}
	var lc net.ListenConfig
	opened, err := lc.Listen(ctx, "tcp", at.String())
	if err != nil {
		return "", dialCause(err)
	}
	l := &tunnelListener{Listener: opened, next: make(chan net.Conn), stop: make(chan struct{}), done: make(chan struct{})}
	t.listeners[opened.Addr().String()] = l
	go l.run()
	return opened.Addr().String(), nil
}

// run takes one connection after the other and waits for somebody who accepts it.
func (l *tunnelListener) run() {
	defer close(l.done)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-time.After(acceptPause):
				continue
			case <-l.stop:
				return
			}
		}
		l.offer(conn)
	}
}

// offer waits for somebody who accepts conn.
func (l *tunnelListener) offer(conn net.Conn) {
	select {
	case l.next <- conn:
	case <-l.stop:
		conn.Close()
	}
}

// accept waits for the next connection to a port that listen opened.
func (s *session) accept(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		Address *string `json:"address"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if p.Address == nil {
		return nil, missing("address")
	}
	t := s.a.tunnels
	t.mu.Lock()
	l := t.listeners[*p.Address]
	t.mu.Unlock()
	if l == nil {
		return nil, invalid("address: nothing listens on %q: listen first", clip(*p.Address))
	}
	if err := t.take(); err != nil {
		return nil, err
	}
	select {
	case conn := <-l.next:
		peer := agent.AcceptResult{Peer: conn.RemoteAddr().String()}
		return s.tunnel(conn, peer, func() { l.offer(conn) }), nil
	case <-ctx.Done():
		t.give()
		return nil, ctx.Err()
	case <-l.done:
		t.give()
		return nil, fmt.Errorf("accept on %s: the agent is ending", clip(*p.Address))
	}
}
