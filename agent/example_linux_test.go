package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"airlock/agent"
	"airlock/internal/guest"
)

// inSandbox stands for a sandbox whose guest agent is at the other end of a connection.
func inSandbox() (conn net.Conn, stop func(), err error) {
	g, err := guest.New(nil)
	if err != nil {
		return nil, nil, err
	}
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(context.Background(), far)
	}()
	return near, func() {
		_ = g.Close()
		<-done
	}, nil
}

func Example() {
	conn, stop, err := inSandbox() // or agent.Connect(ctx, "/run/vm/v.sock", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	c := agent.NewClient(conn, nil)
	defer c.Close()
	ctx := context.Background()

	res, err := c.Exec(ctx, "echo hello; exit 3")
	fmt.Printf("%q %d %v\n", res.Stdout, res.ExitCode, err)

	_, err = c.ReadFile(ctx, "/no/such/file")
	var failed *agent.RPCError
	fmt.Println(errors.As(err, &failed), failed.Code)
	// Output:
	// "hello\n" 3 <nil>
	// true -32603
}

func ExampleClient_Run() {
	conn, stop, err := inSandbox()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	c := agent.NewClient(conn, nil)
	defer c.Close()

	res, err := c.Run(context.Background(), agent.ExecParams{
		Argv:        []string{"sh", "-c", "sort; echo $WHO"},
		ExecOptions: agent.ExecOptions{Cwd: "/", Env: map[string]string{"WHO": "me"}, TimeoutMS: 60_000},
	}, &agent.Streams{
		Stdin:  strings.NewReader("b\na\n"),
		Stdout: os.Stdout,
		Stderr: os.Stderr,
	})
	fmt.Println(res.ExitCode, res.TimedOut, err)
	// Output:
	// a
	// b
	// me
	// 0 false <nil>
}
