package planner

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"airlock/internal/action"
)

// between is how much time lies between two drafts, but for one with a new step.
const between = 50 * time.Millisecond

// drafts tells what can be read of an answer while it comes.
type drafts struct {
	watch    func(Progress)
	text     drafter // of the text
	args     drafter // of propose_action's arguments
	tool     string  // that is being called
	thinking bool    // it was said
	told     time.Time
	steps    int  // that were told
	changed  bool // since then
}

func newDrafts(watch func(Progress)) *drafts { return &drafts{watch: watch} }

// add takes a piece of the answer.
func (d *drafts) add(delta Delta) {
	if delta.Thinking && !d.thinking {
		d.thinking = true
		d.watch(Thinking{})
	}
	if delta.Tool != "" {
		d.tool = delta.Tool
	}
	d.changed = d.text.add(delta.Text) || d.changed
	if d.tool == propose {
		d.changed = d.args.add(delta.Args) || d.changed
	}
	if d.changed && (len(d.best().steps) > d.steps || time.Since(d.told) >= between) {
		d.flush()
	}
}

// best is what reads the plan.
func (d *drafts) best() *drafter {
	if d.args.begun() {
		return &d.args
	}
	return &d.text
}

// flush tells what was not told yet.
func (d *drafts) flush() {
	if !d.changed {
		return
	}
	b := d.best()
	d.changed, d.told, d.steps = false, time.Now(), len(b.steps)
	draft := Drafted{Summary: whole(b.summary.b.String()), Steps: slices.Clip(b.steps)}
	if !b.begun() {
		draft.Text = whole(b.text())
	}
	d.watch(draft)
}

// whole leaves out a character at the end that has not come as a whole.
func whole(s string) string {
	for n := 1; n <= min(utf8.UTFMax-1, len(s)); n++ {
		if c := s[len(s)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return s[:len(s)-n]
			}
			break
		}
	}
	return s
}

// The places that a drafter can be at.
const (
	outside = iota // before the object: in prose
	opening        // behind a brace that may begin it
	naming         // in the name behind it
	inside
	after
)

// A drafter reads the beginning of an AiAction, byte by byte: whatever way the text was cut, it
// comes to the same. It takes any text, and looks at each byte once, and at those of a step twice.
type drafter struct {
	in    int
	prose strings.Builder // what is not in an object
	brace int             // where in prose the object may begin

	depth   int
	quoted  bool // in a string
	escaped bool // behind a backslash
	key     bool // a name may come, at depth 1
	name    []byte
	member  string // of the object, whose value is being read
	list    bool   // in the list of steps
	summary unquoter
	step    []byte
	steps   []action.Step
	news    int // how often any of it has changed
}

// begun reports whether an object has begun.
func (d *drafter) begun() bool { return d.in >= inside }

// text is the prose, without what may turn out to be an object.
func (d *drafter) text() string {
	text := d.prose.String()
	if d.in != outside {
		text = text[:d.brace]
	}
	text = strings.TrimLeft(text, "\uFEFF \t\r\n")
	if _, rest, _ := strings.Cut(text, "\n"); strings.HasPrefix(text, "`") && strings.TrimSpace(rest) == "" {
		return "" // a fence that an object may follow
	}
	return text
}

// add reads on, and reports whether there is more to tell.
func (d *drafter) add(text string) bool {
	news, was := d.news, d.in
	for i := range len(text) {
		d.next(text[i])
	}
	return was != d.in || news != d.news
}

func (d *drafter) next(c byte) {
	switch {
	case d.in == inside:
		d.object(c)
		return
	case d.in == after:
		return
	case c == '{':
		d.in, d.brace = opening, d.prose.Len()
	case d.in == opening && c == '"':
		d.in, d.name = naming, d.name[:0]
	case d.in == opening && strings.IndexByte(" \t\r\n", c) < 0:
		d.in = outside
	case d.in == naming && c == '"':
		d.in = outside
		switch string(d.name) {
		case "kind", "summary", "steps":
			d.in, d.depth, d.key = inside, 1, true
			return
		}
	case d.in == naming:
		if d.name = append(d.name, c); len(d.name) > len("summary") {
			d.in = outside
		}
	}
	d.prose.WriteByte(c)
	d.news++
}

