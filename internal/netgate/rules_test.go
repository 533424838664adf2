package netgate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"airlock/internal/netgate"
)

func TestWhatMayBeLetOut(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a name", "example.com", "example.com"},
		{"a name and a port", "example.com:8080", "example.com:8080"},
		{"every port", "example.com:*", "example.com:*"},
		{"names below one", "*.example.com", "*.example.com"},
		{"capital letters and a last dot", "EXAMPLE.Com.", "example.com"},
		{"a name in other letters", "bücher.example", "xn--bcher-kva.example"},
		{"full-width digits are digits", "１92.0.2.7", "192.0.2.7"},
		{"an underscore", "my_bucket.example.com", "my_bucket.example.com"},
		{"an address", "192.0.2.7", "192.0.2.7"},
		{"an address and a port", "192.0.2.7:22", "192.0.2.7:22"},
		{"a range", "10.0.0.0/8:443", "10.0.0.0/8:443"},
		{"a range of one", "10.0.0.1/32", "10.0.0.1"},
		{"IPv6", "2001:DB8:0::1", "2001:db8::1"},
		{"IPv6 with a port", "[2001:db8::1]:443", "[2001:db8::1]:443"},
		{"IPv6 in brackets without", "[2001:db8::1]", "2001:db8::1"},
		{"an IPv6 range", "2001:db8::/32", "2001:db8::/32"},
		{"an IPv6 range with a port", "[2001:db8::/32]:*", "[2001:db8::/32]:*"},
		{"IPv4 written as IPv6", "::ffff:192.0.2.7", "192.0.2.7"},
		{"several, one twice", "a.example, b.example:1,A.example", "a.example,b.example:1"},
		{"the machine", "localhost:8080", "localhost:8080"},
		{"the machine by its other name", "host.airlock:5432", "host.airlock:5432"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := netgate.ParseAllow(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := rules.String(); got != tc.want {
				t.Errorf("ParseAllow(%q) = %q, want %q", tc.text, got, tc.want)
			}
			data, err := json.Marshal(rules)
			if err != nil {
				t.Fatal(err)
			}
			var back netgate.Rules
			if err := json.Unmarshal(data, &back); err != nil || back.String() != tc.want {
				t.Errorf("through JSON: %q, %v, want %q", back, err, tc.want)
			}
		})
	}
}

