// Package lazyregexp is package regexp for package-level variables: an expression is
// compiled when it is first used. A process of airlock starts several times for each
// sandbox, and most of what it is made of is not used in most of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// A Regexp is a regular expression that is compiled when it is first used, and panics
// then if it is none. It is safe for concurrent use.
type Regexp struct{ get func() *regexp.Regexp }

// New makes a Regexp.
func New(expr string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// MatchString is regexp's.
func (r *Regexp) MatchString(s string) bool { return r.get().MatchString(s) }

// FindString is regexp's.
func (r *Regexp) FindString(s string) string { return r.get().FindString(s) }

// FindStringSubmatch is regexp's.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }
