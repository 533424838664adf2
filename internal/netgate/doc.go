// Package netgate is the gate between a sandbox and the network: a program beside the sandbox that
// lets out what is named and nothing else, puts secrets into requests, and publishes ports of
// the sandbox on the host's loopback.
//
// Inside, the guest agent listens on a port of the sandbox's loopback and hands each
// connection over; there is no other way out. What comes from there is written by whoever the sandbox
// is for: it is sniffed (SOCKS5 or HTTP), judged by name and then by every address the name leads to, and
// connected to the very address that was judged. TLS is not opened.
//
// The package must not know drivers, the record's database or the command line: it is given a
// way to connect to the guest agent, a Config, and a function that takes Events.
package netgate
