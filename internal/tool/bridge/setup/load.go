package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"airlock/internal/yamlfile"
)

const (
	maxFile        = 1 << 20 // bytes
	maxCollections = 20_000
	maxNested      = 64
	maxTokens      = 50_000
)

// Load reads the file. getenv gives a variable of the environment, "" where there is none;
// home is the home folder, "" where there is none. An error of what the file says is a
// *yamlfile.Error.
func Load(path string, getenv func(string) string, home string) (*File, error) {
	fail := func(format string, args ...any) error {
		return &yamlfile.Error{File: path, Text: fmt.Sprintf(format, args...)}
	}
	// A pipe must not keep us waiting.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail("there is no such file; name the bridge's config.yaml with --config")
	case err != nil:
		return nil, fmt.Errorf("read the bridge's file: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the bridge's file: %w", err)
	case !st.Mode().IsRegular():
		return nil, fail("it is no regular file")
	}
	if text := distrust(st); text != "" {
		return nil, fail("%s", text)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the bridge's file: %w", err)
	}
	return Parse(path, text, getenv, home)
}

// Parse reads the text of the file; path is its name, which relative paths in it are
// relative to. It looks on the disk only for the workspace and for programs in PATH.
func Parse(path string, text []byte, getenv func(string) string, home string) (*File, error) {
	real, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("read the bridge's file: %w", err)
	}
	if to, err := filepath.EvalSymlinks(real); err == nil {
		real = to
	}
	root, err := yamlfile.Parse(path, text, yamlfile.Bounds{Bytes: maxFile, Collections: maxCollections, Depth: maxNested, Words: maxTokens, What: "bridges' files"})
	if err != nil {
		return nil, err
	}
	r := &reader{shown: path, folder: filepath.Dir(real), getenv: getenv, home: home, file: defaults()}
	r.file.Path = real
	if err := r.read(root); err != nil {
		return nil, err
	}
	return r.file, nil
}
