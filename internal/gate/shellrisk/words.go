package shellrisk

import (
	"bytes"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A field is a word as a program is given it, as far as it can be told.
type field struct {
	Word
	prefix string // how one that is not Known starts
	many   bool   // it may be none or several words
	num    bool   // it is a number: never an option, nor a path
	plain  bool   // none of its words starts with a dash
	glob   bool   // it is a pattern and nothing else: Value is the pattern
	unsafe bool   // in arithmetic it could run a command
}

func literal(s string) field { return field{Word: Word{Value: s, Known: true}} }

// start is the literal text with which the field starts.
func (f *field) start() string {
	if f.Known {
		return f.Value
	}
	return f.prefix
}

// Limits of what a word is expanded to: past them it is not known.
const (
	maxFields = 64      // that its braces make
	maxValue  = 8 << 10 // bytes that variables make
)

// A wordReader makes the fields of one word.
type wordReader struct {
	w      *walker
	sc     *scope
	fr     frame
	fields []field
	cur    field
	buf    []byte
	began  bool // cur is a field, be it an empty one
	single bool // no splitting: an assignment's value, a redirection's target
	quoted bool
	parts  int // of the word
	source string
}

// fields expands words as a command's are.
func (w *walker) fields(words []*syntax.Word, sc *scope, fr frame) []field {
	out := make([]field, 0, len(words)+2)
	for _, word := range words {
		out = w.appendFields(out, word, sc, fr)
	}
	return out
}

func (w *walker) appendFields(out []field, word *syntax.Word, sc *scope, fr frame) []field {
	w.step()
	if len(word.Parts) == 1 {
		if lit, ok := word.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[{~") {
			return append(out, literal(lit.Value))
		}
	}
	if w.posixMode || !hasBrace(word) {
		return append(out, w.expand(word, sc, fr, false)...)
	}
	source := w.source(word)
	if !syntax.SplitBraces(word) {
		return append(out, w.expand(word, sc, fr, false)...)
	}
	lists, ok := braces(word.Parts, 0)
	if !ok {
		return append(out, field{Word: Word{Value: source}, many: true, unsafe: true})
	}
	for _, parts := range lists {
		out = append(out, w.expand(&syntax.Word{Parts: parts}, sc, fr, false)...)
	}
	return out
}

// one expands a word that stays one field.
func (w *walker) one(word *syntax.Word, sc *scope, fr frame) field {
	if word == nil {
		return literal("")
	}
	w.step()
	if len(word.Parts) == 1 {
		if lit, ok := word.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[~") {
			return literal(lit.Value)
		}
	}
	fs := w.expand(word, sc, fr, true)
	if len(fs) != 1 {
		return field{Word: Word{Value: w.source(word)}, many: true, unsafe: true}
	}
	return fs[0]
}

func (w *walker) expand(word *syntax.Word, sc *scope, fr frame, single bool) []field {
	r := wordReader{w: w, sc: sc, fr: fr, single: single, parts: len(word.Parts)}
	r.cur.Known = true
	if word.Pos().IsValid() {
		r.source = w.source(word)
	}
	parts := word.Parts
	if len(parts) > 0 {
		if lit, ok := parts[0].(*syntax.Lit); ok && strings.HasPrefix(lit.Value, "~") {
			rest := r.tilde(lit.Value, len(parts) == 1)
			r.lit(rest)
			parts = parts[1:]
		}
	}
	for _, part := range parts {
		r.part(part)
	}
	r.end()
	return r.fields
}

// tilde reads the name after a ~ at a word's start, and gives what follows it.
func (r *wordReader) tilde(text string, whole bool) (rest string) {
	name, rest, slash := strings.Cut(text[1:], "/")
	if slash {
		rest = "/" + rest
	}
	home := ""
	switch {
	case name == "" && (slash || whole):
		if v, ok := r.sc.lookup("HOME"); ok {
			home = v.start()
			if !v.Known {
				home = ""
			}
		} else {
			home = r.w.home
		}
	case name == "+":
		home = r.sc.cwd
	}
	r.began = true
	if home == "" {
		r.unknown("/", false, false)
		return rest
	}
	r.buf = append(r.buf, home...)
	return rest
}

func (r *wordReader) part(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		if r.quoted {
			r.dblLit(p.Value)
		} else {
			r.lit(p.Value)
		}
	case *syntax.SglQuoted:
		r.began = true
		if !p.Dollar {
			r.buf = append(r.buf, p.Value...)
			return
		}
		text, ok := ansiC(p.Value)
		r.buf = append(r.buf, text...)
		if !ok {
			r.unknown("", false, false)
		}
	case *syntax.DblQuoted:
		r.began = true
		was := r.quoted
		r.quoted = true
		for _, inner := range p.Parts {
			r.part(inner)
		}
		r.quoted = was
	case *syntax.ParamExp:
		r.param(p)
	case *syntax.CmdSubst:
		out := r.w.substitution(p, r.sc, r.fr)
		num := out == printsNumbers
		plain := out != printsText && (r.cur.Known && (len(r.buf) == 0 || r.buf[0] != '-') || r.cur.plain)
		r.unknown("", !r.quoted && !num, num)
		r.plain(plain)
		r.cur.unsafe = r.cur.unsafe || !num
	case *syntax.ArithmExp:
		r.w.arithm(p.X, r.sc, r.fr)
		r.unknown("", false, true)
	case *syntax.ProcSubst:
		r.w.stmts(p.Stmts, r.sc.child(), r.fr.inner())
		r.unknown("/dev/fd/", false, false)
	case *syntax.ExtGlob:
		r.cur.Glob = true
		r.unknown("", false, false)
		r.cur.unsafe = true
	default:
		r.unknown("", true, false)
	}
}

// unknown notes that from here on the field is not known.
func (r *wordReader) unknown(start string, many, num bool) {
	if r.cur.Known {
		r.cur.Known = false
		r.cur.prefix = string(r.buf) + start
		r.cur.num = num && (len(r.buf) == 0 || r.buf[0] != '-')
	} else if !num {
		r.cur.num = false
	}
	r.cur.plain = false // but where the caller knows better
	r.began = true
	r.cur.many = r.cur.many || many && !r.single
}

// plain notes that what came is made of names, or none. A NUL marks where: were there no
// names, a dash behind it would begin the word.
func (r *wordReader) plain(is bool) {
	if r.cur.plain = is; is {
		r.buf = append(r.buf, 0)
	}
}

// lit takes literal text outside of quotes.
func (r *wordReader) lit(text string) {
	if text != "" {
		r.began = true
	}
	if !r.cur.Known && r.cur.num && strings.Trim(text, "0123456789.:,/_") != "" {
		r.cur.num = false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			i++
			if i < len(text) && text[i] != '\n' {
				r.buf = append(r.buf, text[i])
			} else if i == len(text) {
				r.buf = append(r.buf, '\\')
			}
		case '*', '?', '[':
			// A lone [ is a bracket, or the command of that name.
			r.cur.Glob = r.cur.Glob || c != '[' || r.parts > 1 || strings.Contains(text[i:], "]")
			r.buf = append(r.buf, c)
		default:
			r.buf = append(r.buf, c)
		}
	}
}

