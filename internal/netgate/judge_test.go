package netgate_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/netgate"
)

// book is a Resolver that reads from a list.
type book map[string][]string

func (b book) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, text := range b[host] {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

func judge(t testing.TB, allow string, names book) *netgate.Judge {
	t.Helper()
	rules, err := netgate.ParseAllow(allow)
	if err != nil {
		t.Fatal(err)
	}
	return netgate.NewJudge(rules, names, func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("203.0.113.200"), netip.MustParseAddr("2600::200"), netip.MustParseAddr("10.0.0.200")}, nil
	})
}

func TestTheJudge(t *testing.T) {
	names := book{
		"example.com":      {"203.0.113.1", "2600::1"},
		"mixed.example":    {"10.0.0.1", "203.0.113.2", "::1"},
		"inner.example":    {"10.0.0.7"},
		"loop.example":     {"127.0.0.1"},
		"cloud.example":    {"169.254.169.254"},
		"self.example":     {"203.0.113.200"},
		"mapped.example":   {"::ffff:127.0.0.1"},
		"zone.example":     {"fe80::1%eth0"},
		"www.example.com":  {"203.0.113.3"},
		"host.airlock":     {"203.0.113.66"},
		"localhost":        {"203.0.113.66"},
		"app.localhost":    {"203.0.113.66"},
		"xn--bcher-kva.de": {"203.0.113.4"},
	}
	for _, tc := range []struct {
		name, allow, host string
		port              int
		want              string // addresses, or the rule that refuses
	}{
		{"a name at a web port", "example.com", "example.com", 443, "203.0.113.1:443 [2600::1]:443"},
		{"a name at another port", "example.com", "example.com", 22, netgate.PortNotAllowed},
		{"a name at its port", "example.com:22", "example.com", 22, "203.0.113.1:22 [2600::1]:22"},
		{"a name at its port alone", "example.com:22", "example.com", 80, netgate.PortNotAllowed},
		{"every port", "example.com:*", "example.com", 1, "203.0.113.1:1 [2600::1]:1"},
		{"two rules for a name", "example.com:22,example.com:23", "example.com", 23, "203.0.113.1:23 [2600::1]:23"},
		{"in capital letters, with a dot", "example.com", "EXAMPLE.COM.", 80, "203.0.113.1:80 [2600::1]:80"},
		{"in other letters", "bücher.de", "BÜCHER.de", 80, "203.0.113.4:80"},
		{"two dots", "example.com", "example.com..", 80, netgate.BadRequest},
		{"a name below", "*.example.com", "www.example.com", 80, "203.0.113.3:80"},
		{"a pattern is not the name itself", "*.example.com", "example.com", 80, netgate.NotAllowed},
		{"nor one that ends alike", "*.example.com", "wwwexample.com", 80, netgate.NotAllowed},
		{"nothing named", "example.com", "example.net", 80, netgate.NotAllowed},
		{"the address of what is named", "example.com", "203.0.113.1", 80, netgate.NotAllowed},
		{"an address", "203.0.113.1", "203.0.113.1", 80, "203.0.113.1:80"},
		{"an address as IPv6", "203.0.113.1", "::ffff:203.0.113.1", 80, "203.0.113.1:80"},
		{"an address at another port", "203.0.113.1", "203.0.113.1", 81, netgate.PortNotAllowed},
		{"a range", "203.0.113.0/24", "203.0.113.9", 80, "203.0.113.9:80"},
		{"a name into a range that is named, but not it", "203.0.113.0/24", "example.com", 80, netgate.NotAllowed},
		{"some addresses of a name are private", "mixed.example", "mixed.example", 80, "203.0.113.2:80"},
		{"all of them are", "inner.example", "inner.example", 80, netgate.PrivateAddress},
		{"they are, and named", "inner.example,10.0.0.7", "inner.example", 80, "10.0.0.7:80"},
		{"they are, and in a range that is named", "inner.example:5432,10.0.0.0/8:*", "inner.example", 5432, "10.0.0.7:5432"},
		{"they are, and named for another port", "inner.example:5432,10.0.0.7:80", "inner.example", 5432, netgate.PrivateAddress},
		{"a range that holds more than private addresses does not name them", "inner.example,0.0.0.0/0", "inner.example", 80, netgate.PrivateAddress},
		{"nor the loopback", "0.0.0.0/0", "127.0.0.1", 80, netgate.PrivateAddress},
		{"but all others", "0.0.0.0/0", "203.0.113.9", 80, "203.0.113.9:80"},
		{"a range with the machine's own address", "203.0.113.0/24", "203.0.113.200", 80, netgate.PrivateAddress},
		{"the machine's own address", "203.0.113.200", "203.0.113.200", 80, "203.0.113.200:80"},
		{"a name of the machine's own", "self.example", "self.example", 80, netgate.PrivateAddress},
		{"the machine's own IPv6 address", "2600::/32", "2600::200", 80, netgate.PrivateAddress},
		{"the machine's own private address in a private range", "10.0.0.0/8", "10.0.0.200", 80, "10.0.0.200:80"},
		{"a name that leads to the loopback", "loop.example", "loop.example", 80, netgate.PrivateAddress},
		{"as IPv6", "mapped.example", "mapped.example", 80, netgate.PrivateAddress},
		{"with a zone", "zone.example", "zone.example", 80, netgate.PrivateAddress},
		{"to a cloud's credentials", "cloud.example", "cloud.example", 80, netgate.PrivateAddress},
		{"though link-local addresses are named", "cloud.example,169.254.0.0/16", "cloud.example", 80, netgate.PrivateAddress},
		{"a cloud's credentials, named", "169.254.169.254", "169.254.169.254", 80, "169.254.169.254:80"},
		{"the machine, by name and port", "localhost:8080", "localhost", 8080, "127.0.0.1:8080 [::1]:8080"},
		{"by its other name", "localhost:8080", "host.airlock", 8080, "127.0.0.1:8080 [::1]:8080"},
		{"with a dot", "host.airlock:8080", "LOCALHOST.", 8080, "127.0.0.1:8080 [::1]:8080"},
		{"its other port", "localhost:8080", "localhost", 8081, netgate.PortNotAllowed},
		{"the machine is in no pattern", "*.airlock:*", "host.airlock", 8080, netgate.PrivateAddress},
		{"its address is not its name", "localhost:8080", "127.0.0.1", 8080, netgate.PrivateAddress},
		{"below localhost is the machine", "app.localhost", "app.localhost", 80, netgate.PrivateAddress},
		{"and is let out where that is named", "app.localhost,127.0.0.1", "app.localhost", 80, "127.0.0.1:80"},
		{"an address with a zone", "2600::/16", "2600::1%eth0", 80, netgate.BadRequest},
		{"no host", "example.com", "", 80, netgate.BadRequest},
		{"port 0", "example.com:*", "example.com", 0, netgate.BadRequest},
		{"a port too high", "example.com:*", "example.com", 65616, netgate.BadRequest},
		{"control characters", "example.com", "example.com\r\nx", 80, netgate.BadRequest},
		{"a zero byte", "example.com", "example.com\x00.evil.example", 80, netgate.BadRequest},
		{"a space", "example.com", "example.com ", 80, netgate.BadRequest},
		{"a name and password", "example.com", "a@example.com", 80, netgate.BadRequest},
		{"an address in full-width digits", "example.com", "１２７.0.0.1", 80, netgate.PrivateAddress},
		{"a name without end", "example.com", strings.Repeat("a.", 1000), 80, netgate.BadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := judge(t, tc.allow, names).Judge(t.Context(), tc.host, tc.port)
			got := v.Rule
			if v.Allowed {
				var addrs []string
				for _, a := range v.Addrs {
					addrs = append(addrs, a.String())
				}
				got = strings.Join(addrs, " ")
			} else if len(v.Addrs) > 0 || v.Why == "" {
				t.Errorf("refused with %+v", v)
			}
			if got != tc.want {
				t.Errorf("%s of %s at %d: %q (%s), want %q", tc.allow, tc.host, tc.port, got, v.Why, tc.want)
			}
		})
	}
}

