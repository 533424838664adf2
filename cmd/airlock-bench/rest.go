package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"airlock/agent"
)

func fileSize(path string) (int64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// restingMemory is what an agent holds that listens, has answered a client, and rests.
func restingMemory(ctx context.Context, b *bed) (int64, error) {
	sock := filepath.Join(b.dir, "rest.sock")
	cmd := exec.CommandContext(ctx, b.agent, "--listen", "unix:"+sock)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer kill(cmd)
	client, err := agent.Connect(ctx, sock, nil)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return 0, err
	}
	time.Sleep(time.Second)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return residentOf(string(status))
}
