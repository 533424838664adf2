package netgate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Rule's Port where it is no port.
const (
	WebPorts = 0  // 80 and 443
	AnyPort  = -1 // every port
)

// Bounds of what ParseAllow reads.
const (
	maxAllow = 64 << 10 // bytes
	maxRules = 256
)

// The names of the host's loopback that a Rule with a port may have.
const (
	localhost   = "localhost"
	hostAirlock = "host.airlock"
)

// A Rule lets out one host, or those of a pattern. The zero Rule lets out nothing.
type Rule struct {
	// Host is a name in ASCII and lower case, "*." and a name, an address, a range as in
	// "10.0.0.0/8", or "localhost" or "host.airlock" with a port: the host's own loopback.
	Host string `json:"host"`
	// Port is a port, WebPorts or AnyPort.
	Port int `json:"port,omitempty"`
}

// Rules are what is let out. Nil lets out nothing.
type Rules []Rule

// ParseAllow reads "HOST[:PORT],…", what follows "--net allow=". Equal entries count once.
func ParseAllow(text string) (Rules, error) {
	if len(text) > maxAllow {
		return nil, fmt.Errorf("network: the list of hosts has %d bytes, at most %d are read", len(text), maxAllow)
	}
	var rules Rules
	at := 1
	for entry := range strings.SplitSeq(text, ",") {
		rule, err := parseRule(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("network: host %d at character %d, %s: %w", strings.Count(text[:at-1], ",")+1, at, quote(entry), err)
		}
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
		if len(rules) > maxRules { // at once: to look for each in all takes seconds where there are many
			return nil, fmt.Errorf("network: more than %d hosts are named", maxRules)
		}
		at += len(entry) + 1
	}
	return rules, nil
}

// String is what ParseAllow reads as the same Rules.
func (r Rules) String() string {
	texts := make([]string, len(r))
	for i, rule := range r {
		texts[i] = rule.String()
	}
	return strings.Join(texts, ",")
}

// String is what ParseAllow reads as the same Rule.
func (r Rule) String() string {
	host := r.Host
	if r.Port == WebPorts {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.Port == AnyPort {
		return host + ":*"
	}
	return host + ":" + strconv.Itoa(r.Port)
}

func parseRule(entry string) (Rule, error) {
	if entry == "" {
		return Rule{}, errors.New("nothing is named; wanted HOST or HOST:PORT")
	}
	if strings.Contains(entry, "://") {
		return Rule{}, errors.New("this is a URL; wanted HOST or HOST:PORT alone")
	}
	host, port, err := splitRule(entry)
	if err != nil {
		return Rule{}, err
	}
	rule := Rule{Port: WebPorts}
	if rule.Host, err = ruleHost(host); err != nil {
		return Rule{}, err
	}
	if port != "" {
		if rule.Port, err = rulePort(port[1:]); err != nil {
			return Rule{}, err
		}
	}
	return rule, rule.check()
}

// check refuses what no text makes: a Rule may come out of a record.
func (r Rule) check() error {
	host, err := ruleHost(r.Host)
	switch {
	case err != nil:
		return err
	case host != r.Host:
		return fmt.Errorf("%s is spelled %s", quote(r.Host), quote(host))
	case r.Port < AnyPort || r.Port > 65535:
		return fmt.Errorf("there is no port %d; wanted 1 to 65535", r.Port)
	case isLoopbackName(host) && r.Port <= 0:
		return fmt.Errorf("%s is this machine: name one port, as in %s:8080", host, host)
	}
	return nil
}

// splitRule cuts an entry into its host and, with the colon, its port.
func splitRule(entry string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(entry, "["); ok {
		host, port, ok = strings.Cut(rest, "]")
		switch {
		case !ok:
			return "", "", errors.New("the bracket is not closed")
		case !strings.Contains(host, ":"):
			return "", "", errors.New("brackets are for IPv6 addresses, as in [2001:db8::1]:443")
		case port != "" && port[0] != ':':
			return "", "", fmt.Errorf("%s follows the bracket; wanted :PORT (a range goes inside: [2001:db8::/32]:443)", quote(port))
		}
		return host, port, nil
	}
	colons := strings.Count(entry, ":")
	if colons < 2 {
		if at := strings.IndexByte(entry, ':'); at >= 0 {
			return entry[:at], entry[at:], nil
		}
		return entry, "", nil
	}
	if _, _, ok := parseRange(entry); !ok {
		return "", "", errors.New("this is no IPv6 address; one with a port is written [2001:db8::1]:443")
	}
	return entry, "", nil
}

// ruleHost is the one spelling of a rule's host.
func ruleHost(host string) (string, error) {
	if prefix, single, ok := parseRange(host); ok {
		return rangeHost(host, prefix, single)
	}
	if strings.ContainsAny(host, "/") {
		return "", errors.New("this is no range of addresses; wanted one as in 10.0.0.0/8")
	}
	name, wild := strings.CutPrefix(host, "*.")
	switch {
	case host == "*":
		return "", errors.New("every host cannot be named (--net host is the host's network whole); wanted a name, *.NAME or an address")
	case strings.Contains(name, "*"):
		return "", errors.New("a * may only be the whole first part, as in *.example.com")
	}
	name, err := canonicalName(name)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(name); err == nil { // an address in other characters
		if wild {
			return "", errors.New("an address has no names below it")
		}
		return name, nil
	}
	if !wild {
		return name, nil
	}
	if name == localhost || name == hostAirlock || strings.HasSuffix(name, "."+localhost) {
		return "", fmt.Errorf("names below %s are this machine: name the one that is meant", name)
	}
	return "*." + name, nil
}

// parseRange reads an address or a range. An address is a range of one.
func parseRange(host string) (prefix netip.Prefix, single, ok bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr.WithZone(""), addr.BitLen()), true, true
	}
	prefix, err := netip.ParsePrefix(host)
	return prefix, false, err == nil
}

