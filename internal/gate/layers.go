package gate

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

//go:embed builtin.yaml
var builtinPolicy []byte

// projectFile is where a project says what is tighter in it.
const projectFile = ".airlock/policy.yaml"

// How often files are looked at for Judge, and how much is remembered. Admit always looks.
const (
	freshFor = 100 * time.Millisecond
	setsMost = 256
)

// layers reads policies, and reads them again when they change.
type layers struct {
	gate    *Gate
	builtin func() *policy

	mu    sync.Mutex
	files map[string]*loaded
	sets  map[string]*current // by working folder
}

// loaded is a file as it was when it was read.
type loaded struct {
	stamp  fs.FileInfo
	policy *policy
	err    error
}

// current is what is in effect in a working folder.
type current struct {
	set    *ruleSet
	stamps []source
	looked time.Time
}

// A source is a policy file, or the place of one.
type source struct {
	layer, path string
	root        string      // of a project's: the folder it must not lead out of
	info        fs.FileInfo // nil: it does not exist
	err         error
	note        string // why it is passed over
}

func (s *source) same(o *source) bool {
	switch {
	case s.path != o.path || (s.info == nil) != (o.info == nil) || (s.err == nil) != (o.err == nil) || s.note != o.note:
		return false
	case s.info == nil:
		return true
	}
	return sameFile(s.info, o.info)
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

func newLayers(g *Gate) (*layers, error) {
	l := &layers{gate: g, files: map[string]*loaded{}, sets: map[string]*current{}}
	if g.opts.Builtin == nil {
		l.builtin = sync.OnceValue(func() *policy {
			p, err := decodePolicy(layerBuiltin, "builtin.yaml", builtinPolicy)
			if err != nil {
				panic(err) // this package's tests hold it against its own tests: a build without it is none
			}
			return p
		})
		return l, nil
	}
	p, err := g.load(layerBuiltin, "builtin.yaml", g.opts.Builtin)
	l.builtin = func() *policy { return p }
	return l, err
}

// load reads a policy and holds it against its own tests.
func (g *Gate) load(layer, file string, text []byte) (*policy, error) {
	p, err := decodePolicy(layer, file, text)
	if err != nil {
		return nil, err
	}
	return p, g.selfTest(p)
}

// current gives what is in effect in a working folder; fresh looks at every file.
func (l *layers) current(workDir string, fresh bool) *ruleSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.gate.opts.Now()
	c := l.sets[workDir]
	if c != nil && !fresh && now.Sub(c.looked) < freshFor && !now.Before(c.looked) {
		return c.set
	}
	sources := l.sources(workDir)
	if c != nil && slices.EqualFunc(c.stamps, sources, func(a, b source) bool { return a.same(&b) }) {
		c.looked = now
		return c.set
	}
	if len(l.sets) >= setsMost {
		clear(l.sets)
		clear(l.files)
	}
	c = &current{set: l.read(sources), stamps: sources, looked: now}
	l.sets[workDir] = c
	return c.set
}

// sources are the files that are in effect in a working folder, those that do not exist too.
func (l *layers) sources(workDir string) []source {
	var out []source
	for _, s := range []source{{layer: layerSystem, path: l.gate.opts.System}, {layer: layerUser, path: l.gate.opts.User}} {
		if s.path == "" {
			continue
		}
		s.info, s.err = os.Stat(s.path)
		if errors.Is(s.err, fs.ErrNotExist) {
			if _, err := os.Lstat(s.path); err != nil {
				s.err = nil
			}
		}
		out = append(out, s)
	}
	if l.gate.opts.NoProject {
		return out
	}
	return append(out, l.projectSources(workDir)...)
}

// projectSources are those of the working folder and of every folder above it, as far as
// the home folder: as each can only tighten, none can be kept from view by another, such
// as by a repository that is made inside one. A file that is neither the person's, the
// superuser's nor of whoever owns the working folder is passed over: anybody could put
// one into /tmp.
func (l *layers) projectSources(workDir string) []source {
	real := l.gate.places.resolve(workDir)
	if real == "" || !filepath.IsAbs(real) {
		return nil
	}
	owners := []int{os.Getuid(), 0}
	if st, err := os.Stat(real); err == nil {
		owners = append(owners, owner(st))
	}
	var out []source
	for dir := real; ; dir = filepath.Dir(dir) {
		s := source{layer: layerProject, path: filepath.Join(dir, projectFile), root: dir}
		st, err := os.Lstat(filepath.Dir(s.path))
		if err == nil {
			if s.info, s.err = os.Stat(s.path); errors.Is(s.err, fs.ErrNotExist) {
				if _, err := os.Lstat(s.path); err != nil && st.Mode()&fs.ModeSymlink == 0 {
					s.err = nil
				}
			}
			switch {
			case s.info == nil && s.err == nil:
			case !slices.Contains(owners, owner(st)):
				s.info, s.err, s.note = nil, nil, s.path+" belongs to another user; it has no effect"
			}
			out = append(out, s)
		}
		if dir == filepath.Dir(dir) || slices.Contains(l.gate.places.homes, dir) {
			return out
		}
	}
}

