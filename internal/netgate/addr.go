package netgate

import (
	"net"
	"net/netip"
	"strings"
)

// A class is addresses that only a rule for addresses lets out, and only one that lies within the class:
// 0.0.0.0/0 does not name the loopback.
type class struct {
	prefix netip.Prefix
	what   string // completes "which is …"
}

const metadata = "an address where clouds keep credentials"

// classes are looked through in order: what lies in another comes before it.
func classes() []class {
	list := []struct{ what, prefixes string }{
		{metadata, "169.254.169.254/32 169.254.170.2/32 169.254.170.23/32 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128"},
		{"unspecified", "0.0.0.0/8 ::/128"},
		{"this machine's loopback", "127.0.0.0/8 ::1/128"},
		{"a private address", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"},
		{"a link-local address", "169.254.0.0/16 fe80::/10"},
		{"an address that a provider shares among customers", "100.64.0.0/10"},
		{"a multicast or broadcast address", "224.0.0.0/4 255.255.255.255/32 ff00::/8"},
		{"an address for a special purpose", "192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 240.0.0.0/4 2001::/23 2002::/16 3ffe::/16"},
	}
	var all []class
	for _, entry := range list {
		for prefix := range strings.FieldsSeq(entry.prefixes) {
			all = append(all, class{netip.MustParsePrefix(prefix), entry.what})
		}
	}
	return all
}

// classOf finds what keeps an address from being let out by a name alone. The address is unmapped and has no zone.
func (j *Judge) classOf(addr netip.Addr) (c class, special bool, err error) {
	judged := addr
	if netip.MustParsePrefix("64:ff9b::/96").Contains(addr) { // RFC 6052: a translator makes an IPv4 address of the last four bytes
		b := addr.As16()
		judged = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, c := range j.classes {
		if c.prefix.Contains(judged) {
			if judged != addr {
				c.prefix = netip.PrefixFrom(addr, 128) // only the very address names it
			}
			return c, true, nil
		}
	}
	if judged.Is6() && (!netip.MustParsePrefix("2000::/3").Contains(judged) || isISATAP(judged)) {
		return class{netip.PrefixFrom(judged, 128), "an address for a special purpose"}, true, nil
	}
	own, err := j.own()
	if err != nil {
		return class{}, true, err
	}
	for _, o := range own {
		if o.Unmap().WithZone("") == judged {
			return class{netip.PrefixFrom(addr, addr.BitLen()), "an address of this machine"}, true, nil
		}
	}
	return class{}, false, nil
}

// isISATAP reports whether an address carries an IPv4 address as RFC 5214 has it.
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() ([]netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, addr.Unmap())
			}
		}
	}
	return own, nil
}
