package netgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ProxyAddress is where the proxy listens inside.
const ProxyAddress = "127.0.0.1:3128"

// Bounds of a Plan.
const (
	maxPublish = 64
	maxSecrets = 64
)

// A Plan is what a person asked of a sandbox's network, fit for a record: it holds no secret's value.
// The zero Plan is no network.
type Plan struct {
	Allow   Rules     `json:"allow,omitempty"`
	Publish []Publish `json:"publish,omitempty"`
	Secrets []Secret  `json:"secrets,omitempty"`
}

// A Config is a Plan with the secrets' values: what the gate is started with. It is never written down.
type Config struct {
	Allow   Rules     `json:"allow,omitempty"`
	Publish []Publish `json:"publish,omitempty"`
	Secrets []Held    `json:"secrets,omitempty"`
}

// A Held is a secret in the gate's hands.
type Held struct {
	Name        string   `json:"name"`
	Hosts       []string `json:"hosts"`
	Placeholder string   `json:"placeholder"`
	Value       Value    `json:"value"`
}

// Empty reports whether no gate is needed.
func (p *Plan) Empty() bool {
	return len(p.Allow) == 0 && len(p.Publish) == 0 && len(p.Secrets) == 0
}

// Check says what cannot be.
func (p *Plan) Check() error {
	if err := check(p.Allow, p.Publish); err != nil {
		return err
	}
	if len(p.Secrets) > maxSecrets {
		return fmt.Errorf("%d secrets are named, at most %d can be", len(p.Secrets), maxSecrets)
	}
	for i, secret := range p.Secrets {
		if err := secret.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Secrets[:i], func(s Secret) bool { return s.Name == secret.Name }) {
			return fmt.Errorf("secret %s is named twice", secret.Name)
		}
		if isProxyVariable(secret.Name) {
			return fmt.Errorf("secret %s: the variable names the proxy; choose another name", secret.Name)
		}
		if err := p.checkHosts(secret); err != nil {
			return fmt.Errorf("secret %s: %w", secret.Name, err)
		}
	}
	return nil
}

// Hosts are a secret's own, or those that are let out by one name or address.
func (p *Plan) Hosts(secret Secret) []string {
	if len(secret.Hosts) > 0 {
		return secret.Hosts
	}
	var hosts []string
	for _, rule := range p.Allow {
		if !strings.ContainsAny(rule.Host, "*/") && !slices.Contains(hosts, rule.Host) {
			hosts = append(hosts, rule.Host)
		}
	}
	return hosts
}

// checkHosts refuses hosts where the secret could never be put in.
func (p *Plan) checkHosts(secret Secret) error {
	hosts := p.Hosts(secret)
	if len(hosts) == 0 {
		return errors.New("for no host: name some (NAME=SOURCE@HOST), and let them out (--net allow=HOST:80)")
	}
	for _, host := range hosts {
		out, plain := false, false
		for _, rule := range p.Allow {
			if !rule.lets(host) {
				continue
			}
			out = true
			plain = plain || rule.Port != 443
		}
		switch {
		case !out:
			return fmt.Errorf("%s is not let out: name it in --net allow, too", host)
		case !plain:
			return fmt.Errorf("%s is let out at port 443 alone, where TLS keeps the secret from being put in; let out a port of plain HTTP, or name other hosts with @HOST", host)
		}
	}
	return nil
}

// lets reports whether the rule could let out the host or, of a pattern, one of its hosts.
func (r Rule) lets(host string) bool {
	if prefix, _, ok := parseRange(r.Host); ok {
		addr, single, ok := parseRange(host)
		return ok && single && prefix.Contains(addr.Addr())
	}
	name, wild := strings.CutPrefix(host, "*.")
	return r.matchesName(name) || wild && (r.Host == host || strings.HasSuffix(r.Host, "."+name))
}

// Hold reads the secrets' values, now, and gives each a placeholder. env is Read's.
func (p *Plan) Hold(ctx context.Context, env func(string) (string, bool)) (*Config, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	c := &Config{Allow: p.Allow, Publish: p.Publish}
	for _, secret := range p.Secrets {
		value, err := Read(ctx, secret.Source, env)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", secret.Name, err)
		}
		c.Secrets = append(c.Secrets, Held{Name: secret.Name, Hosts: p.Hosts(secret), Placeholder: NewPlaceholder(), Value: value})
	}
	return c, nil
}

// Check refuses what no Hold makes.
func (c *Config) Check() error {
	if err := check(c.Allow, c.Publish); err != nil {
		return err
	}
	for _, held := range c.Secrets {
		if !isVariable(held.Name) || isProxyVariable(held.Name) || !validPlaceholder(held.Placeholder) || checkValue(string(held.Value)) != nil || len(held.Hosts) == 0 {
			return fmt.Errorf("secret %s: it is not as the gate holds one", quote(held.Name))
		}
		if err := (Secret{Name: held.Name, Source: "env:X", Hosts: held.Hosts}).check(); err != nil {
			return err
		}
	}
	return nil
}

func check(allow Rules, publish []Publish) error {
	for _, rule := range allow {
		if err := rule.check(); err != nil {
			return fmt.Errorf("network: host %s: %w", quote(rule.Host), err)
		}
	}
	if len(publish) > maxPublish {
		return fmt.Errorf("%d ports are published, at most %d can be", len(publish), maxPublish)
	}
	for i, p := range publish {
		if p.Port < 1 || p.Port > 65535 || p.HostPort < 0 || p.HostPort > 65535 {
			return fmt.Errorf("publish %v: ports are 1 to 65535", p)
		}
		if p.HostPort != 0 && slices.ContainsFunc(publish[:i], func(o Publish) bool { return o.HostPort == p.HostPort }) {
			return fmt.Errorf("publish %v: port %d of this machine is taken twice", p, p.HostPort)
		}
	}
	return nil
}

// Env is what the sandbox's commands find in their environment, as "NAME=VALUE". All variables name
// the proxy as an HTTP one: some programs stop at a SOCKS proxy that they have no library for.
func (c *Config) Env() []string {
	var env []string
	if len(c.Allow) > 0 {
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
			env = append(env, name+"=http://"+ProxyAddress)
		}
		const own = "localhost,127.0.0.1,::1"
		env = append(env, "NO_PROXY="+own, "no_proxy="+own, "NODE_USE_ENV_PROXY=1")
	}
	for _, held := range c.Secrets {
		env = append(env, held.Name+"="+held.Placeholder)
	}
	return env
}

// isProxyVariable reports whether Env sets the variable by itself.
func isProxyVariable(name string) bool {
	return name == "NODE_USE_ENV_PROXY" || strings.HasSuffix(strings.ToUpper(name), "_PROXY") &&
		slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}, strings.ToUpper(name))
}