func TestWhatCannotBeLetOut(t *testing.T) {
	const base = "network: host 1 at character 1, "
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", base + `"": nothing is named; wanted HOST or HOST:PORT`},
		{"nothing between two", "a.example,,b.example", `network: host 2 at character 11, "": nothing is named; wanted HOST or HOST:PORT`},
		{"a URL", "https://example.com", base + `"https://example.com": this is a URL; wanted HOST or HOST:PORT alone`},
		{"everything", "*", base + `"*": every host cannot be named (--net host is the host's network whole); wanted a name, *.NAME or an address`},
		{"a pattern in the middle", "a.*.example", base + `"a.*.example": a * may only be the whole first part, as in *.example.com`},
		{"part of a name", "*a.example", base + `"*a.example": a * may only be the whole first part, as in *.example.com`},
		{"a port that is none", "example.com:0", base + `"example.com:0": "0" is no port; wanted 1 to 65535`},
		{"a port too high", "example.com:65536", base + `"example.com:65536": "65536" is no port; wanted 1 to 65535`},
		{"a signed port", "example.com:+80", base + `"example.com:+80": "+80" is no port; wanted 1 to 65535`},
		{"no port after the colon", "example.com:", base + `"example.com:": "" is no port; wanted 1 to 65535`},
		{"the whole machine", "localhost", base + `"localhost": localhost is this machine: name one port, as in localhost:8080`},
		{"every port of the machine", "host.airlock:*", base + `"host.airlock:*": host.airlock is this machine: name one port, as in host.airlock:8080`},
		{"IPv6 and a port without brackets", "2001:db8::1:*", base + `"2001:db8::1:*": this is no IPv6 address; one with a port is written [2001:db8::1]:443`},
		{"a bracket left open", "[2001:db8::1", base + `"[2001:db8::1": the bracket is not closed`},
		{"a name in brackets", "[example.com]", base + `"[example.com]": brackets are for IPv6 addresses, as in [2001:db8::1]:443`},
		{"a range half in brackets", "[2001:db8::]/32", base + `"[2001:db8::]/32": "/32" follows the bracket; wanted :PORT (a range goes inside: [2001:db8::/32]:443)`},
		{"a range that begins elsewhere", "10.0.0.1/8", base + `"10.0.0.1/8": the range begins at 10.0.0.0: write 10.0.0.0/8`},
		{"a range too long", "10.0.0.0/33", base + `"10.0.0.0/33": this is no range of addresses; wanted one as in 10.0.0.0/8`},
		{"a path", "example.com/x", base + `"example.com/x": this is no range of addresses; wanted one as in 10.0.0.0/8`},
		{"a zone", "fe80::1%eth0", base + `"fe80::1%eth0": an address with a zone cannot be let out`},
		{"an octal address", "0177.0.0.1", base + `"0177.0.0.1": "0177.0.0.1" is a number: write an address as four decimal numbers`},
		{"a short address", "127.1", base + `"127.1": "127.1" is a number: write an address as four decimal numbers`},
		{"a hexadecimal address", "0x7f.1", base + `"0x7f.1": "0x7f.1" is a number: write an address as four decimal numbers`},
		{"one number", "2130706433", base + `"2130706433": "2130706433" is a number: write an address as four decimal numbers`},
		{"two dots", "a..example", base + `"a..example": "a..example" is no name of a host: a part of it is empty`},
		{"a control character", "a\x1b[31m.example", base + `"a\x1b[31m.example": "a\x1b[31m.example" is no name of a host: "\x1b" does not belong there`},
		{"no text", "\xff.example", base + `"\xff.example": the host's name is no text`},
		{"a direction mark", "a\u202e.example", base + `"a\u202e.example": "a\u202e.example" is no name of a host`},
		{"names below an address", "*.10.0.0.1", base + `"*.10.0.0.1": an address has no names below it`},
		{"names below the machine", "*.localhost", base + `"*.localhost": names below localhost are this machine: name the one that is meant`},
		{"a long part", strings.Repeat("a", 64) + ".example", base + `"` + strings.Repeat("a", 64) + `.example": "` + strings.Repeat("a", 64) + `.example" is no name of a host: a part of it has more than 63 bytes`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules, err := netgate.ParseAllow(tc.text)
			if err == nil {
				t.Fatalf("ParseAllow(%q) = %q, want an error", tc.text, rules)
			}
			if err.Error() != tc.want {
				t.Errorf("ParseAllow(%q):\n%v, want\n%s", tc.text, err, tc.want)
			}
		})
	}
	for i, text := range []string{strings.Repeat("a.example,", 10000), manyHosts(257)} {
		if _, err := netgate.ParseAllow(text); err == nil {
			t.Errorf("a list without end was read: %d", i)
		}
	}
	if _, err := netgate.ParseAllow(manyHosts(256)); err != nil {
		t.Errorf("256 hosts: %v", err)
	}
}

func manyHosts(n int) string {
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%d", i)
	}
	return strings.Join(hosts, ",")
}

func FuzzParseAllow(f *testing.F) {
	for _, s := range []string{"example.com", "*.a:*", "[::1]:80,10.0.0.0/8:443", "１.1", "bücher.example:1", "a,,b", "localhost:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := netgate.ParseAllow(text)
		if err != nil {
			return
		}
		if len(rules.String()) > 64<<10 { // names in other letters are longer in ASCII
			return
		}
		again, err := netgate.ParseAllow(rules.String())
		if err != nil || again.String() != rules.String() {
			t.Errorf("%q is %q and then %q, %v", text, rules, again, err)
		}
		plan := netgate.Plan{Allow: rules}
		if err := plan.Check(); err != nil {
			t.Errorf("%q does not pass its own check: %v", text, err)
		}
	})
}

func TestPorts(t *testing.T) {
	for _, tc := range []struct {
		text string
		want netgate.Publish
	}{{"8080", netgate.Publish{Port: 8080, HostPort: 8080}}, {"8080:0", netgate.Publish{Port: 8080}}, {"80:9000", netgate.Publish{Port: 80, HostPort: 9000}}} {
		got, err := netgate.ParsePublish(tc.text)
		if err != nil || got != tc.want || got.String() != tc.text {
			t.Errorf("ParsePublish(%q) = %+v (%s), %v, want %+v", tc.text, got, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "0", "x", "80:", "80:x", "80:1:2", "-1", "65536", "080", "127.0.0.1:80"} {
		if got, err := netgate.ParsePublish(text); err == nil || !strings.Contains(err.Error(), "wanted PORT or PORT:HOSTPORT") {
			t.Errorf("ParsePublish(%q) = %+v, %v, want an error that says what is wanted", text, got, err)
		}
	}
	twice := netgate.Plan{Publish: []netgate.Publish{{Port: 1, HostPort: 5}, {Port: 2, HostPort: 5}}}
	if err := twice.Check(); err == nil {
		t.Error("one port of the machine was published twice")
	}
}
