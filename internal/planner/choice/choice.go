// Package choice finds out which language model is to be asked: by the command line, the
// environment, the settings, the keys that are there, or what answers on this machine. It
// finds the key too, and sees to it that a key goes nowhere but where it belongs.
//
// It asks no model anything, and contacts nothing but model servers on this machine, and
// those only where nobody has said which model to use.
package choice

import (
	"context"
	"io"
	"net"
	"time"

	"airlock/internal/config"
	"airlock/internal/planner"
	"airlock/internal/planner/endpoint"
)

// Options are what the choice is made by. The zero value of a member is nothing said.
type Options struct {
	AI       config.AI
	Settings string              // the file that AI is from, for what a person is told
	Environ  func(string) string // os.Getenv, as a rule; nil: nothing is set

	// Provider, Model and BaseURL are the command line's.
	Provider, Model, BaseURL string

	// Show is given each request in place of sending it. No key is asked for then.
	Show func(endpoint.Shown)

	// Stdin, where it is a terminal, and Stderr are for the key command. Where Stdin is
	// none, the terminal of this process is used, if it has one. Stderr nil discards.
	Stdin  io.Reader
	Stderr io.Writer

	// Dial connects to what is looked for on this machine; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Look is how long is looked for servers on this machine, all in all; 0: 400ms.
	Look time.Duration
}

// Chosen is a model that can be asked, and how it came to be chosen.
type Chosen struct {
	Model planner.Model
	Key   string   // only to be taken out of texts; "" is none
	Notes []string // what the person should know: sentences, without a full stop

	// Why is what decided: "--provider", "AIRLOCK_PROVIDER", "the settings",
	// "OPENAI_API_KEY is set", "found on 127.0.0.1:11434".
	Why string
}

// lookTime is what Options.Look leaves open.
const lookTime = 400 * time.Millisecond

// Choose makes the choice. Its errors name what to set; none holds a key.
func Choose(ctx context.Context, opts *Options) (*Chosen, error) {
	c := &chooser{opts: opts}
	t, err := c.target(ctx)
	if err != nil {
		return nil, err
	}
	key, err := c.key(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := c.needModel(ctx, t); err != nil {
		return nil, err
	}
	model, err := c.make(t, key)
	if err != nil {
		return nil, err
	}
	return &Chosen{Model: model, Key: key, Notes: c.notes, Why: t.why}, nil
}

// A chooser makes one choice.
type chooser struct {
	opts  *Options
	notes []string
}

func (c *chooser) env(name string) string {
	if c.opts.Environ == nil {
		return ""
	}
	return c.opts.Environ(name)
}

func (c *chooser) note(text string) { c.notes = append(c.notes, text) }

// A target is where the model is.
type target struct {
	provider *provider
	baseURL  string
	named    bool // the provider is named beside the address, not guessed from it
	version  string

	model     string
	modelFrom string // who named it, for what a person is told

	keyCommand string
	why        string
	fromEnv    string // the variable of the provider's own that the address is from; "" is none
	away       bool   // it is on this machine, but what it is sent goes further
	found      bool   // nobody named it
}

// target settles all but the key and a model that nobody named.
func (c *chooser) target(ctx context.Context) (*target, error) {
	levels, err := c.levels()
	if err != nil {
		return nil, err
	}
	t := &target{}
	for i := range levels {
		c.merge(t, &levels[i])
	}
	if t.provider != nil {
		return t, c.place(t)
	}
	if c.byKey(t) {
		return t, nil
	}
	return t, c.find(ctx, t)
}
