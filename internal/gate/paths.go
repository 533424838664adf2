package gate

import (
	"errors"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"airlock/internal/hostview"
)

// An opSet is what is done to a file.
type opSet uint8

const (
	opRead opSet = 1 << iota
	opWrite
	opDelete
)

var ops = map[string]opSet{"read": opRead, "write": opWrite, "delete": opDelete}

// A touch is a path of a call.
type touch struct {
	path  string // absolute and resolved; where it is not known, what the line says
	op    opSet
	known bool
	deep  bool // what lies below it is read as well
	exact bool // a write is to it alone, not to what lies below
}

// A pathPattern is a rule's path: absolute, or below what its first component names.
type pathPattern struct {
	root byte     // '/', '~' or '.', or '@' for a set of places
	segs []string // below root; "**" is any number of components
	set  string   // @secrets or @airlock

	at atomic.Pointer[anchors]
}

// parsePath reads a pattern.
func parsePath(s string) (*pathPattern, error) {
	if s == "@secrets" || s == "@airlock" {
		return &pathPattern{root: '@', set: s}, nil
	}
	if strings.ContainsAny(s, "$`[]{}\\") {
		return nil, errors.New(`a pattern knows *, ? and **; variables, brackets and braces are not taken`)
	}
	root, rest, _ := strings.Cut(s, "/")
	p := &pathPattern{root: '/'}
	switch {
	case root == "" && s != "":
	case root == "~" || root == ".":
		p.root = root[0]
	case root == "**":
		rest = s
	default:
		return nil, errors.New("it begins with none of /, ~/ and ./ (which is the working folder), nor with **/ (which is anywhere)")
	}
	for seg := range strings.SplitSeq(rest, "/") {
		switch {
		case seg == "" || seg == ".":
		case seg == "..":
			return nil, errors.New("it must not go up with a .. in it")
		case seg != "**" && strings.Contains(seg, "**"):
			return nil, errors.New("** stands alone between slashes")
		default:
			p.segs = append(p.segs, fold(seg))
		}
	}
	return p, nil
}

// folding says that file names are compared without regard to case.
const folding = runtime.GOOS == "darwin" || runtime.GOOS == "windows"

func fold(s string) string {
	if folding {
		return strings.ToLower(s)
	}
	return s
}

// prefix is how many of the first components are literal.
func (p *pathPattern) prefix() int {
	n := slices.IndexFunc(p.segs, func(s string) bool { return !glob(s).literal() })
	if n < 0 {
		return len(p.segs)
	}
	return n
}

// below compares components with a path that is relative to their root.
//
//	yes    the pattern is the path's
//	maybe  something below the path is the pattern's, as far as its first **
//	no     neither
func below(segs []string, rel string) tri {
	i, star, mark := 0, -1, ""
	for rel != "" {
		comp, rest, _ := strings.Cut(rel, "/")
		switch {
		case i < len(segs) && segs[i] == "**":
			star, mark = i, rel
			i++
		case i < len(segs) && glob(segs[i]).matches(comp):
			i++
			rel = rest
		case star >= 0:
			_, mark, _ = strings.Cut(mark, "/")
			i, rel = star+1, mark
		default:
			return no
		}
	}
	switch {
	case i == len(segs) || i == len(segs)-1 && segs[i] == "**":
		return yes // dir/** is dir as well
	case star >= 0:
		return no
	}
	return maybe
}

// places knows where things are: links, homes, and the sets that policies name.
type places struct {
	homes []string
	state []string
	now   func() time.Time

	imagined bool // of a policy's tests: there are no links
	sets     func() map[string]*placeSet

	era   atomic.Uint64 // counts moments
	since atomic.Int64  // when this one began
	mu    sync.Mutex
	links map[string]string // resolved paths
}

// Resolved paths are remembered for a moment: a verdict looks at the same folders again
// and again. They are advice; whoever opens a path later follows its links then.
const (
	linksFor  = 100 * time.Millisecond
	linksMost = 4096
)

func newPlaces(o *Options) *places {
	p := &places{now: o.Now, links: map[string]string{}, imagined: o.imagined}
	for _, h := range o.Homes {
		p.homes = appendNew(p.homes, filepath.Clean(h), resolveLinks(h))
	}
	for _, file := range []string{o.System, o.User} {
		if file == "" {
			continue
		}
		if dir := filepath.Dir(file); filepath.Base(dir) == "airlock" { // the folder of the settings
			file = dir
		}
		p.state = appendNew(p.state, file, resolveLinks(file))
	}
	for _, dir := range o.State {
		p.state = appendNew(p.state, filepath.Clean(dir), resolveLinks(dir))
	}
	p.sets = sync.OnceValue(func() map[string]*placeSet {
		return map[string]*placeSet{"@secrets": newPlaceSet(secrets(o)), "@airlock": newPlaceSet(p.state)}
	})
	return p
}

