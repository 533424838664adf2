package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"airlock/internal/sandbox"
)

// greeter is a server on the host's loopback that says a word to whoever comes.
func (b *bench) greeter(network, address, word string) net.Listener {
	b.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), network, address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word+"\n") // who does not read it fails by that
			conn.Close()
		}
	}()
	return l
}

func hostNetwork(b *bench) {
	l := b.greeter("tcp", "127.0.0.1:0", "welcome")
	line := fmt.Sprintf("bash -c 'read -r word </dev/tcp/127.0.0.1/%d; echo $word' 2>/dev/null", l.Addr().(*net.TCPAddr).Port)

	without := b.start(sandbox.Spec{})
	b.want(without, line, "")
	b.close(without)

	with := b.start(sandbox.Spec{HostNetwork: true})
	defer b.close(with)
	b.want(with, line, "welcome")
	b.want(with, "id -u", fmt.Sprint(os.Getuid()))

	// Names are looked up as the host does it.
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if errors.Is(err, fs.ErrNotExist) {
		b.Log("the host has no /etc/resolv.conf")
	} else {
		b.want(with, "cat /etc/resolv.conf", strings.TrimSpace(string(resolv)))
	}
	b.want(with, "getent ahostsv4 localhost | cut -d' ' -f1 | sort -u", "127.0.0.1")
	b.listens(with)
	b.sh(with, "echo x > new")
	if got := b.upper(with); got[b.work+"/new"] != "x\n" {
		b.Errorf("with the host's network, the upper layer's file = %q, want %q", got[b.work+"/new"], "x\n")
	}
}

// listens has a command in the sandbox wait for the test to come to it.
func (b *bench) listens(sb sandbox.Sandbox) {
	b.Helper()
	b.sh(sb, `/usr/bin/python3 -c '
import os, socket
s = socket.create_server(("127.0.0.1", 0))
with open("port.part", "w") as f:
    f.write(str(s.getsockname()[1]))
os.rename("port.part", "port")
s.settimeout(30)
c, _ = s.accept()
c.sendall(b"from inside")
c.close()' >/dev/null 2>&1 &`)
	port := strings.TrimSpace(b.sh(sb, "until cat port 2>/dev/null; do sleep 0.02; done").Stdout)
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		b.Errorf("dial a server in the sandbox: %v", err)
		return
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); string(got) != "from inside" {
		b.Errorf("a server in the sandbox said %q, %v, want %q", got, err, "from inside")
	}
}

// tries makes sockets that no sandbox may have, and prints those that it got.
const tries = `/usr/bin/python3 -c '
import socket, sys
def attempt(name, make):
    try:
        make()
    except OSError:
        return
    print(name)
def reach(address):
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
attempt("an abstract socket", lambda: reach("\0" + sys.argv[1]))
attempt("a socket with a path", lambda: reach("s"))
attempt("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("a raw socket of any protocol", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
attempt("a raw socket of IPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
attempt("a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
attempt("a cooked packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)))
attempt("a socket of virtual machines", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("a privileged port", lambda: socket.create_server(("127.0.0.1", 0x3ff)))
print("tried")' `

func hostNetworkOnly(b *bench) {
	name := "airlock-test-" + sandbox.NewID()
	b.greeter("unix", "@"+name, "reached")
	b.greeter("unix", b.work+"/s", "reached")
	sb := b.start(sandbox.Spec{HostNetwork: true})
	defer b.close(sb)
	b.want(sb, tries+name, "tried")
	// The host's settings are not to be changed, by nobody inside.
	b.sh(sb, "ip link set lo down; ip link add airlocktest type dummy; echo 1 > /proc/sys/net/ipv4/ip_forward")
	if _, err := net.InterfaceByName("airlocktest"); err == nil {
		b.Error("a command in the sandbox made a network interface of the host's")
	}
	if lo, err := net.InterfaceByName("lo"); err == nil && lo.Flags&net.FlagUp == 0 {
		b.Error("a command in the sandbox took the host's loopback down")
	}
	b.want(sb, "echo still here", "still here")
}