// dblLit takes literal text between double quotes.
func (r *wordReader) dblLit(text string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\\n", text[i+1]) >= 0 {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		r.buf = append(r.buf, text[i])
	}
}

// end finishes the field.
func (r *wordReader) end() {
	if !r.began {
		if !r.single {
			return
		}
		r.fields = append(r.fields, literal(""))
		return
	}
	f := r.cur
	if f.Known {
		f.Value = string(r.buf)
		if f.Glob && !r.single {
			f.Known, f.glob = false, true
			f.prefix = f.Value[:strings.IndexAny(f.Value, "*?[")]
			f.many = false
		}
	} else {
		f.Value = r.source
		f.plain = f.plain && !bytes.Contains(r.buf, []byte("\x00-"))
	}
	r.fields = append(r.fields, f)
	r.cur, r.buf, r.began = field{Word: Word{Known: true}}, r.buf[:0], false
}

// value takes the value of a variable, which outside of quotes is split.
func (r *wordReader) value(text string) {
	if len(r.buf)+len(text) > maxValue {
		r.unknown("", true, false)
		r.cur.unsafe = true
		return
	}
	if r.quoted || r.single {
		r.began = true
		r.buf = append(r.buf, text...)
		return
	}
	if strings.ContainsAny(text, "*?[") {
		r.cur.Glob = true
	}
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == ' ' || c == '\t' || c == '\n' {
			if r.began {
				r.end()
			}
			continue
		}
		r.began = true
		r.buf = append(r.buf, text[i])
	}
}

// ansiC decodes what stands in $'…'; false where it cannot be told.
func ansiC(text string) (string, bool) {
	if !strings.Contains(text, `\`) {
		return text, true
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		i++
		c := text[i]
		if at := strings.IndexByte(`abeEfnrtv\'"?`, c); at >= 0 {
			out = append(out, "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[at])
			continue
		}
		base, most := 16, 0
		switch {
		case c == 'x':
			most = 2
		case c == 'u':
			most = 4
		case c == 'U':
			most = 8
		case c >= '0' && c <= '7':
			base, most = 8, 3
			i--
		default: // \c and what there is not
			return string(out), false
		}
		end := i + 1
		for end < len(text) && end-i <= most && isDigit(text[end], base) {
			end++
		}
		n, err := strconv.ParseUint(text[i+1:end], base, 32)
		if err != nil || n == 0 {
			return string(out), false
		}
		i = end - 1
		if most > 3 {
			out = append(out, string(rune(n))...)
		} else {
			out = append(out, byte(n))
		}
	}
	return string(out), true
}

func isDigit(c byte, base int) bool {
	if base == 8 {
		return c >= '0' && c <= '7'
	}
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
