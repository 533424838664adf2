package gvisor

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"gvisor.dev/gvisor/runsc/cli/maincli"

	"airlock/internal/sandbox"
	"airlock/internal/sandbox/gvisor/launch"
)

// Dispatch runs the process of the engine that the program's name, argv[0], asks for,
// and does not return then. The engine starts itself under such names.
func Dispatch(name string) {
	switch base := filepath.Base(name); {
	case strings.HasPrefix(base, "runsc"), name == "/proc/self/exe":
		// The second is how the engine starts its unmounter.
		if base == "runsc-sandbox" || base == "runsc-gofer" {
			restLater()
		}
		maincli.Main()
		os.Exit(0)
	case base == launch.KeeperName:
		Keep()
	case base == probeName:
		os.Exit(0)
	}
}

func engineVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "gvisor.dev/gvisor" {
				return dep.Version
			}
		}
	}
	return "(unknown version)"
}

// StaticEngine finds the program that can be the engine. A build with cgo cannot: the
// engine starts itself in an empty root folder, where a dynamic linker is missing. `go
// run` makes such a build wherever there is a C compiler; then the same source is built
// once more without cgo, into cache, and that is the engine. Progress is told on notes.
func StaticEngine(cache string, notes io.Writer) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if !builtWithCgo {
			return "/proc/self/exe", nil
		}
		path, err := twin(ctx, cache, notes)
		if err != nil {
			return "", &sandbox.Unavailable{
				Reason: "this airlock was built with cgo, and the engine needs a static one",
				Mend:   "build it with CGO_ENABLED=0 (make build does)", Err: err,
			}
		}
		return path, nil
	}
}

// twin is the path of the static build of the same source as this program.
func twin(ctx context.Context, cache string, notes io.Writer) (string, error) {
	id, err := buildID()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "engine")
	path := filepath.Join(dir, fmt.Sprintf("airlock-%x", sha256.Sum256([]byte(id)))[:len("airlock-")+16])
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(path); err == nil {
		return path, nil // another made it meanwhile
	}
	fmt.Fprintln(notes, "airlock: this build uses cgo; building the static engine it needs (once, about a minute)…")
	if err := build(ctx, root, path); err != nil {
		return "", err
	}
	prune(dir, path)
	return path, nil
}

func build(ctx context.Context, root, path string) error {
	goTool, err := exec.LookPath("go")
	if err != nil {
		goTool = filepath.Join(runtime.GOROOT(), "bin", "go") //nolint:staticcheck // a build by `go run` knows its GOROOT
	}
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	defer os.Remove(tmp)
	cmd := exec.CommandContext(ctx, goTool, "build", "-buildvcs=false", "-o", tmp, "./cmd/airlock-engine")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w: %s", root, err, lastLine(string(out)))
	}
	return os.Rename(tmp, path)
}

// twinAge is how long an engine that is not used any more is kept: another program may be
// about to start it.
const twinAge = 24 * time.Hour

// prune removes the twins of earlier builds.
func prune(dir, newest string) {
	names, err := filepath.Glob(filepath.Join(dir, "airlock-*"))
	if err != nil {
		return
	}
	for _, name := range names {
		st, err := os.Stat(name)
		if err == nil && name != newest && time.Since(st.ModTime()) > twinAge {
			_ = os.Remove(name) // another time, or another program does
		}
	}
}

// sourceRoot is the folder of the module that this program was built from, if it is
// still there.
func sourceRoot() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("the source that this program was built from is not known")
	}
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("the source that this program was built from is gone: %w", err)
	}
	if !strings.HasPrefix(string(data), "module airlock\n") {
		return "", fmt.Errorf("%s is not airlock's source", root)
	}
	return root, nil
}

// buildID is the toolchain's name for exactly this program.
func buildID() (string, error) {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return "", errors.New("this program has no build ID")
	}
	data, err := s.Data()
	return string(data), err
}

// source is what this program was built from: a commit, and whether that was changed; ""
// where the build does not say.
func source() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}

// otherSource reports whether two programs are known to be built from different sources:
// a driver and a keeper must be of one.
func otherSource(a, b string) bool { return a != "" && b != "" && a != b }
