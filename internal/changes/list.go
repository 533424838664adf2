package changes

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// ListOptions are for List. Nil means the zero value.
type ListOptions struct {
	// All lists every change: of every scope, and without an end.
	All bool

	// Max is how many additions and modifications are listed before the rest is only
	// counted; 0 is 50. Deletions, refusals and conflicts are always listed in full.
	Max int

	// Color is for a terminal. Names are escaped with or without it.
	Color bool
}

const defaultListMax = 50

// List writes the set for a person: a line a change of the work, then what there is
// beside it. A is added, M modified, D deleted and T only mode, owner or time.
//
// Names are the sandbox's choice. What could control a terminal or deceive an eye is
// escaped, and a backslash with it.
func List(w io.Writer, set *Set, opts *ListOptions) error {
	o := ListOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Max <= 0 {
		o.Max = defaultListMax
	}
	l := &lister{out: bufio.NewWriter(w), set: set, opts: &o, paint: paint(o.Color)}
	if len(set.Changes) == 0 {
		fmt.Fprintln(l.out, "Nothing was changed.")
		return l.out.Flush()
	}
	l.section(Work)
	if o.All {
		l.section(Outside)
		l.section(Noise)
	} else {
		l.beside()
	}
	return l.out.Flush()
}

type lister struct {
	out   *bufio.Writer // keeps its first error for Flush
	set   *Set
	opts  *ListOptions
	paint paint
}

// section lists the changes of one scope.
func (l *lister) section(scope Scope) {
	heading := map[Scope]string{
		Outside: "Outside " + escape(string(l.set.WorkDir)) + ", not committed unless named:",
		Noise:   "Noise (caches, /tmp), not committed unless named:",
	}[scope]
	plain, left := 0, 0
	for i := range l.set.Changes {
		c := &l.set.Changes[i]
		if c.Scope != scope {
			continue
		}
		if heading != "" {
			fmt.Fprintln(l.out, heading)
			heading = ""
		}
		if c.Kind != Deleted && c.Refused == "" && c.Conflict == "" && !l.opts.All {
			if plain++; plain > l.opts.Max {
				left++
				continue
			}
		}
		l.line(c)
	}
	if left > 0 {
		fmt.Fprintf(l.out, "  … and %s more, none a deletion\n", count(left, "change"))
	}
}

// beside counts what is not of the work.
func (l *lister) beside() {
	var outside, deleted, noise int
	for i := range l.set.Changes {
		switch c := &l.set.Changes[i]; c.Scope {
		case Work:
		case Noise:
			noise++
		default:
			outside++
			if c.Kind == Deleted {
				deleted++
			}
		}
	}
	var parts []string
	if outside > 0 {
		s := count(outside, "change") + " outside " + escape(string(l.set.WorkDir))
		if deleted > 0 {
			s += " (" + count(deleted, "deletion") + ")"
		}
		parts = append(parts, s)
	}
	if noise > 0 {
		parts = append(parts, fmt.Sprintf("%d of noise (caches, /tmp)", noise))
	}
	if len(parts) == 0 {
		return
	}
	and := "and "
	if l.set.Work == 0 && len(parts) > 0 {
		and = "Nothing in the working folder; "
	}
	fmt.Fprintf(l.out, "%s%s: not committed unless named\n", and, strings.Join(parts, ", "))
}

// line writes one change.
func (l *lister) line(c *Change) {
	mark, color := "?", yellow
	switch c.Kind {
	case Added:
		mark, color = "A", green
	case Modified:
		mark, color = "M", yellow
	case Deleted:
		mark, color = "D", red
	case Metadata:
		mark, color = "T", cyan
	}
	name := escape(displayPath(c.Path, l.set.WorkDir))
	n := c.New
	if n == nil {
		n = c.Old
	}
	if n != nil && n.Type == Dir && name != "/" {
		name += "/"
	}
	if n != nil && n.Type == Symlink {
		name += " -> " + escape(string(n.Target))
	}
	fmt.Fprintf(l.out, "  %s %s", l.paint.in(color, mark), l.paint.in(color, name))
	if d := details(c); len(d) > 0 {
		fmt.Fprintf(l.out, "  (%s)", strings.Join(d, ", "))
	}
	if c.Refused != "" {
		fmt.Fprintf(l.out, "  %s", l.paint.in(red, "refused: "+Printable(c.Refused)))
	}
	if c.Conflict != "" {
		fmt.Fprintf(l.out, "  %s", l.paint.in(red, "conflict: "+Printable(c.Conflict)))
	}
	fmt.Fprintln(l.out)
}

// displayPath is relative to the working folder for what is in it.
func displayPath(p, work Path) string {
	switch {
	case work == "" || work == "/" || !p.Below(work):
		return string(p)
	case p == work:
		return "."
	}
	return string(p[len(work)+1:])
}

// details says what the mark and the name do not.
func details(c *Change) []string {
	var d []string
	n, old := c.New, c.Old
	switch {
	case n == nil:
		return nil
	case n.Type == Fifo || n.Type == Device:
		d = append(d, string(n.Type))
	case n.Type == File && c.Kind != Metadata:
		d = append(d, size(n.Size))
	}
	if old == nil {
		if n.Mode&0o6000 != 0 {
			d = append(d, "mode "+modeText(n.Mode))
		}
		return d
	}
	if old.Type != n.Type {
		return append(d, "was a "+string(old.Type), "mode "+modeText(n.Mode))
	}
	known := len(d)
	if old.Mode != n.Mode && n.Type != Symlink {
		d = append(d, "mode "+octal(old.Mode)+" to "+modeText(n.Mode))
	}
	if old.UID != n.UID || old.GID != n.GID {
		d = append(d, fmt.Sprintf("owner %d:%d to %d:%d", old.UID, old.GID, n.UID, n.GID))
	}
	if !sameXattrs(n, old) {
		d = append(d, "extended attributes")
	}
	if c.Kind == Metadata && len(d) == known {
		d = append(d, "time")
	}
	return d
}

// modeText says in words what runs with another's rights.
func modeText(mode uint32) string {
	s := octal(mode)
	if mode&0o4000 != 0 {
		s += " set-uid"
	}
	if mode&0o2000 != 0 {
		s += " set-gid"
	}
	return s
}
