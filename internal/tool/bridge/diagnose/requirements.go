package diagnose

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	maxRequirements = 256 << 10 // bytes of a requirements.txt
	maxPackages     = 1000
)

// requirements are the distributions that a requirements.txt names.
type requirements struct {
	always    []string
	sometimes []string // behind a condition, such as ; python_version < "3.9"
	more      bool     // there are lines that name something in another way
}

// A distribution's name, and what may follow it: extras, a version, a condition.
var requirementForm = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)[ \t]*(?:\[[^\]]*\])?[ \t]*([<>=!~(;@ \t].*)?$`)

func readRequirements(file string) (*requirements, error) {
	f, err := openRegular(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRequirements+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxRequirements {
		return nil, errors.New("it is too large")
	}
	return parseRequirements(string(text)), nil
}

// parseRequirements reads what pip's format has in common with a list of names.
func parseRequirements(text string) *requirements {
	r := &requirements{}
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\\\n", " ", "\\\r\n", " ").Replace(text)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if i := strings.Index(line, "#"); i == 0 || i > 0 && strings.ContainsAny(line[i-1:i], " \t") {
			line = strings.TrimSpace(line[:i])
		}
		if line == "" {
			continue
		}
		m := requirementForm.FindStringSubmatch(line)
		if m == nil || len(r.always)+len(r.sometimes) >= maxPackages {
			r.more = true
			continue
		}
		to := &r.always
		if strings.Contains(m[2], ";") {
			to = &r.sometimes
		}
		if !slices.Contains(*to, m[1]) {
			*to = append(*to, m[1])
		}
	}
	return r
}

// openRegular opens a regular file to read it, and waits for no pipe.
func openRegular(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New(filepath.Base(file) + " is no regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func isRegular(file string) bool {
	st, err := os.Stat(file)
	return err == nil && st.Mode().IsRegular()
}
