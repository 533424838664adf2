package netgate

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
)

// SOCKS, version 5: RFC 1928, and RFC 1929 for the name and password that nobody looks at.
const (
	socks4       = 4
	socks5       = 5
	socksConnect = 1

	methodNone     = 0
	methodPassword = 2
	noMethod       = 0xff

	atypIPv4 = 1
	atypName = 3
	atypIPv6 = 4
)

// Replies of SOCKS5.
const (
	replyDone        = 0
	replyFailure     = 1
	replyNotAllowed  = 2
	replyUnreachable = 4
	replyRefused     = 5
	replyCommand     = 7
	replyAddress     = 8
)

var errSOCKS = errors.New("this is no SOCKS5 that the proxy knows")

// A socksError is a request that is answered with a reply other than done.
type socksError struct {
	reply byte
	why   string
}

func (e *socksError) Error() string { return e.why }

// readSOCKS5 greets and reads the request, and not a byte more. The first error that is a *socksError wants a reply.
func readSOCKS5(conn io.ReadWriter) (host string, port int, err error) {
	if err := greetSOCKS5(conn); err != nil {
		return "", 0, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", 0, err
	}
	if head[0] != socks5 {
		return "", 0, errSOCKS
	}
	var size int
	switch head[3] {
	case atypIPv4:
		size = 4
	case atypIPv6:
		size = 16
	case atypName:
		var n [1]byte
		if _, err := io.ReadFull(conn, n[:]); err != nil {
			return "", 0, err
		}
		size = int(n[0])
	default:
		return "", 0, &socksError{replyAddress, "over SOCKS5, a host is a name or an IP address"}
	}
	rest := make([]byte, size+2)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return "", 0, err
	}
	port = int(rest[size])<<8 | int(rest[size+1])
	host = string(rest[:size])
	if head[3] != atypName {
		addr, _ := netip.AddrFromSlice(rest[:size])
		host = addr.String()
	}
	if head[1] != socksConnect {
		return host, port, &socksError{replyCommand, "over SOCKS5, only CONNECT is done"}
	}
	return host, port, nil
}

func greetSOCKS5(conn io.ReadWriter) error {
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[0] != socks5 {
		return errSOCKS
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(conn, methods); err != nil {
		return err
	}
	switch {
	case bytes.IndexByte(methods, methodNone) >= 0:
		_, err := conn.Write([]byte{socks5, methodNone})
		return err
	case bytes.IndexByte(methods, methodPassword) < 0:
		_, _ = conn.Write([]byte{socks5, noMethod})
		return errors.New("over SOCKS5, nobody needs to say who they are; the client wants another way than a password")
	}
	if _, err := conn.Write([]byte{socks5, methodPassword}); err != nil {
		return err
	}
	return skipPassword(conn)
}

// skipPassword takes any name and password.
func skipPassword(conn io.ReadWriter) error {
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	if head[0] != 1 {
		return errSOCKS
	}
	name := make([]byte, int(head[1])+1)
	if _, err := io.ReadFull(conn, name); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, make([]byte, name[len(name)-1])); err != nil {
		return err
	}
	_, err := conn.Write([]byte{1, 0})
	return err
}

// replySOCKS5 answers a request. The address that it names is nobody's: who asks is not told where it went.
func replySOCKS5(conn io.Writer, reply byte) error {
	_, err := conn.Write([]byte{socks5, reply, 0, atypIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

// refuseSOCKS4 answers any request of version 4: rejected.
func refuseSOCKS4(conn io.Writer) {
	_, _ = conn.Write([]byte{0, 91, 0, 0, 0, 0, 0, 0})
}

// socksReply is the reply of a tunnel that was refused, or failed.
func socksReply(refused *refusal, err error) byte {
	host, ok := errors.AsType[*unreachable](err)
	switch {
	case refused != nil && refused.rule == BadRequest:
		return replyFailure
	case refused != nil:
		return replyNotAllowed
	case ok && host.refused:
		return replyRefused
	}
	return replyUnreachable
}
