package builtin

import (
	"context"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"airlock/internal/tool"
)

// maxLinks is how many symbolic links a path may lead over, as for the kernel.
const maxLinks = 40

var (
	errLinks  = errors.New("too many levels of symbolic links")
	errHidden = errors.New(absent)
)

// absolute is a path that may be relative to the Machine's working folder. It stays as
// it was written otherwise: a link before ".." leads elsewhere than the words say.
func absolute(m *tool.Machine, name string) string {
	if path.IsAbs(name) || m.WorkDir == "" {
		return name
	}
	return strings.TrimSuffix(m.WorkDir, "/") + "/" + name
}

// seen is the absolute path that a call is about. On the host, and wherever paths are
// hidden, it has every link on the way resolved, and is errHidden if it is one of those.
//
// This holds against who makes the call. It does not hold against another process of the
// machine that puts a link in the way after the look: such a process can read what it
// likes by itself. In a sandbox nothing needs this, because what is hidden is not there.
func seen(ctx context.Context, m *tool.Machine, name string) (string, error) {
	name = absolute(m, name)
	if m.Hidden == nil && m.Where == tool.InSandbox {
		return name, nil
	}
	return followed(ctx, m, name)
}

// followed is an absolute path with every link resolved; errHidden if it is hidden.
func followed(ctx context.Context, m *tool.Machine, name string) (string, error) {
	real, err := resolve(ctx, m, name)
	if err != nil {
		return "", err
	}
	if hidden(m, real) {
		return "", errHidden
	}
	return real, nil
}

// hidden reports whether a resolved path must be shown as absent: one of the Machine's, or
// on the host what a process has in its environment and memory. Those of the agent and
// of who started it hold keys that no command is given.
func hidden(m *tool.Machine, real string) bool {
	return m.Hidden != nil && m.Hidden(real) || m.Where == tool.OnHost && processSecret.MatchString(real)
}

var processSecret = regexp.MustCompile(`^/proc/(kcore|[^/]+/(task/[^/]+/)?(environ|mem))$`)

// resolve is an absolute path with every link resolved, as far as it exists.
func resolve(ctx context.Context, m *tool.Machine, name string) (string, error) {
	at, links := "/", 0
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := m.Client.Stat(ctx, next, false)
		// A ".." behind what is absent leads nowhere.
		if isAbsent(err) && !slices.Contains(rest, "..") {
			return path.Join(next, path.Join(rest...)), nil
		}
		if err != nil {
			return "", err
		}
		if info.Type != "symlink" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", errLinks
		}
		if path.IsAbs(info.Target) {
			at = "/"
		}
		rest = append(strings.Split(info.Target, "/"), rest...)
	}
	return at, nil
}
