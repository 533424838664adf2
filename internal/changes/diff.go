package changes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// DiffOptions are for Diff. Nil means the zero value.
type DiffOptions struct {
	// HostRoot is the folder the sandbox was laid over; "" is "/".
	HostRoot string

	// Paths selects changes at or below these paths, whatever their scope; none selects
	// those of scope Work.
	Paths []Path

	// Terminal escapes what a file's content could control a terminal with. Without it,
	// contents are written byte for byte, for programs. Color implies it.
	Terminal bool
	Color    bool

	// MaxFile is the size up to which a file is compared line by line; 0 is 1 MiB. Of
	// larger ones size and digest are given.
	MaxFile int64
}

const (
	defaultMaxFile = 1 << 20
	binaryProbe    = 8000 // as git has it
)

// Diff writes the set's changes as a unified diff in git's form, with names relative to
// the working folder: "git apply" and "patch -p1" take it there. What a diff cannot
// say (folders, binary files, owners) stands in lines that begin with "#", which both
// leave out.
//
// Old contents are the host's, if it still has what the sandbox saw, or what a commit
// kept of it; where neither is so, a "#" line says it.
func Diff(ctx context.Context, w io.Writer, store *Store, set *Set, opts *DiffOptions) error {
	o := DiffOptions{}
	if opts != nil {
		o = *opts
	}
	if o.HostRoot == "" {
		o.HostRoot = "/"
	}
	if o.MaxFile <= 0 {
		o.MaxFile = defaultMaxFile
	}
	o.Terminal = o.Terminal || o.Color
	if set.State == Discarded {
		return fmt.Errorf("diff of change set %s: its contents were discarded: %w", set.ID, ErrState)
	}
	old, err := newOldContents(store, set.ID, o.HostRoot)
	if err != nil {
		return fmt.Errorf("diff of change set %s: %w", set.ID, err)
	}
	defer old.close()
	d := &differ{out: bufio.NewWriter(w), store: store, set: set, opts: &o, old: old, paint: paint(o.Color)}
	for i := range set.Changes {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		c := &set.Changes[i]
		if !d.selected(c) {
			continue
		}
		if err := d.one(c); err != nil {
			return fmt.Errorf("diff of %s: %w", shown(c.Path), err)
		}
	}
	return d.out.Flush()
}

type differ struct {
	out   *bufio.Writer
	store *Store
	set   *Set
	opts  *DiffOptions
	old   *oldContents
	paint paint
}

func (d *differ) selected(c *Change) bool {
	if len(d.opts.Paths) == 0 {
		return c.Scope == Work
	}
	return slices.ContainsFunc(d.opts.Paths, c.Path.Below)
}

// A side is what one half of a diff shows of a path.
type side struct {
	node *Node
	text string
	// why is the reason for which the text is not there: "binary" and such.
	why string
}

// one writes one change.
func (d *differ) one(c *Change) error {
	name := displayPath(c.Path, d.set.WorkDir)
	old, now := side{node: c.Old}, side{node: c.New}
	var err error
	if c.Refused != "" {
		d.remark(name, "refused: "+c.Refused)
	}
	if c.Conflict != "" {
		d.remark(name, "conflict: "+c.Conflict)
	}
	for _, text := range d.remarks(c) {
		d.remark(name, text)
	}
	if c.Kind == Metadata {
		d.modes(name, c)
		return nil
	}
	if old.text, old.why, err = d.oldText(c); err != nil {
		return err
	}
	if now.text, now.why, err = d.newText(c); err != nil {
		return err
	}
	if old.why != "" || now.why != "" {
		d.remark(name, d.summary(&old, &now))
		return nil
	}
	// Git knows no change of type, and patch none of a link's target: something goes and
	// something else comes.
	if c.Old != nil && c.New != nil && c.Old.Type == File && c.New.Type == File {
		d.file(name, &old, &now)
		return nil
	}
	if tracked(c.Old) {
		d.file(name, &old, &side{})
	}
	if tracked(c.New) {
		d.file(name, &side{}, &now)
	}
	return nil
}

// tracked reports whether git has the like.
func tracked(n *Node) bool { return n != nil && (n.Type == File || n.Type == Symlink) }

// remarks are what the diff itself has no words for.
func (d *differ) remarks(c *Change) []string {
	var out []string
	say := func(n *Node, what string) {
		if n != nil && !tracked(n) {
			out = append(out, what+" "+string(n.Type))
		}
	}
	if c.Kind != Metadata {
		say(c.Old, "deleted")
		say(c.New, "new")
	}
	if c.HardLink != "" {
		out = append(out, "the same file as "+displayPath(c.HardLink, d.set.WorkDir))
	}
	n, old := c.New, c.Old
	switch {
	case n == nil:
	case old == nil || old.Type != n.Type:
		if n.Type != Symlink && n.Type != Dir && octal(n.Mode) != gitMode(n)[2:] && n.Mode != 0o644 && n.Mode != 0o755 {
			out = append(out, "mode "+modeText(n.Mode))
		}
	default:
		for _, s := range details(c) {
			if c.Kind == Metadata || !strings.HasSuffix(s, "B") {
				out = append(out, s)
			}
		}
	}
	return out
}

func (d *differ) remark(name, text string) {
	if d.opts.Terminal {
		text = Printable(text)
	}
	text = strings.NewReplacer("\n", " ", "\r", " ").Replace(text)
	fmt.Fprintln(d.out, d.paint.in(cyan, "# "+escape(name)+": "+text))
}

// summary describes what is not shown line by line.
func (d *differ) summary(old, now *side) string {
	half := func(s *side) string {
		if s.node == nil || s.node.Type != File {
			return ""
		}
		text := size(s.node.Size)
		if s.node.SHA256 != "" {
			text += " sha256:" + s.node.SHA256
		}
		return text
	}
	why := now.why
	if why == "" || old.why == oldChanged {
		why = old.why
	}
	switch a, b := half(old), half(now); {
	case a == "":
		return why + ", new: " + b
	case b == "":
		return why + ", deleted: " + a
	default:
		return why + ", " + a + " to " + b
	}
}

const oldChanged = "the host's file is not what the sandbox saw any more"

// oldText is the old content of a file or the old target of a link.
func (d *differ) oldText(c *Change) (text, why string, err error) {
	n := c.Old
	switch {
	case n == nil || !tracked(n):
		return "", "", nil
	case n.Type == Symlink:
		return string(n.Target), "", nil
	case n.Size > d.opts.MaxFile:
		return "", "large file", nil
	}
	data, err := d.old.read(c, d.opts.MaxFile)
	if errors.Is(err, errOldChanged) {
		return "", oldChanged, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", "the host's file cannot be read", nil
	}
	return string(data), whyNot(data), err
}

func (d *differ) newText(c *Change) (text, why string, err error) {
	n := c.New
	switch {
	case n == nil || !tracked(n):
		return "", "", nil
	case n.Type == Symlink:
		return string(n.Target), "", nil
	case n.Size > d.opts.MaxFile:
		return "", "large file", nil
	case c.Blob == "":
		return "", "content not kept", nil
	}
	f, err := d.store.Blob(d.set.ID, c.Blob)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	data, err := readAtMost(f, d.opts.MaxFile)
	if err != nil {
		return "", "", err
	}
	return string(data), whyNot(data), nil
}

func readAtMost(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errors.New("larger than it was")
	}
	return data, err
}

// whyNot says why data is not shown as lines; "" where it is.
func whyNot(data []byte) string {
	if bytes.IndexByte(data[:min(len(data), binaryProbe)], 0) >= 0 || !utf8.Valid(data) {
		return "binary file"
	}
	return ""
}
