package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"airlock/internal/yamlfile"
)

// defaults is what holds where the file says nothing.
func defaults() *File {
	return &File{
		Logging:  Logging{Level: "INFO", Rotate: true, MaxBytes: 10 << 20, Backups: 5},
		Security: Security{Validate: true, Sanitize: Strip, MaxParam: 10_000, MaxParams: maxParams},
		Metrics:  Metrics{Collect: true, Retention: 30 * day},
		Parallel: 8,
	}
}

const (
	day         = 24 * time.Hour
	maxParams   = 1 << 20 // bytes
	maxBackups  = 1000
	maxDays     = 36_500
	maxParallel = 256
	maxAgents   = 1000
)

// A reader reads one file.
type reader struct {
	shown  string // the file's name in errors
	folder string // absolute, links resolved: relative paths are relative to it
	getenv func(string) string
	home   string
	file   *File

	workspace yamlfile.Node // where its path stands; empty where none does
	log       yamlfile.Node // the same of the log's file
	agents    yamlfile.Node
	search    pathSearch
}

func (r *reader) read(root yamlfile.Node) error {
	if !root.Empty() {
		if err := root.Mapping("the file", r.sections()); err != nil {
			return err
		}
	}
	r.search.path = r.getenv("PATH")
	for _, step := range []func() error{r.findWorkspace, r.findLog, r.readAgents} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// sections are what the file may hold.
func (r *reader) sections() yamlfile.Members {
	f := r.file
	return yamlfile.Members{
		"workspace": yamlfile.Section(yamlfile.Members{"path": keep(&r.workspace)}),
		"logging": yamlfile.Section(yamlfile.Members{
			"file":  keep(&r.log),
			"level": level(&f.Logging.Level),
			"rotation": yamlfile.Section(yamlfile.Members{
				"enabled":      boolean(&f.Logging.Rotate),
				"max_bytes":    rotation(&f.Logging.MaxBytes),
				"backup_count": yamlfile.Whole(&f.Logging.Backups, 0, maxBackups),
			}),
		}),
		"security": yamlfile.Section(yamlfile.Members{
			"validate_inputs":  boolean(&f.Security.Validate),
			"sanitize_inputs":  sanitizing(&f.Security.Sanitize),
			"max_param_length": yamlfile.Whole(&f.Security.MaxParam, 1, maxParams),
			"max_total_length": yamlfile.Whole(&f.Security.MaxParams, 1, maxParams),
		}),
		"performance": yamlfile.Section(yamlfile.Members{
			"collect_metrics":        boolean(&f.Metrics.Collect),
			"metrics_retention_days": days(&f.Metrics.Retention),
			"max_parallel":           yamlfile.Whole(&f.Parallel, 1, maxParallel),
		}),
		"agents": keep(&r.agents),
	}
}

// findWorkspace finds the folder that agents are in.
func (r *reader) findWorkspace() error {
	const mend = "make it, or name another"
	dir, fail, err := r.place("workspace: path", "ADK_WORKSPACE", r.workspace)
	switch {
	case err != nil:
		return err
	case dir == "":
		// The original's own.
		dir = filepath.Join(r.home, "adk-workspace")
		if st, err := os.Stat(dir); r.home == "" || err != nil || !st.IsDir() {
			return r.fail("there is no workspace; write workspace: {path: /where/your/agents/are}, or set ADK_WORKSPACE")
		}
		fail = r.fail
	}
	real, err := filepath.EvalSymlinks(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("there is no folder %s; %s", dir, mend)
	case err != nil:
		return fail("the folder %s cannot be reached (%v); %s", dir, err, mend)
	}
	switch st, err := os.Stat(real); {
	case err != nil:
		return fail("the folder %s cannot be reached (%v); %s", dir, err, mend)
	case !st.IsDir():
		return fail("%s is no folder; name one", dir)
	}
	r.file.Workspace = real
	return nil
}

// findLog finds the log's file, and the level that the environment has for it.
func (r *reader) findLog() error {
	l := &r.file.Logging
	l.Rotate = l.Rotate && l.MaxBytes > 0 && l.Backups > 0 // 0 of either is none, as Python's logging has it
	file, _, err := r.place("logging: file", "BRIDGE_LOG_FILE", r.log)
	switch {
	case err != nil:
		return err
	case file == "" && r.home == "":
		return r.fail("there is no home folder for the log; write logging: {file: /where/it/goes.log}, or set BRIDGE_LOG_FILE")
	case file == "":
		file = filepath.Join(r.home, ".gemini", "bridge.log")
	}
	l.File = file
	if word := r.getenv("BRIDGE_LOG_LEVEL"); word != "" {
		upper, ok := levelOf(word)
		if !ok {
			return r.fail("BRIDGE_LOG_LEVEL is %q; set it to DEBUG, INFO, WARNING or ERROR", word)
		}
		l.Level = upper
	}
	return nil
}

// place is a path that the environment has, or else the file; "" where neither has one.
// fail makes an error of the place that says so.
func (r *reader) place(name, variable string, n yamlfile.Node) (path string, fail func(string, ...any) error, err error) {
	text := ""
	if !n.Empty() {
		if text, err = n.Line(name); err != nil {
			return "", nil, err
		}
		if path, err = r.resolve(text); err != nil {
			return "", nil, n.Fail("%s: %v", name, err)
		}
		fail = func(format string, args ...any) error { return n.Fail(name+": "+format, args...) }
	}
	text = r.getenv(variable)
	if text == "" {
		return path, fail, nil
	}
	fail = func(format string, args ...any) error { return r.fail(variable+": "+format, args...) }
	switch path, err = r.resolve(text); {
	case err != nil:
		return "", nil, fail("%v", err)
	case !isAbs(text) && text != "~" && !strings.HasPrefix(text, "~/"):
		return "", nil, fail("%q is not absolute; set it to a path that begins with / or ~/", text)
	}
	return path, fail, nil
}

// resolve makes a path absolute: ~ is home, and what is relative is relative to the file.
func (r *reader) resolve(text string) (string, error) {
	rest, below := strings.CutPrefix(text, "~")
	switch {
	case strings.ContainsRune(text, 0):
		return "", errors.New("it holds a NUL character; take it out")
	case below && rest != "" && !os.IsPathSeparator(rest[0]):
		return "", errors.New("~ is your own home alone; write another's as a whole path")
	case below && r.home == "":
		return "", errors.New("there is no home folder for ~; write the whole path")
	case below:
		return filepath.Join(r.home, rest), nil
	case isAbs(text):
		return filepath.Clean(text), nil
	}
	return filepath.Join(r.folder, text), nil
}

// isAbs reports whether a path is absolute. One that begins with / is everywhere: the file
// is written for machines where it is.
func isAbs(path string) bool { return filepath.IsAbs(path) || strings.HasPrefix(path, "/") }

// fail makes an error of the file as a whole, or of what should be in it.
func (r *reader) fail(format string, args ...any) error {
	return &yamlfile.Error{File: r.shown, Text: fmt.Sprintf(format, args...)}
}
