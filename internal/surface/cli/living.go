package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
	"airlock/internal/sandbox/manager"
)

// LivedOf is what a sandbox's change set depends on.
func LivedOf(i *manager.Info) *executor.Lived {
	l := &executor.Lived{
		ID: i.ID, WorkDir: i.WorkDir, Hidden: i.Hidden, Hide: i.Hide, Show: i.Show, Started: i.Started,
		Command: []string{"airlock", "sandbox"},
	}
	if !i.OverHost() {
		l.Image = i.Image
	}
	for _, k := range sortedKeys(i.Labels) {
		l.Command = append(l.Command, k+"="+i.Labels[k])
	}
	return l
}

// living are the sandboxes that last and live, by their IDs; none where nobody keeps any.
func (p *Program) living(ctx context.Context) (map[string]*manager.Info, error) {
	if p.Sandboxes == nil {
		return nil, nil
	}
	m, err := p.boxes()
	if err != nil {
		return nil, err
	}
	list, err := m.List(ctx, nil)
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	live := make(map[string]*manager.Info, len(list))
	for i := range list {
		live[list[i].ID] = &list[i]
	}
	return live, nil
}

// which is the change set, or the sandbox that lives and will have one, whose ID is or
// begins with arg. The sandbox is nil where none lives.
func (p *Program) which(ctx context.Context, store *changes.Store, arg string) (string, *manager.Info, error) {
	live, blind := p.living(ctx)
	id, err := store.Resolve(arg)
	if err != nil && !errors.Is(err, changes.ErrNotFound) {
		return "", nil, err
	}
	if err != nil {
		id = ""
	}
	if blind != nil {
		return id, nil, p.withoutLooking(store, id, blind)
	}
	for _, other := range sortedKeys(live) {
		if !strings.HasPrefix(other, arg) || other == id {
			continue
		}
		if id != "" {
			return "", nil, fmt.Errorf("%s… is %s or %s: %w", printable(arg), id, other, changes.ErrAmbiguous)
		}
		id = other
	}
	if id == "" {
		return "", nil, err
	}
	if live[id] == nil {
		return id, nil, p.noteEnded(ctx, store, id)
	}
	return id, live[id], nil
}

// withoutLooking is why nothing can be done about a set while nobody knows which sandboxes
// live; nil where it is a run's, which has none.
func (p *Program) withoutLooking(store *changes.Store, id string, blind error) error {
	if id == "" {
		return blind
	}
	set, err := store.Load(id)
	if err == nil && set.Live {
		err = blind
	}
	return err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// noteEnded sees to it that the set of a sandbox that was ended from outside is not taken
// for a living one's.
func (p *Program) noteEnded(ctx context.Context, store *changes.Store, id string) error {
	if p.Sandboxes == nil {
		return nil
	}
	m, err := p.boxes()
	if err != nil {
		return err
	}
	i, err := m.Find(ctx, id)
	if missing, ok := errors.AsType[*manager.NotFound](err); !ok && err != nil || missing == nil && i.Alive() {
		return nil //nolint:nilerr // whatever it is, it has not ended for sure
	}
	return store.Ended(ctx, id)
}

// holding does something about a sandbox that lives, while no other command takes a step
// with it, nor reads or commits its changes.
func (p *Program) holding(ctx context.Context, id, verb string, do func(ctx context.Context, m *manager.Manager, box *manager.Box) error) error {
	m, err := p.boxes()
	if err != nil {
		return err
	}
	err = m.With(ctx, id, verb, func(ctx context.Context, box *manager.Box) error { return do(ctx, m, box) })
	if err == nil {
		return nil
	}
	if _, said := errors.AsType[*codeError](err); said {
		return err
	}
	return fail(commitCode(err), p.explainBox(ctx, explainSet(err)))
}

// gather reads the changes of a sandbox that lives. Where a commit or undo of them was
// interrupted they are what they were then.
func (p *Program) gather(ctx context.Context, store *changes.Store, box *manager.Box) (*changes.Set, error) {
	set, err := p.Runner.Living(ctx, box.Lasting, LivedOf(&box.Info))
	if errors.Is(err, changes.ErrInterrupted) {
		p.say("a commit or undo of %s was interrupted: airlock commit %s finishes it, airlock undo %s takes it back; these are its changes as they were then", box.ID(), box.ID(), box.ID())
		return store.Load(box.ID())
	}
	if err != nil {
		return nil, err
	}
	return set, nil
}

// freshSet is the set of an ID, read anew where its sandbox lives.
func (p *Program) freshSet(ctx context.Context, store *changes.Store, arg string) (set *changes.Set, err error) {
	id, info, err := p.which(ctx, store, arg)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return store.Load(id)
	}
	err = p.holding(ctx, id, "changes", func(ctx context.Context, _ *manager.Manager, box *manager.Box) error {
		set, err = p.gather(ctx, store, box)
		return err
	})
	return set, err
}

// withLiving lists the sandboxes that live beside the sets there are: a set's own header
// says what was read of it last, and one of which nothing was read has no counts: also a copy of one
// that had let something out, which has a set before it is read.
func withLiving(sets []changes.Header, live map[string]*manager.Info) []changes.Header {
	for i := range sets {
		sets[i].Live = live[sets[i].ID] != nil
	}
	for _, id := range sortedKeys(live) {
		i := live[id]
		at := slices.IndexFunc(sets, func(h changes.Header) bool { return h.ID == id })
		if !i.OverHost() || at >= 0 && len(sets[at].Command) > 0 {
			continue
		}
		l := LivedOf(i)
		h := changes.Header{
			ID: id, Created: i.Created, Command: l.Command, WorkDir: changes.Path(l.WorkDir), State: changes.None, Live: true, Started: i.Started,
		}
		if at < 0 {
			sets = append(sets, h)
		} else {
			sets[at] = h
		}
	}
	slices.SortStableFunc(sets, func(a, b changes.Header) int { return b.Created.Compare(a.Created) })
	return sets
}

