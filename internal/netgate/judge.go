package netgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Names of the rules that refuse.
const (
	NotAllowed           = "not-allowed"
	PortNotAllowed       = "port-not-allowed"
	PrivateAddress       = "private-address"
	SecretNeedsPlainHTTP = "secret-needs-plain-http"
	SecretNeedsHeader    = "secret-needs-header"
	BadRequest           = "bad-request"
	TooMany              = "too-many"
)

const (
	resolveTimeout = 5 * time.Second
	maxAddrs       = 16 // of a name
)

// A Verdict says whether a host may be connected to. The zero Verdict refuses.
type Verdict struct {
	Allowed bool
	Rule    string // the Rule that lets it out, or the name of the one that refuses
	Why     string // it is refused, or cannot be reached: a sentence without capital and full stop

	// Addrs are the addresses that were judged and may be connected to, the best first. Nobody asks for the name again, so what it leads to
	// later does not matter.
	Addrs []netip.AddrPort

	// Host is the one spelling of the name or address.
	Host string

	// Unreachable is a host that may be connected to by its name, but has no addresses now.
	Unreachable bool
}

// A Judge judges hosts by Rules. It is safe for concurrent use.
type Judge struct {
	rules    Rules
	classes  []class
	resolver Resolver
	own      func() ([]netip.Addr, error)
}

// NewJudge makes a Judge. A nil resolver is the system's, a nil own asks the system for this machine's addresses.
func NewJudge(rules Rules, resolver Resolver, own func() ([]netip.Addr, error)) *Judge {
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	if own == nil {
		own = ownAddresses
	}
	return &Judge{rules: slices.Clone(rules), classes: classes(), resolver: resolver, own: own}
}

// Judge judges a host, a name or an address as it was asked for, and then every address that it leads to.
// It takes at most a few seconds.
func (j *Judge) Judge(ctx context.Context, host string, port int) Verdict {
	if port < 1 || port > 65535 {
		return Verdict{Rule: BadRequest, Why: "ports are 1 to 65535", Host: host}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		name, err := canonicalName(host)
		if err != nil {
			return Verdict{Rule: BadRequest, Why: err.Error(), Host: host}
		}
		if addr, err = netip.ParseAddr(name); err != nil {
			return j.judgeName(ctx, name, port)
		}
	}
	if addr.Zone() != "" {
		return Verdict{Rule: BadRequest, Why: "an address with a zone cannot be asked for", Host: host}
	}
	return j.judgeAddr(addr.Unmap(), port)
}

// AllowsName reports whether a name is let out, whatever it leads to.
func (j *Judge) AllowsName(host string, port int) bool {
	name, err := canonicalName(host)
	return err == nil && j.nameRule(name, port).Allowed
}

func (j *Judge) judgeAddr(addr netip.Addr, port int) Verdict {
	v := Verdict{Host: addr.String(), Addrs: []netip.AddrPort{netip.AddrPortFrom(addr, uint16(port))}}
	class, special, err := j.classOf(addr)
	if err != nil {
		return Verdict{Rule: PrivateAddress, Host: v.Host, Why: "this machine's own addresses could not be read"}
	}
	if rule, ok := j.names(addr, port, class, special); ok {
		v.Allowed, v.Rule = true, rule.String()
		return v
	}
	v.Addrs = nil
	v.Rule, v.Why = NotAllowed, v.Host+" is not let out"
	switch {
	case j.contains(addr) && !special:
		v.Rule, v.Why = PortNotAllowed, fmt.Sprintf("%s is let out, but not its port %d", v.Host, port)
	case special:
		v.Rule, v.Why = PrivateAddress, fmt.Sprintf("%s is %s, and is not named by itself", v.Host, class.what)
	}
	return v
}

// names finds the rule that lets out an address, which has to lie within the class where it is special.
func (j *Judge) names(addr netip.Addr, port int, class class, special bool) (Rule, bool) {
	for _, rule := range j.rules {
		prefix, _, ok := parseRange(rule.Host)
		if ok && prefix.Contains(addr) && rule.covers(port) && (!special || prefix.Bits() >= class.prefix.Bits()) {
			return rule, true
		}
	}
	return Rule{}, false
}

func (j *Judge) contains(addr netip.Addr) bool {
	return slices.ContainsFunc(j.rules, func(rule Rule) bool {
		prefix, _, ok := parseRange(rule.Host)
		return ok && prefix.Contains(addr)
	})
}

// nameRule judges by the name alone.
func (j *Judge) nameRule(name string, port int) Verdict {
	v := Verdict{Host: name, Rule: NotAllowed, Why: name + " is not let out"}
	for _, rule := range j.rules {
		if !rule.matchesName(name) {
			continue
		}
		if rule.covers(port) {
			return Verdict{Host: name, Allowed: true, Rule: rule.String()}
		}
		v.Rule, v.Why = PortNotAllowed, fmt.Sprintf("%s is let out, but not its port %d", name, port)
	}
	if v.Rule == NotAllowed && isLoopbackName(name) {
		v.Rule, v.Why = PrivateAddress, fmt.Sprintf("%s is the machine that the sandbox runs on, and its port %d is not let out", name, port)
	}
	return v
}

func (j *Judge) judgeName(ctx context.Context, name string, port int) Verdict {
	v := j.nameRule(name, port)
	if !v.Allowed {
		return v
	}
	addrs, err := j.lookup(ctx, name)
	if err != nil {
		return Verdict{Host: name, Rule: v.Rule, Unreachable: true, Why: err.Error()}
	}
	var refused Verdict
	for _, addr := range addrs {
		class, special, err := j.classOf(addr)
		if err != nil {
			return Verdict{Host: name, Rule: PrivateAddress, Why: "this machine's own addresses could not be read"}
		}
		if special && !isLoopbackName(name) {
			if _, ok := j.names(addr, port, class, true); !ok {
				refused = Verdict{Host: name, Rule: PrivateAddress, Why: fmt.Sprintf("%s leads to %s, which is %s; where that is meant, %s has to be let out too",
					name, addr, class.what, Rule{Host: addr.String(), Port: port})}
				continue
			}
		}
		v.Addrs = append(v.Addrs, netip.AddrPortFrom(addr, uint16(port)))
	}
	if len(v.Addrs) == 0 {
		return refused
	}
	return v
}

// lookup finds the addresses of a name, at least one.
func (j *Judge) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if isLoopbackName(name) || strings.HasSuffix(name, "."+localhost) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := j.resolver.LookupNetIP(ctx, "ip", name)
	var missing *net.DNSError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the addresses of %s were not found in time", name)
	case errors.As(err, &missing) && missing.IsNotFound:
		return nil, fmt.Errorf("there is no host %s", name)
	case err != nil:
		return nil, fmt.Errorf("the addresses of %s could not be found", name)
	}
	var addrs []netip.Addr
	for _, addr := range found {
		addr = addr.Unmap().WithZone("")
		if addr.IsValid() && !slices.Contains(addrs, addr) && len(addrs) < maxAddrs {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%s has no addresses", name)
	}
	return addrs, nil
}
