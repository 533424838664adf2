package netgate

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// A refusal is a request that no rule lets out, or that nobody could make.
type refusal struct {
	rule string
	why  string
}

// inject puts the secrets' values where a request for a host has their placeholders, and tells their names. A
// placeholder elsewhere, or for another host, is refused. The body is not looked at: a placeholder in it stays one.
func inject(secrets []Held, r *http.Request, host string) (names []string, refused *refusal) {
	for _, s := range secrets {
		if strings.Contains(r.RequestURI, s.Placeholder) {
			return nil, &refusal{SecretNeedsHeader, "the secret " + s.Name + " can only be put into a header, and this request has it in its address"}
		}
	}
	for name, values := range r.Header {
		for i, value := range values {
			filled, used := fill(secrets, name, value)
			for _, s := range used {
				if !s.isFor(host) {
					return nil, &refusal{NotAllowed, "the secret " + s.Name + " is not for " + host}
				}
				if !slices.Contains(names, s.Name) {
					names = append(names, s.Name)
				}
			}
			values[i] = filled
		}
	}
	slices.Sort(names)
	return names, nil
}

// fill puts values into one header's value.
func fill(secrets []Held, name, value string) (string, []Held) {
	if name == "Authorization" || name == "Proxy-Authorization" {
		scheme, coded, _ := strings.Cut(value, " ")
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(coded)); err == nil && strings.EqualFold(scheme, "basic") {
			filled, used := replace(secrets, string(plain))
			if len(used) > 0 {
				return scheme + " " + base64.StdEncoding.EncodeToString([]byte(filled)), used
			}
		}
	}
	return replace(secrets, value)
}

// replace takes each placeholder once: what a value holds is not looked at.
func replace(secrets []Held, text string) (string, []Held) {
	if !strings.Contains(text, placeholderStart) {
		return text, nil
	}
	var pairs []string
	var used []Held
	for _, s := range secrets {
		if strings.Contains(text, s.Placeholder) {
			pairs = append(pairs, s.Placeholder, string(s.Value))
			used = append(used, s)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text), used
}

// isFor reports whether the secret may go to a host.
func (h Held) isFor(host string) bool {
	return slices.ContainsFunc(h.Hosts, func(pattern string) bool { return hostMatches(pattern, host) })
}

// needsPlain is the first secret for a host, which a tunnel to it could not put in.
func needsPlain(secrets []Held, host string) *refusal {
	for _, s := range secrets {
		if s.isFor(host) {
			return &refusal{SecretNeedsPlainHTTP, "the secret " + s.Name + " is for " + host + ", and can only be put into plain HTTP: ask for http://" + host + " through HTTP_PROXY, not through a tunnel"}
		}
	}
	return nil
}