// endBox ends a sandbox that lives, as airlock sandbox rm does, after what it changed was
// decided on: by wish, or by somebody who is asked where there is a terminal and quiet is
// not set. It says what became of the changes. Where they were to be let out and could not
// be, the sandbox lives on.
func (p *Program) endBox(ctx context.Context, id string, wish decision, quiet bool) (became changes.State, err error) {
	err = p.holding(ctx, id, "rm", func(ctx context.Context, m *manager.Manager, box *manager.Box) error {
		asking := !quiet && p.interactive()
		switch {
		case !box.Info.OverHost() && (wish == commit || wish == keep):
			return fail(exitFailed, fmt.Errorf("sandbox %s: %w", box.ID(), executor.ErrOwnFiles))
		case !box.Info.OverHost(), wish == discard, wish == undecided && !asking:
			became = changes.Discarded
			return p.dropBox(ctx, m, box)
		}
		became, err = p.settleBox(ctx, m, box, wish, asking)
		return err
	})
	return became, err
}

// dropBox ends a sandbox and throws away what it changed.
func (p *Program) dropBox(ctx context.Context, m *manager.Manager, box *manager.Box) error {
	if box.Info.OverHost() {
		store, err := p.open()
		if err != nil {
			return err
		}
		if err := store.Forget(ctx, box.ID(), true); err != nil {
			return err
		}
	}
	return m.Remove(ctx, box.ID())
}

// freeze pauses a sandbox until thaw is called, or until this program ends, however it does, where the sandbox can do that.
func freeze(ctx context.Context, box *manager.Box) (thaw func() error, err error) {
	if h, ok := box.Lasting.(sandbox.Holder); ok {
		return h.Hold(ctx)
	}
	if err := box.Pause(ctx); err != nil {
		return nil, err
	}
	return func() error { return box.Resume(context.WithoutCancel(ctx)) }, nil
}

// settleBox reads what a sandbox changed, decides on it and ends it. It is paused
// meanwhile: what is decided on is all that it did.
func (p *Program) settleBox(ctx context.Context, m *manager.Manager, box *manager.Box, wish decision, asking bool) (became changes.State, err error) {
	store, err := p.open()
	if err != nil {
		return "", err
	}
	if box.Info.State != manager.Paused {
		thaw, pauseErr := freeze(ctx, box)
		if pauseErr != nil {
			return "", pauseErr
		}
		defer func() {
			if err != nil { // also where somebody interrupted the question
				err = errors.Join(err, thaw())
			}
		}()
	}
	set, err := p.gather(ctx, store, box)
	if err != nil {
		return "", err
	}
	if len(set.Changes) == 0 {
		return changes.None, p.dropBox(ctx, m, box)
	}
	choice := p.chooseFor(ctx, store, set, wish, asking)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	row := &decisionRow{By: decidedBy(wish, wish == undecided && asking)}
	became = set.State
	switch choice {
	case commit:
		rep, err := p.commitSet(ctx, store, set.ID, &commitWish{quiet: !asking, row: row})
		if err != nil {
			return "", fmt.Errorf("it was not removed: %w", err)
		}
		became = rep.State
		if asking || rep.State != changes.Committed {
			p.tellCommit(rep, false)
		}
	case discard:
		became = changes.Discarded
		return became, p.dropBox(ctx, m, box)
	case keep:
		if err := p.noteKept(ctx, set.ID, row); err != nil {
			return "", err
		}
		if asking {
			p.say("kept as %s (airlock commit %s lets it out, airlock discard %s throws it away)", set.ID, set.ID, set.ID)
		}
	}
	if err := m.Remove(ctx, box.ID()); err != nil {
		return "", err
	}
	return became, store.Ended(context.WithoutCancel(ctx), set.ID)
}

// chooseFor decides what is to become of a sandbox's changes.
func (p *Program) chooseFor(ctx context.Context, store *changes.Store, set *changes.Set, wish decision, asking bool) decision {
	seen := circumstances{wish: wish, asking: asking, work: set.Work, outside: set.Outside}
	choice := seen.decide()
	if asking && set.Work > 0 {
		if choice == undecided {
			fmt.Fprintf(p.Stderr, "\nChanged in %s by %s:\n", printable(string(set.WorkDir)), set.ID)
		}
		_ = changes.List(p.Stderr, set, &changes.ListOptions{Color: p.color(p.Stderr)}) // standard error may be closed
	}
	if choice == undecided {
		fmt.Fprintln(p.Stderr)
		choice = p.askAbout(ctx, store, set)
	}
	return choice
}

// anewTime bounds how long a sandbox that begins anew may take for that.
const anewTime = 2 * time.Minute

// discardLiving throws away what a sandbox that lives has changed: it begins anew over the
// files as they are.
func (p *Program) discardLiving(ctx context.Context, store *changes.Store, id string) error {
	broken, err := store.Interrupted()
	if err == nil && slices.Contains(broken, id) {
		err = fmt.Errorf("change set %s: %w: commit or undo it again", id, changes.ErrInterrupted)
	}
	if err != nil {
		return err
	}
	return p.holding(ctx, id, "discard", func(ctx context.Context, m *manager.Manager, _ *manager.Box) error {
		return p.recorded(ctx, rowDiscard, id, &decisionRow{}, func() (*decisionResult, error) {
			ctx, cancel := context.WithTimeout(ctx, anewTime)
			defer cancel()
			box, err := m.Discard(ctx, id)
			if err == nil {
				err = box.Release()
			}
			return &decisionResult{State: changes.Discarded}, err
		})
	})
}
