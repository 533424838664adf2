package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"airlock/internal/changes"
	"airlock/internal/gate"
	"airlock/internal/tool"
)

// finding is what the gate says of letting a change out, and guard where that is stricter.
func (p *Program) finding(ctx context.Context, store *changes.Store, set *changes.Header, c *changes.Change, guard commitGuard) gate.CommitFinding {
	found := p.judged(ctx, store, set, c)
	if guard != nil && found.Verdict == tool.Allow {
		if why := guard(c); why != "" {
			return gate.CommitFinding{CommitPath: found.CommitPath, Verdict: tool.Ask, Rule: "bridge", Why: why}
		}
	}
	return found
}

func (p *Program) judged(ctx context.Context, store *changes.Store, set *changes.Header, c *changes.Change) gate.CommitFinding {
	at := gate.CommitPath{Path: string(c.Path), Kind: string(c.Kind)}
	if c.New != nil {
		at.Type = string(c.New.Type)
	}
	if c.New != nil && c.New.Type == changes.File && c.Blob != "" {
		at.Content = func() (io.ReadCloser, error) { return store.Blob(set.ID, c.Blob) }
	}
	found := p.Gate.JudgeCommit(ctx, []gate.CommitPath{at}, string(set.WorkDir))
	if len(found) == 0 {
		return gate.CommitFinding{Verdict: tool.Allow}
	}
	return found[0]
}

// refuse asks the gate about each path of a commit. What a policy denies is not let out;
// what it wants to be asked about is let out only where a person has named that very path.
// The folders that a named path lies in are named with it.
func (p *Program) refuse(ctx context.Context, store *changes.Store, named []changes.Path, guard commitGuard) func(*changes.Header, *changes.Change) string {
	return func(set *changes.Header, c *changes.Change) string {
		found := p.finding(ctx, store, set, c, guard)
		isNamed := slices.ContainsFunc(named, func(n changes.Path) bool { return n.Below(c.Path) })
		switch {
		case found.Verdict == tool.Allow, found.Verdict == tool.Ask && isNamed:
			return ""
		case found.Verdict == tool.Ask:
			return fmt.Sprintf("%s (rule %s): name it to let it out", found.Why, found.Rule)
		}
		return fmt.Sprintf("%s (rule %s)", found.Why, found.Rule)
	}
}

// named are the paths of a commit that a person has named: those that were typed, and on
// a terminal those that a policy wants to be asked about and the person says yes to.
func (p *Program) named(ctx context.Context, store *changes.Store, id string, typed []changes.Path, quiet bool, guard commitGuard) ([]changes.Path, error) {
	if quiet || !p.interactive() {
		return typed, nil
	}
	set, err := store.Load(id)
	if err != nil {
		return nil, err
	}
	named := slices.Clone(typed)
	var asked []changes.Path
	for i := range set.Changes {
		c := &set.Changes[i]
		chosen := len(typed) == 0 && c.Scope == changes.Work || slices.ContainsFunc(typed, func(t changes.Path) bool { return c.Path.Below(t) && c.Path != t })
		if !chosen || c.Refused != "" {
			continue
		}
		if found := p.finding(ctx, store, &set.Header, c, guard); found.Verdict == tool.Ask {
			if len(asked) == 0 {
				fmt.Fprintf(p.Stderr, "\n%s (rule %s):\n", printable(found.Why), printable(found.Rule))
			}
			fmt.Fprintf(p.Stderr, "  %s\n", printable(string(c.Path)))
			asked = append(asked, c.Path)
		}
	}
	if len(asked) == 0 {
		return named, nil
	}
	answer, err := p.choose(ctx, "Let them out as well? Type yes in full to, n leaves them here ? ", map[string]string{
		"yes": "yes", "n": "no", "no": "no",
	}, "yes lets them out with the rest, n commits the rest without them.")
	switch {
	case errors.Is(err, errNoAnswer):
		return named, nil
	case err != nil:
		return nil, err
	case answer == "yes":
		named = append(named, asked...)
	}
	return named, nil
}