func TestSpecialAddressesAreRefusedInEverySpelling(t *testing.T) {
	special := []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.1.1", "169.254.169.254", "172.16.0.1",
		"172.31.255.255", "192.0.0.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
		"::127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::1",
		"2002:7f00:1::1", "2002:a00:1::", "2001::1", "2001:0:53aa:64c:0:0:80ff:fffe",
		"2600::5efe:10.0.0.1", "2600::200:5efe:7f00:1", "3ffe::1", "100::1", "5f00::1", "4000::1",
		"203.0.113.200", "2600::200", "64:ff9b::203.0.113.200",
	}
	j := judge(t, "0.0.0.0/0:*,[::/0]:*,leads.example", nil)
	for _, text := range special {
		if v := j.Judge(t.Context(), text, 80); v.Allowed || v.Rule != netgate.PrivateAddress {
			t.Errorf("%s: %+v, want %s", text, v, netgate.PrivateAddress)
		}
		named := judge(t, "leads.example", book{"leads.example": {text}})
		if v := named.Judge(t.Context(), "leads.example", 80); v.Allowed || v.Rule != netgate.PrivateAddress {
			t.Errorf("a name that leads to %s: %+v, want %s", text, v, netgate.PrivateAddress)
		}
	}
	for _, text := range []string{"8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8", "169.253.1.1", "2600::5eff:1"} {
		if v := j.Judge(t.Context(), text, 80); !v.Allowed {
			t.Errorf("%s: %+v, want it let out", text, v)
		}
	}
}

