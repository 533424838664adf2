package prompt

import (
	"strconv"
	"strings"
)

// maxListed bounds the candidates that are shown.
const maxListed = 60

// complete completes the text as far as the candidates agree, and lists them where they
// do not.
func (e *editor) complete() {
	if e.opts.Complete == nil {
		e.ok(false)
		return
	}
	text, pos := e.line.string(), e.line.offset()
	candidates := e.opts.Complete(text, pos)
	if len(candidates) == 0 {
		e.ok(false)
		return
	}
	from := min(max(candidates[0].From, 0), pos)
	common := candidates[0].Text
	for _, c := range candidates[1:] {
		common = commonPrefix(common, c.Text)
	}
	if len(candidates) > 1 && !strings.HasPrefix(common, text[from:pos]) {
		common = text[from:pos] // they differ in what is typed already
	}
	if common != text[from:pos] && len(text)-(pos-from)+len(common) <= maxText {
		e.line.save()
		before := []rune(text[:from] + common)
		e.line.text = append(before, e.line.text[e.line.pos:]...)
		e.line.pos = len(before)
		return
	}
	if len(candidates) == 1 {
		e.ok(false)
		return
	}
	e.list(candidates)
}

func commonPrefix(a, b string) string {
	ra, rb := []rune(a), []rune(b)
	n := 0
	for n < len(ra) && n < len(rb) && ra[n] == rb[n] {
		n++
	}
	return string(ra[:n])
}

// list shows the candidates below the text, which is drawn again below them.
func (e *editor) list(candidates []Candidate) {
	width := e.tty.columns()
	var names []string
	longest := 0
	for _, c := range candidates[:min(len(candidates), maxListed)] {
		name := c.Show
		if name == "" {
			name = c.Text
		}
		name = shown(name, width-1)
		names = append(names, name)
		longest = max(longest, columns(name))
	}
	perRow := max(1, (width-1)/(longest+2))
	rows := (len(names) + perRow - 1) / perRow
	var b strings.Builder
	for r := range rows {
		b.WriteString("\r\n")
		for i := r; i < len(names); i += rows {
			b.WriteString(names[i])
			if i+rows < len(names) {
				b.WriteString(strings.Repeat(" ", longest+2-columns(names[i])))
			}
		}
	}
	if more := len(candidates) - len(names); more > 0 {
		b.WriteString("\r\n… and " + strconv.Itoa(more) + " more")
	}
	e.draw()
	e.tty.write(e.drawn.below() + b.String() + "\r\n")
	e.drawn = drawing{}
}
