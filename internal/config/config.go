// Package config reads Airlock's settings: one YAML file, strictly. What it does not know it
// refuses, by name and place, so that a slip of the pen does not leave a bound unset. It
// knows nothing of those whose settings it reads.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"airlock/internal/yamlfile"
)

// A Config is the settings. Default gives those that hold where the file says nothing.
type Config struct {
	Record   Record
	Plugins  []string // folders in which plugins are looked for, beside the usual one; absolute
	Bridges  []string // configurations whose agents are tools for every surface; absolute
	Approval Approval
	AI       AI
}

// Record bounds the record of what was done.
type Record struct {
	MaxAge  time.Duration
	MaxSize int64 // in bytes
}

// Approval is how a person is asked.
type Approval struct {
	Expires time.Duration // after which a question that nobody answered is answered no
}

// Default is what holds where there is no file.
func Default() *Config {
	return &Config{
		Record:   Record{MaxAge: 90 * 24 * time.Hour, MaxSize: 256 << 20},
		Approval: Approval{Expires: 5 * time.Minute},
		AI:       AI{Instructions: true, Tools: true, Timeout: 5 * time.Minute},
	}
}

// An Error is what is wrong with the file, and where.
type Error = yamlfile.Error

const (
	maxFile        = 64 << 10 // bytes
	maxCollections = 1000
)

// Load reads the file. Where there is none, the defaults hold. An error of what the file
// says is an *Error.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the settings: %w", err)
	case !st.Mode().IsRegular():
		return nil, &Error{File: path, Text: "it is no regular file"}
	case st.Mode().Perm()&0o002 != 0:
		return nil, &Error{File: path, Text: "everybody can write it, so it is not trusted; chmod o-w it"}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	c, ai, err := parse(path, text)
	if err == nil && ai {
		err = trusted(path, st)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// trusted refuses a file that others could have written. It is asked where the file says
// what is sent to whom, and what is run for a key.
func trusted(path string, st fs.FileInfo) error {
	fail := func(format string, args ...any) error {
		return &Error{File: path, Text: fmt.Sprintf(format, args...)}
	}
	if !ownersKnown {
		return nil
	}
	if uid := owner(st); uid > 0 && uid != os.Getuid() {
		return fail("it belongs to another user, so its ai: is not trusted; make it yours, or the superuser's")
	}
	if mode := st.Mode().Perm(); mode&0o022 != 0 {
		return fail("others may write to it (mode %#o), so its ai: is not trusted; chmod go-w %s", mode, path)
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err == nil && st.Mode().Perm()&0o022 != 0 && st.Mode()&fs.ModeSticky == 0 {
		return fail("others may write to its folder (mode %#o), so its ai: is not trusted; chmod go-w %s", st.Mode().Perm(), dir)
	}
	return nil
}

// Parse reads the text of the file; path is its name in errors.
func Parse(path string, text []byte) (*Config, error) {
	c, _, err := parse(path, text)
	return c, err
}

// parse says too whether the file has an ai section.
func parse(path string, text []byte) (c *Config, ai bool, err error) {
	c = Default()
	root, err := yamlfile.Parse(path, text, yamlfile.Bounds{Bytes: maxFile, Collections: maxCollections, What: "settings"})
	if err != nil {
		return nil, false, err
	}
	if root.Empty() {
		return c, false, nil
	}
	m := c.members()
	m["ai"] = func(name string, n yamlfile.Node) error {
		ai = true
		return c.AI.read(name, n)
	}
	if err := root.Mapping("the settings", m); err != nil {
		return nil, false, err
	}
	return c, ai, nil
}

// members are what the file may hold beside ai: here a new setting is added.
func (c *Config) members() yamlfile.Members {
	return yamlfile.Members{
		"record": yamlfile.Section(yamlfile.Members{
			"max_age":  yamlfile.Span(&c.Record.MaxAge),
			"max_size": yamlfile.Size(&c.Record.MaxSize),
		}),
		"plugins": paths(&c.Plugins, "folders", "~/plugins"),
		"bridges": paths(&c.Bridges, "files", "~/agents/config.yaml"),
		"approval": yamlfile.Section(yamlfile.Members{
			"expires": yamlfile.Span(&c.Approval.Expires),
		}),
	}
}

// maxPaths is how many paths a list may have.
const maxPaths = 100

// paths is a list of paths of what, absolute or below the home folder.
func paths(to *[]string, what, such string) yamlfile.Set {
	return func(name string, n yamlfile.Node) error {
		list, ok := n.List()
		if !ok {
			return n.Fail("%s is a list of %s, such as [%s]", name, what, such)
		}
		if len(list) > maxPaths {
			return n.Fail("%s has more than %d %s", name, maxPaths, what)
		}
		var out []string
		for _, item := range list {
			text, err := item.Scalar(name)
			if err != nil {
				return err
			}
			if rest, ok := strings.CutPrefix(text, "~/"); ok {
				home, err := os.UserHomeDir()
				if err != nil {
					return item.Fail("%s: there is no home folder for ~", name)
				}
				text = filepath.Join(home, rest)
			}
			if !filepath.IsAbs(text) {
				return item.Fail("%s: %q is neither absolute nor below ~/", name, text)
			}
			out = append(out, filepath.Clean(text))
		}
		*to = out
		return nil
	}
}