func TestWithoutKnowingItsOwnAddressesNothingIsLetOut(t *testing.T) {
	rules, err := netgate.ParseAllow("example.com,203.0.113.1")
	if err != nil {
		t.Fatal(err)
	}
	j := netgate.NewJudge(rules, book{"example.com": {"203.0.113.1"}}, func() ([]netip.Addr, error) { return nil, errors.New("no") })
	for _, host := range []string{"example.com", "203.0.113.1"} {
		if v := j.Judge(t.Context(), host, 80); v.Allowed {
			t.Errorf("%s: %+v", host, v)
		}
	}
}

// A stuck never answers.
type stuck struct{}

func (stuck) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAResolverThatDoesNotAnswer(t *testing.T) {
	rules, err := netgate.ParseAllow("example.com")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	v := netgate.NewJudge(rules, stuck{}, nil).Judge(ctx, "example.com", 80)
	if v.Allowed || !v.Unreachable || v.Why != "the addresses of example.com were not found in time" {
		t.Errorf("Judge = %+v", v)
	}
}

func TestTheSystemsOwnAddressesAreKnown(t *testing.T) {
	rules, err := netgate.ParseAllow("0.0.0.0/0:*")
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	j := netgate.NewJudge(rules, nil, nil)
	tried := 0
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || ip.To4() == nil {
			continue
		}
		tried++
		if v := j.Judge(t.Context(), ip.String(), 80); v.Allowed {
			t.Errorf("%s is this machine's, and is let out: %+v", ip, v)
		}
	}
	if tried == 0 {
		t.Skip("this machine has no IPv4 address")
	}
}

func FuzzJudge(f *testing.F) {
	for _, s := range []string{"example.com", "127.0.0.1", "::1", "0x7f.1", "EXAMPLE.com.", "x.example.com", "１.1.1.1", "a\x00b"} {
		f.Add(s, 80)
	}
	resolver := book{"example.com": {"203.0.113.1", "10.0.0.1"}, "a.example.com": {"203.0.113.2"}}
	f.Fuzz(func(t *testing.T, host string, port int) {
		v := judge(t, "example.com,*.example.com:8080,192.0.2.0/24", resolver).Judge(t.Context(), host, port)
		if !v.Allowed {
			if len(v.Addrs) > 0 {
				t.Errorf("refused with addresses: %+v", v)
			}
			return
		}
		for _, a := range v.Addrs {
			public := slices.Contains([]string{"203.0.113.1", "203.0.113.2"}, a.Addr().String()) || netip.MustParsePrefix("192.0.2.0/24").Contains(a.Addr())
			if !public || int(a.Port()) != port {
				t.Errorf("%q %d led to %v", host, port, a)
			}
		}
	})
}
