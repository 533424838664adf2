package netgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	maxForwarded = 192 // connections through published ports at once; more wait
	anyPortTries = 8
)

// A port is one that is published.
type port struct {
	Publish
	listeners []net.Listener
}

// ports are those of one gate.
type ports struct {
	list   []*port
	slots  chan struct{}
	inside *inside
	failed func(Publish, error)
}

// listenPorts listens for all, or for none.
func listenPorts(ctx context.Context, publish []Publish, in *inside, failed func(Publish, error)) (*ports, error) {
	all := &ports{slots: make(chan struct{}, maxForwarded), inside: in, failed: failed}
	for _, p := range publish {
		one, err := listenPort(ctx, p)
		if err != nil {
			all.close()
			return nil, err
		}
		all.list = append(all.list, one)
	}
	return all, nil
}

// published are the ports with those of this machine that they got.
func (p *ports) published() []Publish {
	var list []Publish
	for _, one := range p.list {
		list = append(list, one.Publish)
	}
	return list
}

func (p *ports) close() {
	for _, one := range p.list {
		one.close()
	}
}

func (p *port) close() {
	for _, l := range p.listeners {
		_ = l.Close()
	}
}

// listenPort listens on both of this machine's loopback addresses, or on IPv4's where there is no other.
func listenPort(ctx context.Context, p Publish) (*port, error) {
	for try := 1; ; try++ {
		one, err := listenBoth(ctx, p)
		switch {
		case err == nil:
			return one, nil
		case errors.Is(err, syscall.EADDRINUSE) && p.HostPort != 0:
			return nil, fmt.Errorf("publish %d: port %d of this machine is in use; choose another (%d:HOSTPORT), or any (%d:0)", p.Port, p.HostPort, p.Port, p.Port)
		case errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("publish %d: port %d of this machine is not for everybody; choose one above 1023 (%d:HOSTPORT)", p.Port, p.HostPort, p.Port)
		case !errors.Is(err, syscall.EADDRINUSE) || try == anyPortTries:
			return nil, fmt.Errorf("publish %d: %w", p.Port, err)
		}
	}
}

func listenBoth(ctx context.Context, p Publish) (*port, error) {
	var config net.ListenConfig
	four, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.HostPort)))
	if err != nil {
		return nil, err
	}
	one := &port{Publish: p, listeners: []net.Listener{four}}
	if addr, ok := four.Addr().(*net.TCPAddr); ok {
		one.HostPort = addr.Port
	}
	six, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(one.HostPort)))
	switch {
	case err == nil:
		one.listeners = append(one.listeners, six)
	case errors.Is(err, syscall.EADDRINUSE): // "localhost" would be somebody else
		one.close()
		return nil, err
	}
	return one, nil
}

// serve hands connections on until ctx ends.
func (p *ports) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	var serving sync.WaitGroup
	for _, one := range p.list {
		for _, l := range one.listeners {
			serving.Go(func() { p.accept(ctx, one.Publish, l) })
		}
	}
	serving.Wait()
}

func (p *ports) accept(ctx context.Context, to Publish, l net.Listener) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			<-p.slots
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || !wait(ctx, 100*time.Millisecond) { // such as no descriptor free
				return
			}
			continue
		}
		serving.Go(func() {
			defer func() { <-p.slots }()
			p.hand(ctx, to, conn)
		})
	}
}

// hand takes one connection to its port inside.
func (p *ports) hand(ctx context.Context, to Publish, conn net.Conn) {
	defer conn.Close()
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	far, err := p.inside.dial(limited, to.Port)
	cancel()
	if err != nil {
		if p.failed != nil && ctx.Err() == nil {
			p.failed(to, err)
		}
		return
	}
	tunnel(ctx, conn, far, idleTimeout)
}

// wait waits, and reports whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ForwardOptions are Forward's.
type ForwardOptions struct {
	Connect func(ctx context.Context) (net.Conn, error) // as Options has it. Required
	Publish []Publish
	Ready   func(published []Publish)   // called once when connections are taken
	Failed  func(to Publish, err error) // a connection that went nowhere; called by several goroutines
}

// Forward hands connections to ports of this machine's loopback on to a sandbox until ctx ends, and returns nil then.
func Forward(ctx context.Context, o *ForwardOptions) error {
	if err := check(nil, o.Publish); err != nil {
		return err
	}
	all, err := listenPorts(ctx, o.Publish, &inside{connect: o.Connect}, o.Failed)
	if err != nil {
		return err
	}
	defer all.close()
	if o.Ready != nil {
		o.Ready(all.published())
	}
	all.serve(ctx)
	return nil
}
