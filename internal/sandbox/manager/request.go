package manager

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"airlock/internal/sandbox"
)

const (
	maxName   = 64  // bytes of a label's name, and of a snapshot's and a template's
	maxValue  = 256 // bytes of a label's value
	maxLabels = 64
	maxEnv    = 1 << 20 // bytes of an environment
	maxForks  = 100
)

// ParseLabels reads KEY=VALUE, each as `--label` has it.
func ParseLabels(labels []string) (map[string]string, error) {
	out := make(map[string]string, len(labels))
	for _, l := range labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok {
			return nil, problem("a label is KEY=VALUE, not %q", l)
		}
		if err := checkLabel(k, v); err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

func checkLabel(k, v string) error {
	if !isName(k) {
		return problem("a label's name has 1 to %d characters of A–Z, a–z, 0–9, '.', '_', '/' and '-' and begins with a letter or digit, unlike %q", maxName, k)
	}
	if len(v) > maxValue || !utf8.ValidString(v) || strings.ContainsFunc(v, control) {
		return problem("the value of label %s is text of at most %d bytes without control characters, unlike %q", k, maxValue, v)
	}
	return nil
}

func control(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }

// isName reports whether a word names a label: a slash may be in it.
func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && strings.IndexByte("._-/", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// checkName checks the name of a snapshot or a template, which is that of a folder.
func checkName(what, name string) error {
	if !isName(name) || strings.Contains(name, "/") {
		return problem("a %s's name has 1 to %d characters of A–Z, a–z, 0–9, '.', '_' and '-' and begins with a letter or digit, unlike %q", what, maxName, name)
	}
	return nil
}

// check finds what is wrong with a request by itself.
func (req *Request) check() error {
	if len(req.Labels) > maxLabels {
		return problem("%d labels are more than %d", len(req.Labels), maxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(req.Labels)) {
		if err := checkLabel(k, req.Labels[k]); err != nil {
			return err
		}
	}
	if err := checkEnv(req.Env); err != nil {
		return err
	}
	if req.Image != "" && len(req.Hide)+len(req.Show)+len(req.ReadOnly) > 0 {
		return problem("--hide, --show and --readonly are about the host's files; with an image nothing of them is seen")
	}
	if req.Template != "" && (req.Image != "" || len(req.Hide)+len(req.Show)+len(req.ReadOnly) > 0) {
		return problem("a template says by itself what a sandbox is laid over and what it sees; leave out --image, --hide, --show and --readonly")
	}
	if !slices.Contains([]string{"", "missing", "always", "never"}, req.Pull) {
		return problem("--pull is missing, always or never, not %q", req.Pull)
	}
	if w := req.WorkDir; w != "" && (strings.ContainsRune(w, 0) || req.Image != "" && !path.IsAbs(w) || req.Image == "" && !filepath.IsAbs(w)) {
		return problem("the working folder %q is not an absolute path", w)
	}
	return firstError(req.Limits.check, req.Times.check, req.Net.check)
}

func firstError(checks ...func() error) error {
	for _, c := range checks {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

func checkEnv(env map[string]string) error {
	sum := 0
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return problem("%q is no variable that can be set", k)
		}
		sum += len(k) + len(v) + 2
	}
	if sum > maxEnv {
		return problem("an environment of %d bytes is more than %d", sum, maxEnv)
	}
	return nil
}

func (l *Limits) check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"memory", l.Memory}, {"procs", l.Procs}, {"disk", l.Disk}, {"files", l.Files}, {"output", l.Output}, {"timeout", int64(l.Timeout)},
	} {
		if n.value < 0 {
			return problem("--%s cannot be negative", n.name)
		}
	}
	if !(l.CPUs >= 0 && l.CPUs <= 1<<20) { // NaN too
		return problem("--cpus %v is no number of processors", l.CPUs)
	}
	return nil
}

func (t *Times) check() error {
	for name, then := range map[string]string{"ttl": t.TTLThen, "idle": t.IdleThen} {
		if then != "" && then != sandbox.ThenEnd && then != sandbox.ThenPause {
			return problem("--%s-then is end or pause, not %q", name, then)
		}
	}
	if t.TTL < 0 || t.Idle < 0 {
		return problem("--ttl and --idle cannot be negative")
	}
	return nil
}

func (n *Net) check() error {
	switch n.Mode {
	case "", NetNone:
	case NetAllow:
		if len(n.Allow) == 0 {
			return problem("--net allow= names no host")
		}
	case NetHost:
		if len(n.Publish) > 0 || len(n.Secrets) > 0 {
			return problem("with --net host there is no gate that could publish ports or put in secrets; leave out --publish and --secret")
		}
	default:
		return problem("--net is none, host or allow=HOST[:PORT], not %q", n.Mode)
	}
	if n.Mode != NetAllow && len(n.Allow) > 0 {
		return problem("hosts are let out with --net allow= alone")
	}
	return nil
}