// object reads a byte of the object.
func (d *drafter) object(c byte) {
	if d.list && d.depth >= 3 && len(d.step) < action.MaxSize {
		d.step = append(d.step, c)
	}
	switch {
	case d.quoted:
		d.inString(c)
	case c == '"':
		d.quoted = true
		if d.depth == 1 && d.key {
			d.name = d.name[:0]
		} else if d.inSummary() {
			d.summary = unquoter{}
			d.news++
		}
	case c == '{' || c == '[':
		d.depth++
		if d.depth == 2 && c == '[' && d.member == "steps" {
			d.list, d.steps = true, nil
			d.news++
		}
		if d.depth == 3 && c == '{' {
			d.step = append(d.step[:0], c)
		}
	case c == '}' || c == ']':
		d.depth--
		d.closed()
	case d.depth == 1 && c == ':':
		d.key, d.member = false, string(d.name)
	case d.depth == 1 && c == ',':
		d.key = true
	}
}

func (d *drafter) inSummary() bool { return d.depth == 1 && !d.key && d.member == "summary" }

// inString reads a byte of a string.
func (d *drafter) inString(c byte) {
	if !d.escaped && c == '"' {
		d.quoted = false
		return
	}
	switch {
	case d.inSummary():
		d.summary.next(c)
		d.news++
	case d.depth == 1 && d.key && len(d.name) <= len("summary"):
		d.name = append(d.name, c)
	}
	d.escaped = !d.escaped && c == '\\'
}

// closed sees what a bracket has ended.
func (d *drafter) closed() {
	switch {
	case d.depth == 2 && d.list:
		var s action.Step
		if len(d.steps) < action.MaxSteps && json.Unmarshal(d.step, &s) == nil {
			d.steps = append(d.steps, s)
			d.news++
		}
		d.step = d.step[:0]
	case d.depth == 1:
		d.list = false
	case d.depth == 0:
		d.in = after
	}
}

// An unquoter reads what stands in a JSON string.
type unquoter struct {
	b     strings.Builder
	slash bool   // behind a backslash
	hex   []byte // digits behind \u; nil: not there
	high  rune   // the first half of a pair
}

func (u *unquoter) next(c byte) {
	switch {
	case u.b.Len() >= action.MaxSummary:
	case u.hex != nil:
		if u.hex = append(u.hex, c); len(u.hex) == 4 {
			u.unit(string(u.hex))
			u.hex = nil
		}
	case u.slash && c == 'u':
		u.slash, u.hex = false, make([]byte, 0, 4)
	case u.slash:
		u.slash = false
		if i := strings.IndexByte("bfnrt", c); i >= 0 {
			c = "\b\f\n\r\t"[i]
		}
		u.lone()
		u.b.WriteByte(c)
	case c == '\\':
		u.slash = true
	default:
		u.lone()
		u.b.WriteByte(c)
	}
}

// unit takes the four digits of a character or of half of one.
func (u *unquoter) unit(digits string) {
	n, err := strconv.ParseUint(digits, 16, 16)
	r := rune(n)
	switch {
	case err != nil:
		u.put("\uFFFD")
	case u.high != 0 && utf16.DecodeRune(u.high, r) != utf8.RuneError:
		r, u.high = utf16.DecodeRune(u.high, r), 0
		u.b.WriteRune(r)
	case utf16.IsSurrogate(r):
		u.lone()
		u.high = r
	default:
		u.put(string(r))
	}
}

func (u *unquoter) put(s string) {
	u.lone()
	u.b.WriteString(s)
}

// lone writes what stands for half a character without the other half.
func (u *unquoter) lone() {
	if u.high != 0 {
		u.high = 0
		u.b.WriteRune(utf8.RuneError)
	}
}
