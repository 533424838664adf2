package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"airlock/internal/audit"
	"airlock/internal/netgate"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor"
)

// gateArgument makes this program the network's gate of one sandbox: the sandbox's keeper starts it
// so. It is nothing that a person says.
const gateArgument = "--be-a-network-gate"

// maxGateInput bounds what the gate reads of its keeper.
const maxGateInput = 1 << 20

// gateInput is what the gate needs. It holds secrets, and is written nowhere.
type gateInput struct {
	State    string         `json:"state"`
	Settings string         `json:"settings"`
	Config   netgate.Config `json:"config"`
}

// gateReady is the line that says that the gate works.
type gateReady struct {
	Ports []netgate.Publish `json:"ports"`
}

// isNetGate reports whether the program was started as one.
func isNetGate(args []string) bool { return len(args) == 2 && args[1] == gateArgument }

// netGate is the gate's main function.
func netGate() int {
	// The keeper ends it. Signals are of a terminal that is not its own.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	keepMemory()
	if err := serveNetGate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveNetGate(ctx context.Context) error {
	in, err := readGateInput()
	if err != nil {
		return err
	}
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return fmt.Errorf("the network's gate is started by a sandbox's keeper: %w", err)
	}
	driver := gvisor.New(&gvisor.Options{StateDir: in.State})
	sb, err := driver.Attach(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { _ = sb.Release() }() // it ends with this process
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-sb.Done()
		cancel()
	}()
	record, end := openOnce(in.State+"/record.db", in.Settings)
	defer end()
	err = netgate.Serve(ctx, &netgate.Options{
		Connect: connectGate(sb),
		Config:  in.Config,
		Ready:   sayReady,
		Record:  recordNet(record, sb.ID()),
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// readGateInput reads what the keeper hands over.
func readGateInput() (*gateInput, error) {
	f := os.NewFile(3, "input")
	data, err := io.ReadAll(io.LimitReader(f, maxGateInput+1))
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("the network's gate is started by a sandbox's keeper: %w", err)
	}
	in := &gateInput{}
	if err := json.Unmarshal(data, in); err != nil {
		return nil, errors.New("the network's gate cannot read what its keeper says") // with no word of what it was
	}
	return in, nil
}

func sayReady(ports []netgate.Publish, err error) {
	if err != nil {
		return // Serve returns it
	}
	data, err := json.Marshal(gateReady{Ports: ports})
	if err == nil {
		fmt.Println(string(data))
	}
}

// connectGate opens connections to the guest agent; one of a paused sandbox waits.
func connectGate(sb sandbox.Lasting) func(context.Context) (net.Conn, error) {
	const again = 200 * time.Millisecond
	return func(ctx context.Context) (net.Conn, error) {
		for {
			conn, err := sb.Connect(ctx)
			select {
			case <-sb.Done():
				return nil, netgate.ErrGone
			default:
			}
			if !errors.Is(err, sandbox.ErrPaused) {
				return conn, err
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(again):
			}
		}
	}
}

// recordNet writes what the gate lets out and refuses into the record.
func recordNet(open func() (*audit.Log, error), id string) func(netgate.Event) {
	return func(e netgate.Event) {
		log, err := open()
		if err == nil {
			err = log.Record(context.Background(), "network", id, e)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "the network's record:", err)
		}
	}
}
