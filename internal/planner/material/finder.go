package material

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"sort"
	"strings"

	"airlock/internal/redact"
)

// A finder finds known values in one pass, the longest where several begin at one place.
type finder struct {
	// keys are what a value, in each form, begins with, sorted: all of it, or keyLen bytes.
	keys []key
	// may says by the hash of four bytes whether a key begins with them.
	may []uint64
}

// A key is at most keyLen bytes that a value begins with.
type key struct {
	text string
	rule string
	up   int      // the longest other key that this one begins with; -1: none
	rest []string // what follows in longer values; as much as agrees is taken out
}

const (
	keyLen   = 64
	leastKey = 4
	mayBits  = 18
)

func hashOf(s string) uint32 {
	v := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
	return v * 2654435761 >> (32 - mayBits)
}

// spans tells where known values stand, in order.
func (f *finder) spans(s string) []redact.Span {
	if len(f.keys) == 0 {
		return nil
	}
	var out []redact.Span
	for i := 0; i+leastKey <= len(s); {
		h := hashOf(s[i:])
		if f.may[h/64]&(1<<(h%64)) == 0 {
			i++
			continue
		}
		k, n := f.at(s[i:])
		if n == 0 {
			i++
			continue
		}
		out = append(out, redact.Span{Start: i, End: i + n, Rule: k.rule})
		i += n
	}
	return out
}

// at finds the longest value that s begins with.
func (f *finder) at(s string) (*key, int) {
	head := s[:min(len(s), keyLen)]
	// Each key that head begins with, begins the last key up to head in order.
	i := sort.Search(len(f.keys), func(i int) bool { return f.keys[i].text > head }) - 1
	for i >= 0 {
		k := &f.keys[i]
		if strings.HasPrefix(head, k.text) {
			n := 0
			for _, rest := range k.rest {
				n = max(n, agree(rest, s[len(k.text):]))
			}
			return k, len(k.text) + n
		}
		i = k.up
	}
	return nil, 0
}

// agree is how many bytes a and b have in common from their beginning.
func agree(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// A finderBuilder collects what is to be found.
type finderBuilder struct {
	values map[string]bool
	forms  map[string]string // of all values: the rule that they go by
}

// add takes a value in all its forms.
func (b *finderBuilder) add(value, rule string) {
	if len(value) < shortest || len(b.values) >= maxKnown || b.values[value] {
		return
	}
	if b.values == nil {
		b.values, b.forms = map[string]bool{}, map[string]string{}
	}
	b.values[value] = true
	value = value[:min(len(value), maxKnownSize)]
	for _, form := range formsOf(value) {
		if _, has := b.forms[form]; !has && len(form) >= shortest {
			b.forms[form] = rule
		}
	}
}

func (b *finderBuilder) build() *finder {
	f := &finder{}
	at := map[string]int{}
	for form, rule := range b.forms {
		head := form[:min(len(form), keyLen)]
		i, has := at[head]
		if !has {
			i = len(f.keys)
			at[head] = i
			f.keys = append(f.keys, key{text: head, rule: rule, up: -1})
		}
		f.keys[i].rule = max(f.keys[i].rule, rule)
		if len(form) > keyLen {
			f.keys[i].rest = append(f.keys[i].rest, form[keyLen:])
		}
	}
	slices.SortFunc(f.keys, func(a, b key) int { return strings.Compare(a.text, b.text) })
	f.may = make([]uint64, 1<<mayBits/64)
	for i := range f.keys {
		h := hashOf(f.keys[i].text)
		f.may[h/64] |= 1 << (h % 64)
		// What this one begins with stands before it, and what lies between begins so too.
		for up := i - 1; up >= 0; up = f.keys[up].up {
			if strings.HasPrefix(f.keys[i].text, f.keys[up].text) {
				f.keys[i].up = up
				break
			}
		}
	}
	return f
}

// formsOf are the ways in which a value is written elsewhere.
func formsOf(value string) []string {
	forms := []string{value}
	add := func(more ...string) {
		for _, form := range more {
			if !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	for _, html := range []bool{false, true} {
		once := jsonForm(value, html)
		add(once, jsonForm(once, html))
	}
	add(strings.ReplaceAll(value, "'", `'\''`), strings.ReplaceAll(value, "/", `\/`))
	for _, form := range []string{
		url.QueryEscape(value), strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), url.PathEscape(value),
		component(value, "-_.!~*'()"), component(value, "-_.~/"), url.UserPassword("", value).String()[1:],
	} {
		add(form, lowerHex(form))
	}
	add(base64Forms(value)...)
	return forms
}

// jsonForm is a value within a JSON string.
func jsonForm(value string, html bool) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if enc.Encode(value) != nil {
		return value
	}
	return b.String()[1 : b.Len()-len("\"\n")]
}

// component is a value as a part of a URL, but for letters, figures and the characters of keep.
func component(value, keep string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(value) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// lowerHex writes %2F as %2f.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// base64Forms are a value alone, and within a longer text that is encoded as a whole: then
// it begins at one of three places of a group, and the characters that hold a part of its
// neighbours are not known.
func base64Forms(value string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(value)))
	}
	for offset := range 3 {
		padded := make([]byte, offset, offset+len(value))
		padded = append(padded, value...)
		first, last := (offset*8+5)/6, len(padded)*8/6
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			out = append(out, enc.EncodeToString(padded)[first:last])
		}
	}
	return out
}
