// Package mux carries many connections over one stream of bytes, such as the standard
// input and output of a process, and finds its way back into it.
//
// The reason for a protocol of our own is what happens to a sandbox: its memory is saved at any moment,
// in the middle of a frame too, and where it goes on there is another host at the other end of
// the stream, which knows nothing of what was under way. So a Server takes a new host's greeting at
// any byte: it drops what was cut off, tells the connections of it that they were (Conn.Cut), and
// begins anew. What is handed to a connection is always a whole frame of its own host's.
//
// The host (Dial) opens connections, the server takes them. Every connection has a window of its
// own, so that one whose reader sleeps holds up no other. Neither side's memory depends on
// what the other sends.
//
// # The stream
//
// The host says SYN, again and again until it is answered, and drops all that comes before the answer:
//
//	host    NUL "airlock-mux 1 " NONCE "\n"         NONCE: 32 hexadecimal digits, new each time
//	server  NUL "airlock-mux 1 ok " NONCE "\n"
//	host    NUL "airlock-mux 1 go " NONCE "\n"      what came between SYN and this is dropped
//
// Then both send frames: kind (1 byte), length (3), connection (4, big endian), payload, and the
// byte 0xA5. No kind is 0, so a SYN where a frame should begin cannot be one; and before all SYNs but
// the first, the host sends as many NULs as the longest frame has bytes, so that a server in the
// middle of a frame gets to its end, where it finds a NUL instead of 0xA5.
package mux

import (
	"errors"
	"net"
)

const (
	magic    = "\x00airlock-mux 1 "
	ok       = "ok "
	start    = "go "
	nonceLen = 32

	headLen    = 8
	endMark    = 0xA5
	maxPayload = 32 << 10
	maxFrame   = headLen + maxPayload + 1

	window    = 512 << 10      // bytes on their way in one direction of one connection
	giveBack  = window / 4     // bytes read after which the sender may send as many more
	maxConns  = 1024           // at the same time
	outLimit  = 64 << 10       // bytes of frames that wait to be written before their senders do
	maxQueued = 1 << 20        // bytes of frames that wait for nobody; more is a fault of the other side
	readAhead = 2*maxFrame - 2 // bytes read at a time, and more than the longest frame
)

// Kinds of frames. The length of all but data is a number of its own.
const (
	kindOpen   = 1 + iota // the host makes a connection
	kindData              // length bytes
	kindCredit            // length bytes more may be sent
	kindFin               // no more data comes
	kindClose             // no more data comes, and none is read
	kindRefuse            // the server does not take the connection
)

var (
	// ErrCut is a connection whose host is gone: another one said SYN.
	ErrCut = errors.New("the connection was cut off: another host has begun anew")
	// ErrRefused is a connection that the server did not take, because it has too many.
	ErrRefused = errors.New("the connection was refused: there are too many")
	// ErrEnded is a connection whose stream has ended.
	ErrEnded = errors.New("the stream that carries the connection has ended")
	// errFrame is what no sender sends.
	errFrame = errors.New("what comes is no frame")
)

// An address is both ends of every connection.
type address struct{}

func (address) Network() string { return "mux" }
func (address) String() string  { return "mux" }

var _ net.Addr = address{}
