package choice

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The kernel's lists of sockets, in this network namespace.
const (
	tcp4Table = "/proc/self/net/tcp"
	tcp6Table = "/proc/self/net/tcp6"
)

// firstPerson is the first user that is a person: those below are the system's own.
const firstPerson = 1000

// trusted refuses a server that another person on this machine runs: what would be sent to
// it is not theirs to read.
func trusted(conn net.Conn) error {
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return errors.New("what listens there is not known")
	}
	port := addr.AddrPort()
	server := netip.AddrPortFrom(port.Addr().Unmap().WithZone(""), port.Port())
	var uids []int
	for _, table := range []string{tcp4Table, tcp6Table} {
		f, err := os.Open(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return fmt.Errorf("who listens there cannot be found out: %w", err)
		}
		found, err := listeners(f, server)
		f.Close()
		if err != nil {
			return fmt.Errorf("who listens there cannot be found out: %w", err)
		}
		uids = append(uids, found...)
	}
	if len(uids) == 0 {
		return errors.New("who listens there cannot be found out")
	}
	for _, uid := range uids {
		if uid != os.Getuid() && uid >= firstPerson {
			return fmt.Errorf("another user (uid %d) listens there", uid)
		}
	}
	return nil
}

// listening is the state of a socket that waits for connections.
const listening = "0A"

// listeners are the users whose sockets take connections to server.
func listeners(table io.Reader, server netip.AddrPort) ([]int, error) {
	var uids []int
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[3] != listening {
			continue
		}
		local, err := socketAddress(f[1])
		if err != nil {
			return nil, err
		}
		if local.Port() != server.Port() || (local.Addr() != server.Addr() && !local.Addr().IsUnspecified()) {
			continue
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		if err != nil {
			return nil, errors.New("the kernel's list of sockets cannot be read")
		}
		uids = append(uids, int(uid))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return uids, nil
}

// socketAddress reads an address as the kernel writes it: words of the machine's own order
// in hex, a colon, the port in hex.
func socketAddress(text string) (netip.AddrPort, error) {
	bad := errors.New("the kernel's list of sockets cannot be read")
	address, portText, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	if err != nil {
		return netip.AddrPort{}, bad
	}
	raw, err := hex.DecodeString(address)
	if err != nil || (len(raw) != 4 && len(raw) != 16) {
		return netip.AddrPort{}, bad
	}
	for word := range slices.Chunk(raw, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	ip, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), nil
}