func appendNew(list []string, items ...string) []string {
	for _, item := range items {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// secrets are what is hidden from sandboxes, whether it is there or not.
func secrets(o *Options) []string {
	rules := &hostview.Rules{Homes: o.Homes}
	out, _ := hostview.Guarded(rules) // fails for what a person says to show, which is nothing here
	if o.imagined {
		return out
	}
	hidden, _ := hostview.Hidden(rules)
	out = append(out, hidden...)
	for _, p := range o.Private {
		out = append(out, p)
		if real, err := filepath.EvalSymlinks(p); err == nil && real != p {
			out = append(out, real)
		}
	}
	return out
}

// A placeSet answers whether a path is one of a list, lies below one, or holds one.
type placeSet struct{ is, holds map[string]bool }

func newPlaceSet(paths []string) *placeSet {
	s := &placeSet{map[string]bool{}, map[string]bool{}}
	for _, p := range paths {
		s.is[fold(p)] = true
		for dir := path.Dir(p); ; dir = path.Dir(dir) {
			s.holds[fold(dir)] = true
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return s
}

func (s *placeSet) compare(p string) tri {
	for at := p; ; {
		if s.is[at] {
			return yes
		}
		i := strings.LastIndexByte(at, '/')
		if i <= 0 {
			break
		}
		at = at[:i]
	}
	if s.holds[p] {
		return maybe
	}
	return no
}

// visible reports whether something of the set that a shell's first component may stand
// for lies in dir, or below what does.
func (s *placeSet) visible(dir, first string) bool {
	for p := range s.is {
		rel, ok := relative(dir, p)
		comp, _, _ := strings.Cut(rel, "/")
		if ok && comp != "" && first != "" && expands(first, comp) {
			return true
		}
	}
	return false
}

// roots are the folders that a pattern begins in.
func (pl *places) roots(p *pathPattern, workDir string) []string {
	switch p.root {
	case '~':
		return pl.homes
	case '.':
		return appendNew([]string{workDir}, pl.resolve(workDir))
	}
	return []string{"/"}
}

// compare says how a pattern stands to an absolute path, as below does.
func (pl *places) compare(p *pathPattern, name, workDir string) tri {
	name = fold(name)
	if p.root == '@' {
		return pl.sets()[p.set].compare(name)
	}
	best := no
	for _, a := range pl.anchored(p, workDir) {
		if rel, ok := relative(a.prefix, name); ok {
			best = max(best, below(a.segs, rel))
		} else if _, ok := relative(name, a.prefix); ok {
			best = max(best, maybe)
		}
	}
	return best
}

// within reports whether a resolved path is what an allow rule names. A link on the
// pattern's own way leads elsewhere, and is not followed: whoever made it would choose
// what is allowed.
func (pl *places) within(p *pathPattern, name, workDir string) bool {
	name = fold(name)
	if p.root == '@' {
		return pl.sets()[p.set].compare(name) == yes
	}
	for _, root := range pl.roots(p, workDir) {
		if real := pl.resolve(root); real != "" {
			if rel, ok := relative(fold(real), name); ok && below(p.segs, rel) == yes {
				return true
			}
		}
	}
	return false
}

// An anchor is a pattern as it stands in the file system now: below a folder, whose links
// are resolved, or not.
type anchor struct {
	prefix string
	segs   []string
}

// anchors are a pattern's, which hold for a moment and a working folder.
type anchors struct {
	era     uint64
	workDir string
	list    []anchor
}

// anchored gives a pattern's anchors. A pattern whose folder is a link means what that
// leads to, too.
func (pl *places) anchored(p *pathPattern, workDir string) []anchor {
	era := pl.era.Load()
	if at := p.at.Load(); at != nil && at.era == era && at.workDir == workDir {
		return at.list
	}
	at := &anchors{era: era, workDir: workDir}
	n := p.prefix()
	for _, root := range pl.roots(p, workDir) {
		prefix := path.Join(root, path.Join(p.segs[:n]...))
		for _, name := range appendNew([]string{prefix}, pl.resolve(prefix)) {
			if name != "" {
				at.list = append(at.list, anchor{fold(name), p.segs[n:]})
			}
		}
	}
	p.at.Store(at)
	return at.list
}

// relative is name below root.
func relative(root, name string) (string, bool) {
	if root == "/" {
		return strings.TrimPrefix(name, "/"), strings.HasPrefix(name, "/")
	}
	if name == root {
		return "", true
	}
	if strings.HasPrefix(name, root) && name[len(root)] == '/' {
		return name[len(root)+1:], true
	}
	return "", false
}

// look begins a verdict: what is remembered of links is forgotten where it is old.
func (pl *places) look() {
	now := pl.now().UnixNano()
	if since := pl.since.Load(); now-since > int64(linksFor) || now < since {
		pl.forget()
	}
}

// resolve follows the links in the longest part of name that exists, and remembers the
// answer for a moment.
func (pl *places) resolve(name string) string {
	if pl.imagined {
		return path.Clean(name)
	}
	pl.mu.Lock()
	real, ok := pl.links[name]
	pl.mu.Unlock()
	if ok {
		return real
	}
	real = resolveLinks(name)
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.links) < linksMost {
		pl.links[name] = real
	}
	return real
}

// forget makes the next answers fresh.
func (pl *places) forget() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	clear(pl.links)
	pl.since.Store(pl.now().UnixNano())
	pl.era.Add(1)
}