// read puts sources together. The first that cannot be read is what everything is
// refused for.
func (l *layers) read(sources []source) *ruleSet {
	policies := []*policy{l.builtin()}
	var notes []string
	broken := &ruleSet{policies: []*policy{l.builtin()}}
	for i := range sources {
		s := &sources[i]
		if s.note != "" {
			notes = append(notes, s.note)
		}
		if s.info == nil && s.err == nil {
			continue
		}
		p, err := l.file(s)
		if err != nil {
			if broken.broken == nil {
				broken.broken, broken.layer = loadError(s.path, err), s.layer
			}
			broken.notes = append(broken.notes, loadError(s.path, err).Error())
			continue
		}
		policies = append(policies, p)
	}
	if broken.broken != nil {
		broken.policies = policies
		return broken
	}
	set := newRuleSet(policies)
	set.notes = append(notes, set.notes...)
	return set
}

func loadError(path string, err error) *LoadError {
	if e, ok := errors.AsType[*LoadError](err); ok {
		return e
	}
	return &LoadError{File: show(path), Text: show(err.Error())}
}

// file gives a source's policy, read anew if the file has changed.
func (l *layers) file(s *source) (*policy, error) {
	if f := l.files[s.path]; f != nil && s.info != nil && sameFile(f.stamp, s.info) {
		return f.policy, f.err
	}
	text, info, err := s.content()
	if err != nil {
		return nil, err
	}
	p, err := l.gate.load(s.layer, s.path, text)
	l.files[s.path] = &loaded{info, p, err}
	return p, err
}

// content reads a policy file, if it is one that may be trusted with that.
func (s *source) content() ([]byte, fs.FileInfo, error) {
	f, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, &LoadError{File: s.path, Text: "not a regular file"}
	}
	if s.layer != layerProject {
		if err := s.trusted(st); err != nil {
			return nil, nil, err
		}
	}
	text, err := s.readAll(f)
	return text, st, err
}

// readAll reads a little more than a policy may be, so that one which is larger shows.
func (s *source) readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, maxFile+1))
}

// open opens the file without waiting for anything, such as a pipe's other end. A
// project's cannot lead out of the folder it is about.
func (s *source) open() (*os.File, error) {
	if s.layer != layerProject {
		return os.OpenFile(s.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(projectFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("the project's policy cannot be opened (it must be a file of the project, not a link out of it): %w", err)
	}
	return f, nil
}

// trusted refuses a file that others could have written.
func (s *source) trusted(st fs.FileInfo) error {
	if uid := owner(st); uid > 0 && uid != os.Getuid() {
		return &LoadError{File: s.path, Text: "it belongs to another user; make it yours, or the superuser's"}
	}
	if mode := st.Mode().Perm(); mode&0o022 != 0 && ownersKnown {
		return &LoadError{File: s.path, Text: fmt.Sprintf("others may write to it (mode %#o); chmod go-w %s", mode, s.path)}
	}
	dir := filepath.Dir(s.path)
	if st, err := os.Stat(dir); err == nil && ownersKnown && st.Mode().Perm()&0o022 != 0 && st.Mode()&fs.ModeSticky == 0 {
		return &LoadError{File: s.path, Text: fmt.Sprintf("others may write to its folder (mode %#o); chmod go-w %s", st.Mode().Perm(), dir)}
	}
	return nil
}

// OnlyBuiltin reports whether no policy but the one that is built in is in effect in a
// working folder: what runs in a sandbox is allowed then, because no rule that is built in
// is about sandboxes. It looks whether files exist, and reads none.
func (g *Gate) OnlyBuiltin(workDir string) bool {
	if g.opts.Builtin != nil {
		return false
	}
	return !slices.ContainsFunc(g.layers.sources(workDir), func(s source) bool { return s.info != nil || s.err != nil })
}
