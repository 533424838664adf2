package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"airlock/internal/sandbox"
)

func noNetwork(b *bench) {
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.Error("a command in the sandbox reached a server on the host")
			conn.Close()
		}
	}()
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	port := l.Addr().(*net.TCPAddr).Port
	b.want(sb, "bash -c 'exec 3<>/dev/tcp/127.0.0.1/"+fmt.Sprint(port)+"' 2>/dev/null && echo reached || echo refused", "refused")
	b.want(sb, "ls /sys/class/net 2>/dev/null | grep -v '^lo$' | wc -l", "0")
	b.want(sb, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -v '^lo$' | wc -l", "0")
}

func noProcesses(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	pid := os.Getpid()
	b.fails(sb, fmt.Sprintf("kill -0 %d", pid))
	b.fails(sb, fmt.Sprintf("kill -9 %d", pid))
	b.fails(sb, fmt.Sprintf("ls /proc/%d", pid))
	res := b.sh(sb, "ls -d /proc/[0-9]* | wc -l")
	if n := strings.TrimSpace(res.Stdout); len(n) > 1 {
		b.Errorf("a command sees %s processes", n)
	}
	b.sh(sb, "kill -9 -1")
	b.want(sb, "echo still here", "still here")
}

func noSockets(b *bench) {
	path := filepath.Join(b.work, "s")
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.Error("a command in the sandbox reached a Unix socket of the host")
			conn.Close()
		}
	}()
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	b.want(sb, `/usr/bin/python3 -c '
import socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("s")
    print("reached")
except OSError:
    print("refused")'`, "refused")
}

func agentIsSafe(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	if sb.Identity() == "" {
		b.Log("root's commands are the agent's equals: they can end it, and lose what they changed")
		return
	}
	for _, line := range []string{"kill -9 1", "kill -STOP 1", "echo x > /proc/1/fd/1", "cat /proc/1/environ", "cat < /proc/1/fd/0", "cat /proc/1/mem"} {
		b.fails(sb, line)
	}
	b.want(sb, "echo still here", "still here")
}

func noDevices(b *bench) {
	sb := b.start(sandbox.Spec{})
	defer b.close(sb)
	for _, line := range []string{
		"ls /dev/kmsg /dev/mem /dev/sda /dev/vda /dev/kvm 2>/dev/null | grep .",
		"mkdir m && mount -t tmpfs none m", "echo 1 > /proc/sys/kernel/panic", "mknod disk b 254 0 && head -c 1 disk",
	} {
		b.fails(sb, line)
	}
}
