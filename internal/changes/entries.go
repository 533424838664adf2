package changes

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Entry is a change as programs are told of it.
type Entry struct {
	Path       string `json:"path"`                  // absolute; what is not UTF-8 is replaced by U+FFFD
	PathBase64 string `json:"path_base64,omitempty"` // the exact bytes, where Path is not
	Kind       Kind   `json:"kind"`
	Scope      Scope  `json:"scope"`
	Type       string `json:"type"` // file, dir, symlink, fifo or device
	Size       int64  `json:"size"` // of what is there now; of what was, for a deletion
	Mode       string `json:"mode"` // octal, four digits: "0644"
	Target     string `json:"target,omitempty"`
	Refused    string `json:"refused,omitempty"`
	Conflict   string `json:"conflict,omitempty"`
}

// Entries lists the set's changes of these scopes; of all where none is named. It is
// never nil, so that JSON has a list.
func Entries(set *Set, scopes ...Scope) []Entry {
	list := []Entry{}
	for i := range set.Changes {
		c := &set.Changes[i]
		if len(scopes) > 0 && !slices.Contains(scopes, c.Scope) {
			continue
		}
		e := Entry{
			Path: string(c.Path), Kind: c.Kind, Scope: c.Scope, Refused: c.Refused, Conflict: c.Conflict,
		}
		if !utf8.ValidString(e.Path) {
			e.PathBase64 = base64.StdEncoding.EncodeToString([]byte(e.Path))
			e.Path = strings.ToValidUTF8(e.Path, "\uFFFD")
		}
		n := c.New
		if n == nil {
			n = c.Old
		}
		if n != nil {
			e.Type, e.Size, e.Mode = string(n.Type), n.Size, octal(n.Mode)
			e.Target = strings.ToValidUTF8(string(n.Target), "\uFFFD")
		}
		list = append(list, e)
	}
	return list
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }
