package bridge

import (
	"context"
	"slices"
)

// lentKey is of what a context carries: the names of those variables that may be handed on to
// an agent in a sandbox, since who calls it there has them as well.
//
// An agent that another one calls runs among that one's files and processes, and could be made
// to tell all that it is given: its script may have been changed there.
type lentKey struct{}

// lend names what an agent in a sandbox hands on to those that it calls.
func lend(ctx context.Context, names []string) context.Context {
	return context.WithValue(ctx, lentKey{}, names)
}

// lent are those of names that may be handed on to an agent in a sandbox, and the others.
func lent(ctx context.Context, names []string) (given, kept []string) {
	may, nested := ctx.Value(lentKey{}).([]string)
	if !nested {
		return names, nil
	}
	for _, name := range names {
		if slices.Contains(may, name) {
			given = append(given, name)
		} else {
			kept = append(kept, name)
		}
	}
	return given, kept
}
