package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"airlock/agent"
	"airlock/internal/changes"
	"airlock/internal/hostview"
	"airlock/internal/sandbox"
	"airlock/internal/tool"
)

// A Place says what sandbox to make.
type Place struct {
	ID       string            // of the sandbox, of sandbox.NewID's form; "": a fresh one
	WorkDir  string            // absolute; its changes are the work
	Env      map[string]string // the whole environment
	Limits   sandbox.Limits
	Hide     []string // hidden beside what is hidden always
	Show     []string // not hidden
	ReadOnly []string

	HostNetwork bool // what runs there reaches what the host reaches

	// Signals that come while the sandbox is being made end that; may be nil.
	Signals <-chan string
}

// A Session is a sandbox that is used for more than one command. Its methods are for
// one goroutine, but for Machine's Client.
type Session struct {
	runner *Runner
	place  Place
	sb     sandbox.Sandbox
	work   string   // the working folder, resolved
	hidden []string // what can never come out of it
}

// Open makes a sandbox. It has to be closed.
func (r *Runner) Open(ctx context.Context, place *Place) (*Session, error) {
	work, err := filepath.EvalSymlinks(place.WorkDir)
	if err != nil {
		return nil, fmt.Errorf("the working folder: %w", err)
	}
	rules := &hostview.Rules{Homes: r.Homes, State: r.State, Settings: r.Settings, WorkDir: work, Hide: place.Hide, Show: place.Show}
	hidden, err := hostview.Hidden(rules)
	if err != nil {
		return nil, err
	}
	sb, err := r.start(ctx, place, &sandbox.Spec{ID: place.ID, WorkDir: work, Hide: hidden, ReadOnly: place.ReadOnly, Limits: place.Limits, HostNetwork: place.HostNetwork})
	if err != nil {
		return nil, err
	}
	guarded, err := hostview.Guarded(rules)
	if err != nil {
		return nil, errors.Join(err, sb.Close())
	}
	return &Session{r, *place, sb, work, append(guarded, hidden...)}, nil
}

// ID is the sandbox's, and that of the set of its changes.
func (s *Session) ID() string { return s.sb.ID() }

// Notes are sentences for the person about the sandbox.
func (s *Session) Notes() []string { return s.sb.Notes() }

// Machine is the sandbox as tools see it.
func (s *Session) Machine() *tool.Machine {
	return &tool.Machine{
		Client: s.sb.Client(), Where: tool.InSandbox, User: s.sb.Identity(), WorkDir: s.work, Env: s.place.Env,
		MaxProcs: s.place.Limits.Procs,
	}
}

// Ended is why the sandbox has ended by itself, after a call in it failed with err: an
// error that is sandbox.ErrOutOfMemory or ErrEnded. It is nil where the sandbox runs.
func (s *Session) Ended(err error) error { return whyEnded(s.sb, err) }

// answerTime is how long a guest agent may take to say that it is there.
const answerTime = 5 * time.Second

// Lost is Ended after a call of which nobody knows whether the sandbox took part in its
// failure: it asks whether the sandbox is there.
func (s *Session) Lost(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if s.sb.Client().Ping(ctx) == nil {
		return nil
	}
	return whyEnded(s.sb, agent.ErrConnectionLost)
}

// Gather reads what the session changed into a set of that header, of which it fills in
// the rest. The sandbox is frozen from then on; only Close may follow.
func (s *Session) Gather(ctx context.Context, header changes.Header) (*changes.Set, error) {
	header.WorkDir = changes.Path(s.work)
	return s.runner.gather(ctx, s.sb, header, s.hidden)
}

// Close ends the sandbox. It may be called twice.
func (s *Session) Close() error {
	if err := s.sb.Close(); err != nil {
		return fmt.Errorf("end the sandbox: %w", err)
	}
	return nil
}