func rangeHost(host string, prefix netip.Prefix, single bool) (string, error) {
	switch {
	case strings.Contains(host, "%"):
		return "", errors.New("an address with a zone cannot be let out")
	case single:
		return prefix.Addr().String(), nil
	case prefix.Addr().Is4In6():
		return "", errors.New("write a range of IPv4 addresses as one, as in 10.0.0.0/8")
	case prefix != prefix.Masked():
		return "", fmt.Errorf("the range begins at %s: write %s", prefix.Masked().Addr(), prefix.Masked())
	case prefix.IsSingleIP():
		return prefix.Addr().String(), nil
	}
	return prefix.String(), nil
}

func rulePort(text string) (int, error) {
	if text == "*" {
		return AnyPort, nil
	}
	return parsePort(text, 1)
}

// parsePort reads a port from least on, in plain digits.
func parsePort(text string, least int) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(port) < least || strconv.FormatUint(port, 10) != text {
		return 0, fmt.Errorf("%s is no port; wanted %d to 65535", quote(text), least)
	}
	return int(port), nil
}

// covers reports whether the rule is for a port.
func (r Rule) covers(port int) bool {
	switch r.Port {
	case AnyPort:
		return true
	case WebPorts:
		return port == 80 || port == 443
	}
	return r.Port == port
}

// isRange reports whether the rule is for addresses.
func (r Rule) isRange() bool {
	_, _, ok := parseRange(r.Host)
	return ok
}

// matchesName reports whether the rule is for a canonical name.
func (r Rule) matchesName(name string) bool { return hostMatches(r.Host, name) }

// hostMatches reports whether a canonical name is the pattern's. The two names of the host's loopback are one, which no
// pattern but these names has: nobody who writes *.airlock means this machine.
func hostMatches(pattern, name string) bool {
	if isLoopbackName(name) {
		return isLoopbackName(pattern)
	}
	if below, wild := strings.CutPrefix(pattern, "*"); wild {
		return len(name) > len(below) && strings.HasSuffix(name, below)
	}
	return pattern == name
}

func isLoopbackName(name string) bool { return name == localhost || name == hostAirlock }

// quote is text from outside, short and on one line.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "…"
	}
	return strconv.QuoteToASCII(text)
}
