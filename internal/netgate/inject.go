package netgate

import (
	"encoding/base64"
	"fmt"
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
	room := maxFilled
	for name, values := range r.Header {
		for i, value := range values {
			filled, used := fill(secrets, name, value, &room)
			if room < 0 {
				return nil, &refusal{BadRequest, fmt.Sprintf("the secrets in the request's headers would take more than %d bytes", maxFilled)}
			}
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

// maxFilled bounds what the values in one request take: a header of placeholders would become one of values, a
// hundred times as long.
const maxFilled = 128 << 10

// fill puts values into one header's value, and takes what they need from room. Where that is not enough it puts in none.
func fill(secrets []Held, name, value string, room *int) (string, []Held) {
	if name == "Authorization" || name == "Proxy-Authorization" {
		scheme, coded, _ := strings.Cut(value, " ")
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(coded)); err == nil && strings.EqualFold(scheme, "basic") {
			filled, used := replace(secrets, string(plain), room)
			if len(used) > 0 {
				return scheme + " " + base64.StdEncoding.EncodeToString([]byte(filled)), used
			}
		}
	}
	return replace(secrets, value, room)
}

// replace takes each placeholder once: what a value holds is not looked at.
func replace(secrets []Held, text string, room *int) (string, []Held) {
	if !strings.Contains(text, placeholderStart) {
		return text, nil
	}
	var pairs []string
	var used []Held
	for _, s := range secrets {
		if n := strings.Count(text, s.Placeholder); n > 0 {
			*room -= n * len(s.Value)
			pairs = append(pairs, s.Placeholder, string(s.Value))
			used = append(used, s)
		}
	}
	if *room < 0 {
		return text, nil
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
