package main

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"airlock/agent"
)

// echoMode makes this program a bare echo of lines on a Unix socket.
const echoMode = "-echo"

// echoServer answers one client after another until it is killed, or returns why it cannot.
func echoServer(ctx context.Context, path string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		r := bufio.NewReader(conn)
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				break
			}
			if _, err := conn.Write(line); err != nil {
				break
			}
		}
		conn.Close()
	}
}

const pingsARound = 5000

// pingFigures puts the agent's ping beside a bare echo, each in a process of its own.
func pingFigures(ctx context.Context, b *bed) ([]figure, error) {
	agentSock, echoSock := filepath.Join(b.dir, "agent.sock"), filepath.Join(b.dir, "echo.sock")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, cmd := range []*exec.Cmd{exec.CommandContext(ctx, b.agent, "--listen", "unix:"+agentSock), exec.CommandContext(ctx, self, echoMode, echoSock)} {
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		defer kill(cmd)
	}
	client, err := agent.Connect(ctx, agentSock, nil)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	echo, err := dialEcho(ctx, echoSock)
	if err != nil {
		return nil, err
	}
	defer echo.Close()
	r := bufio.NewReader(echo)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}` + "\n")
	ping := func() error {
		for range pingsARound {
			if err := client.Ping(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	bare := func() error {
		for range pingsARound {
			if _, err := echo.Write(line); err != nil {
				return err
			}
			if _, err := r.ReadSlice('\n'); err != nil {
				return err
			}
		}
		return nil
	}
	ours, theirs, err := pairs(ctx, b.rounds, ping, bare)
	if err != nil {
		return nil, err
	}
	for i := range ours {
		ours[i] /= pingsARound
		theirs[i] /= pingsARound
	}
	return []figure{compare("ping over a Unix socket", "newline echo", ours, theirs, 1.6)}, nil
}

// kill ends a process that would serve for ever; how it ends says nothing.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// dialEcho waits for the echo to listen.
func dialEcho(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	var err error
	for range 100 {
		var conn net.Conn
		if conn, err = d.DialContext(ctx, "unix", path); err == nil {
			return conn, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}
