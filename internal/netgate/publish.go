package netgate

import (
	"fmt"
	"strconv"
	"strings"
)

// A Publish is a port of the sandbox on the host's loopback.
type Publish struct {
	Port     int `json:"port"`      // inside
	HostPort int `json:"host_port"` // 0: any that is free
}

// ParsePublish reads "PORT[:HOSTPORT]". Without HOSTPORT it is PORT; 0 is any that is free.
func ParsePublish(text string) (Publish, error) {
	inside, host, both := strings.Cut(text, ":")
	port, err := parsePort(inside, 1)
	if err != nil {
		return Publish{}, fmt.Errorf("publish %s: %w; wanted PORT or PORT:HOSTPORT", quote(text), err)
	}
	p := Publish{Port: port, HostPort: port}
	if both {
		if p.HostPort, err = parsePort(host, 0); err != nil {
			return Publish{}, fmt.Errorf("publish %s: %w; wanted PORT or PORT:HOSTPORT", quote(text), err)
		}
	}
	return p, nil
}

// String is what ParsePublish reads as the same Publish.
func (p Publish) String() string {
	if p.Port == p.HostPort {
		return strconv.Itoa(p.Port)
	}
	return strconv.Itoa(p.Port) + ":" + strconv.Itoa(p.HostPort)
}
