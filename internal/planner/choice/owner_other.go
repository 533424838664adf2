//go:build !linux

package choice

import "net"

// trusted knows only on Linux whose server it is.
func trusted(net.Conn) error { return nil }
