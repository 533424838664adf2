package shellrisk

import "strings"

// passVariable reports whether handing a variable to programs leaves what they do alone.
// value may be nil: it is one that the shell has already.
func (w *walker) passVariable(name string, value *field) bool {
	p := w.tables["="]
	if p == nil {
		return false
	}
	s := p.sub(name)
	if s == nil || s.risk != ReadOnly {
		return false
	}
	if s.opts == nil {
		return true
	}
	return value != nil && value.Known && s.opts["-"+value.Value] != nil
}

// quietVariable reports whether setting a variable of the shell's own leaves alone what
// the shell and programs do: it may be one that programs are handed already.
func (w *walker) quietVariable(name string) bool {
	if name == "" {
		return false
	}
	if p := w.tables["="]; p != nil {
		if s := p.sub(name); s != nil {
			return s.risk == ReadOnly && s.opts == nil
		}
	}
	for _, end := range []string{"PATH", "_COMMAND", "_OPTIONS", "_OPTS", "EDITOR", "PAGER", "_CONFIG", "_HOME", "_PRELOAD", "_proxy", "_PROXY"} {
		if strings.HasSuffix(name, end) && strings.ToUpper(name) == name {
			return false
		}
	}
	return true
}
