package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// pathBytes is how JSON carries a path that is not UTF-8.
type pathBytes struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON gives a string, or {"base64": "…"} where p is not UTF-8.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(pathBytes{Base64: []byte(p)})
}

// UnmarshalJSON takes both forms of MarshalJSON and refuses a NUL byte.
func (p *Path) UnmarshalJSON(data []byte) error {
	var s string
	if len(data) > 0 && data[0] == '{' {
		var b pathBytes
		if err := json.Unmarshal(data, &b); err != nil {
			return fmt.Errorf("path: %w", err)
		}
		s = string(b.Base64)
	} else if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return errors.New("path: holds a NUL byte")
	}
	*p = Path(s)
	return nil
}

// Valid reports whether p is absolute, clean and free of NUL bytes, as the path of a
// change must be. The target of a symbolic link need not be.
func (p Path) Valid() bool {
	s := string(p)
	return strings.HasPrefix(s, "/") && path.Clean(s) == s && strings.IndexByte(s, 0) < 0
}

// Below reports whether p is dir or lies below it.
func (p Path) Below(dir Path) bool {
	if dir == "/" {
		return strings.HasPrefix(string(p), "/")
	}
	return p == dir || len(p) > len(dir) && p[len(dir)] == '/' && p[:len(dir)] == dir
}

// Parent is the folder that holds p; the root's is the root.
func (p Path) Parent() Path {
	i := strings.LastIndexByte(string(p), '/')
	if i <= 0 {
		return "/"
	}
	return p[:i]
}

// Base is p's last name.
func (p Path) Base() string {
	return string(p[strings.LastIndexByte(string(p), '/')+1:])
}
