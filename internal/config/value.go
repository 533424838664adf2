package config

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// members say how each member of a mapping is read.
type members map[string]set

// A set reads a member's value.
type set func(r *reader, name string, n ast.Node) error

// section is a mapping within one.
func section(m members) set {
	return func(r *reader, name string, n ast.Node) error { return r.mapping(n, name, m) }
}

// age is a time span above nothing: 90d, 12h, 5m.
func age(to *time.Duration) set {
	return func(r *reader, name string, n ast.Node) error {
		text, err := r.scalar(n, name)
		if err != nil {
			return err
		}
		d, ok := parseAge(text)
		if !ok {
			return r.fail(n, "%s is %q; write a time span such as 90d, 12h or 5m", name, text)
		}
		*to = d
		return nil
	}
}

func parseAge(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		ok = err == nil && n > 0 && n <= uint64(math.MaxInt64/(24*time.Hour))
		return time.Duration(n) * 24 * time.Hour, ok
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}

// size is a number of bytes above nothing: 256m, 1g.
func size(to *int64) set {
	return func(r *reader, name string, n ast.Node) error {
		text, err := r.scalar(n, name)
		if err != nil {
			return err
		}
		bytes, ok := parseSize(text)
		if !ok {
			return r.fail(n, "%s is %q; write a number of bytes such as 512k, 256m or 1g", name, text)
		}
		*to = bytes
		return nil
	}
}

func parseSize(text string) (int64, bool) {
	text = strings.ToLower(text)
	shift := 0
	if text != "" {
		if i := strings.IndexByte("kmgt", text[len(text)-1]); i >= 0 {
			shift, text = 10*(i+1), text[:len(text)-1]
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n) << shift, err == nil && n > 0 && n <= math.MaxInt64>>shift
}

// maxFolders is how many folders a list may have.
const maxFolders = 100

// folders is a list of folders, absolute or below the home folder.
func folders(to *[]string) set {
	return func(r *reader, name string, n ast.Node) error {
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			return r.fail(n, "%s is a list of folders, such as [~/plugins]", name)
		}
		if len(list.Values) > maxFolders {
			return r.fail(n, "%s has more than %d folders", name, maxFolders)
		}
		var out []string
		for _, item := range list.Values {
			text, err := r.scalar(item, name)
			if err != nil {
				return err
			}
			if rest, ok := strings.CutPrefix(text, "~/"); ok {
				home, err := os.UserHomeDir()
				if err != nil {
					return r.fail(item, "%s: there is no home folder for ~", name)
				}
				text = filepath.Join(home, rest)
			}
			if !filepath.IsAbs(text) {
				return r.fail(item, "%s: %q is neither absolute nor below ~/", name, text)
			}
			out = append(out, filepath.Clean(text))
		}
		*to = out
		return nil
	}
}
