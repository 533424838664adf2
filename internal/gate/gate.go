// Package gate gives each call its verdict: deny, ask or allow. Rules come from policies
// in YAML, in layers: built in, of the system, of the user, of the project. What a shell
// line would do is read by shellrisk; an Ask goes to an approver. The gate runs nothing
// and keeps no record, and knows neither front ends nor drivers.
//
// A verdict on a command line is advice: what holds is the sandbox. docs/policy.md says
// what a policy can say.
package gate

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"airlock/internal/tool"
)

// Options are what a gate works with.
type Options struct {
	// System and User are the policy files of the system and of the user; "" is none. A
	// file that does not exist has no rules.
	System, User string

	// Builtin replaces the policy that is built in; nil is that.
	Builtin []byte

	// NoProject leaves out what project folders say. It is for tests of a policy alone.
	NoProject bool

	Homes []string // the person's home folders, absolute; what ~ means
	State []string // folders of Airlock's own, which @airlock names beside the policies' own

	// Private are those of State that sandboxes do not see, and @secrets names as well.
	Private []string

	// Actions says what is known of a tool's action where a policy's test names one; nil,
	// or a nil answer, goes by the names of arguments.
	Actions func(name, action string) *tool.Action

	// HostIdentity is user@host:machine-id: an approval holds for that alone.
	HostIdentity string

	Approver Approver             // nil: nobody is asked, and Ask refuses
	Expiry   time.Duration        // how long an approval may take; 0: DefaultExpiry
	Setting  func() time.Duration // what a person has set for that, asked for with each question; nil, or 0: Expiry
	Now      func() time.Time     // nil: time.Now
	Logger   *slog.Logger         // nil discards

	imagined bool // nothing of the machine is looked at: for a policy's own tests
}

// DefaultExpiry is how long a question waits for its answer.
const DefaultExpiry = 5 * time.Minute

// A Gate is a tool.Guard. It is safe for concurrent use.
type Gate struct {
	opts   Options
	places *places
	layers *layers
}

var _ tool.Guard = (*Gate)(nil)

// New gives a gate. Policies are read when the first verdict is asked for, and again when
// they have changed; one that cannot be read denies everything. The error is about opts
// or the policy that is built in.
func New(opts *Options) (*Gate, error) {
	g := &Gate{}
	if opts != nil {
		g.opts = *opts
	}
	for _, p := range append(append([]string{g.opts.System, g.opts.User}, g.opts.Homes...), g.opts.State...) {
		if p != "" && !filepath.IsAbs(p) {
			return nil, errors.New("a gate wants absolute paths, and was given " + p)
		}
	}
	if g.opts.Now == nil {
		g.opts.Now = time.Now
	}
	if g.opts.Expiry <= 0 {
		g.opts.Expiry = DefaultExpiry
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	g.places = newPlaces(&g.opts)
	var err error
	g.layers, err = newLayers(g)
	return g, err
}

// expiry is how long the next question may wait.
func (g *Gate) expiry() time.Duration {
	if g.opts.Setting != nil {
		if d := g.opts.Setting(); d > 0 {
			return d
		}
	}
	return g.opts.Expiry
}

// Judge gives the verdict and asks nobody. A policy that was changed within the last
// tenth of a second may not be seen yet.
func (g *Gate) Judge(_ context.Context, q *tool.Question) tool.Judgement {
	g.places.look()
	return g.judge(q, g.layers.current(q.WorkDir, false))
}
