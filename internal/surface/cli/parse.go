package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// parseSize reads how much memory a sandbox may use.
func parseSize(s string) (int64, error) {
	n, err := parseBytes(s)
	// The engine itself needs some; less would only end every sandbox at its start.
	if err == nil && s != "" && n < minMemory {
		return 0, fmt.Errorf("a sandbox needs at least %dm", minMemory>>20)
	}
	return n, err
}

// parseBytes reads a number of bytes with an optional unit of 1024: k, m, g or t, each
// with or without b or ib.
func parseBytes(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	t := strings.ToLower(strings.TrimSpace(s))
	t = strings.TrimSuffix(strings.TrimSuffix(t, "b"), "i")
	shift := 0
	if t != "" {
		if i := strings.IndexByte("kmgt", t[len(t)-1]); i >= 0 {
			shift = 10 * (i + 1)
			t = t[:len(t)-1]
		}
	}
	n, err := strconv.ParseFloat(t, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.ContainsAny(t, "xpe_") {
		return 0, errors.New("write a number of bytes, as in 512m or 2g")
	}
	n *= float64(int64(1) << shift)
	if n <= 0 || n >= math.MaxInt64 {
		return 0, errors.New("it must be more than nothing, and less than 8 EiB")
	}
	return int64(n), nil
}

const minMemory = 64 << 20

// folder makes dir absolute and checks that it is one.
func folder(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("the working folder: %w", err)
	}
	st, err := os.Stat(abs)
	switch {
	case err != nil:
		return "", fmt.Errorf("the working folder: %w", err)
	case !st.IsDir():
		return "", fmt.Errorf("the working folder %s is not a folder", abs)
	}
	return abs, nil
}

// existing makes paths absolute, and checks that they exist.
func existing(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		if p == "" {
			return nil, errors.New("wants a path, and it is empty")
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if _, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		out = append(out, abs)
	}
	return out, nil
}
