package changes

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

const contextLines = 3

// gitMode is the only mode git knows for a node.
func gitMode(n *Node) string {
	switch {
	case n.Type == Symlink:
		return "120000"
	case n.Mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

// gitName quotes a name as git does where it has to be.
func gitName(prefix, name string) string {
	plain := true
	for _, r := range name {
		plain = plain && r != '"' && r != '\\' && r != '\uFFFD' && printable(r)
	}
	name = strings.TrimPrefix(name, "/")
	if plain {
		return prefix + name
	}
	var b strings.Builder
	b.WriteString(`"` + prefix)
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// spaced marks the end of a name that holds spaces, for patch.
func spaced(name string) string {
	if strings.ContainsRune(name, ' ') && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

func (d *differ) head(format string, args ...any) {
	fmt.Fprintln(d.out, d.paint.in(bold, fmt.Sprintf(format, args...)))
}

// modes writes a change of mode, as far as git knows such.
func (d *differ) modes(name string, c *Change) {
	if !tracked(c.New) || gitMode(c.Old) == gitMode(c.New) {
		return
	}
	d.head("diff --git %s %s", gitName("a/", name), gitName("b/", name))
	d.head("old mode %s", gitMode(c.Old))
	d.head("new mode %s", gitMode(c.New))
}

// file writes the diff of one file or link. A side without a node is not there.
func (d *differ) file(name string, old, now *side) {
	a, b := gitName("a/", name), gitName("b/", name)
	d.head("diff --git %s %s", a, b)
	switch {
	case old.node == nil:
		d.head("new file mode %s", gitMode(now.node))
		a = "/dev/null"
	case now.node == nil:
		d.head("deleted file mode %s", gitMode(old.node))
		b = "/dev/null"
	case gitMode(old.node) != gitMode(now.node):
		d.head("old mode %s", gitMode(old.node))
		d.head("new mode %s", gitMode(now.node))
	}
	if old.text == now.text {
		return
	}
	d.head("--- %s", spaced(a))
	d.head("+++ %s", spaced(b))
	for _, h := range hunks(old.text, now.text) {
		d.hunk(&h)
	}
}

// An edit replaces the old lines [from, to) by the new lines [newFrom, newTo).
type edit struct {
	from, to, newFrom, newTo int
}

// A hunk is edits that stand close together, with the lines around them.
type hunk struct {
	old, now []string // all lines of both texts
	edits    []edit
	from, to int // old lines
	newFrom  int
	newTo    int
}

// hunks compares two texts by line.
func hunks(old, now string) []hunk {
	oldLines, newLines := splitLines(old), splitLines(now)
	var out []hunk
	for _, e := range lineEdits(old, now) {
		last := len(out) - 1
		if last < 0 || e.from-out[last].edits[len(out[last].edits)-1].to > 2*contextLines {
			out = append(out, hunk{old: oldLines, now: newLines})
			last++
		}
		out[last].edits = append(out[last].edits, e)
	}
	for i := range out {
		h := &out[i]
		first, last := h.edits[0], h.edits[len(h.edits)-1]
		lead := min(contextLines, first.from)
		trail := min(contextLines, len(oldLines)-last.to)
		h.from, h.newFrom = first.from-lead, first.newFrom-lead
		h.to, h.newTo = last.to+trail, last.newTo+trail
	}
	return out
}

// lineEdits turns byte offsets into line numbers, going through each text once.
func lineEdits(old, now string) []edit {
	var out []edit
	line, at, delta := 0, 0, 0
	for _, e := range udiff.Lines(old, now) {
		line += strings.Count(old[at:e.Start], "\n")
		from, to := line, line+lineCount(old[e.Start:e.End])
		n := lineCount(e.New)
		out = append(out, edit{from, to, from + delta, from + delta + n})
		delta += n - (to - from)
		line, at = to, e.End
	}
	return out
}

func lineCount(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func (d *differ) hunk(h *hunk) {
	fmt.Fprintln(d.out, d.paint.in(cyan, "@@ -"+span(h.from, h.to)+" +"+span(h.newFrom, h.newTo)+" @@"))
	at := h.from
	for _, e := range h.edits {
		d.lines(" ", "", h.old[at:e.from])
		d.lines("-", red, h.old[e.from:e.to])
		d.lines("+", green, h.now[e.newFrom:e.newTo])
		at = e.to
	}
	d.lines(" ", "", h.old[at:h.to])
}

// span is a range of lines in a hunk's head.
func span(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func (d *differ) lines(mark, color string, lines []string) {
	for _, line := range lines {
		text, whole := strings.CutSuffix(line, "\n")
		if d.opts.Terminal {
			text = escapeBut(text, "\t\\")
		}
		if color == "" {
			fmt.Fprintln(d.out, mark+text)
		} else {
			fmt.Fprintln(d.out, d.paint.in(color, mark+text))
		}
		if !whole {
			fmt.Fprintln(d.out, `\ No newline at end of file`)
		}
	}
}
