package plugin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"airlock/internal/tool"
	"airlock/internal/tool/plugin/manifest"
)

const (
	manifestName = "plugin.yaml" // of a plugin in a folder of its own
	maxEntries   = 1000          // of a folder that is searched
	maxSchema    = 256 << 10     // bytes of a schema in a file of its own
)

// Load searches folders for plugins and makes a tool of each. In a folder DIR these are
// manifests:
//
//	DIR/NAME.yaml          the executable is DIR/…
//	DIR/NAME/plugin.yaml   the executable is DIR/NAME/…
//	DIR/plugin.yaml        DIR is itself the folder of one plugin, and is searched no further
//
// where NAME is the plugin's name. The tools are in the order of dirs, then of their
// files' names. A manifest that is not right is a Problem, and the others load; so is one
// whose name is taken: the first stays. Nothing is run.
func Load(dirs []string, opts *Options) ([]tool.Tool, []Problem) {
	l := &loader{names: map[string]string{}, families: map[string]bool{}, log: slog.New(slog.DiscardHandler)}
	var optional []string
	if opts != nil {
		optional = opts.Optional
		for _, name := range opts.Taken {
			l.names[name] = ""
			family, _, _ := strings.Cut(name, ".")
			l.families[family] = true
		}
		if opts.Logger != nil {
			l.log = opts.Logger
		}
	}
	var seen []string
	for _, dir := range dirs {
		// A folder may be reached by a link: which one it is, is the person's choice.
		real, err := filepath.Abs(dir)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && slices.Contains(optional, dir), slices.Contains(seen, real):
		case err != nil:
			l.fail(dir, &Problem{Text: "the folder cannot be read: " + cause(err).Error(), Mend: "name a folder that holds plugins", Err: err})
		default:
			seen = append(seen, real)
			l.search(real)
		}
	}
	return l.tools, l.problems
}

// A loader gathers what is found.
type loader struct {
	names    map[string]string // of tools, to their manifests; "" for those there were before
	families map[string]bool   // the first words of the names there were before
	log      *slog.Logger
	tools    []tool.Tool
	problems []Problem
}

func (l *loader) fail(file string, p *Problem) {
	p.File = file
	l.problems = append(l.problems, *p)
}

// search loads what is in one folder.
func (l *loader) search(dir string) {
	root, problem := openFolder(dir)
	if problem != nil {
		l.fail(dir, problem)
		return
	}
	defer root.Close()
	if _, err := root.Lstat(manifestName); err == nil {
		l.load(root, manifestName, "")
		return
	}
	entries, problem := list(root)
	if problem != nil {
		l.fail(dir, problem)
		return
	}
	for _, e := range entries {
		name := e.Name()
		base, isManifest := strings.CutSuffix(name, ".yaml")
		switch {
		case strings.HasPrefix(name, "."):
		case isManifest && !e.IsDir():
			l.load(root, name, base)
		case strings.HasSuffix(name, ".yml") && !e.IsDir():
			l.fail(filepath.Join(dir, name), &Problem{Text: "a manifest's name ends in .yaml", Mend: "rename it"})
		case e.IsDir():
			l.folder(root, name)
		case e.Type()&fs.ModeSymlink != 0:
			l.link(root, name)
		}
	}
}

// folder loads the plugin of a folder of its own, if it is one.
func (l *loader) folder(parent *os.Root, name string) {
	if _, err := parent.Lstat(filepath.Join(name, manifestName)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	dir := filepath.Join(parent.Name(), name)
	root, problem := openFolder(dir)
	if problem != nil {
		l.fail(dir, problem)
		return
	}
	defer root.Close()
	l.load(root, manifestName, name)
}

// link says that the folder of a plugin is not looked for behind a link.
func (l *loader) link(root *os.Root, name string) {
	file := filepath.Join(root.Name(), name)
	if _, err := os.Stat(filepath.Join(file, manifestName)); err == nil {
		l.fail(file, &Problem{Text: "a symbolic link is not followed to a plugin", Mend: "name the folder that it leads to as one to search, or move it here"})
	}
}

// load makes a tool of one manifest. want is the name that it must have; "" is any.
func (l *loader) load(root *os.Root, file, want string) {
	path := filepath.Join(root.Name(), file)
	p, problem := l.read(root, file, want)
	if problem != nil {
		l.fail(path, problem)
		return
	}
	l.names[p.info.Name] = path
	l.tools = append(l.tools, p)
}

func (l *loader) read(root *os.Root, file, want string) (*plugin, *Problem) {
	data, err := readRegular(root, file, manifest.MaxBytes)
	if err != nil {
		return nil, &Problem{Text: err.Error(), Err: err}
	}
	m, problem := manifest.Parse(data, func(name string) ([]byte, error) { return readRegular(root, name, maxSchema) })
	if problem != nil {
		return nil, problem
	}
	if want != "" && m.Name != want {
		p := m.NameAt.At("name: the plugin is %q, and its manifest is found as %q", m.Name, want)
		p.Mend = "give both the same name"
		return nil, p
	}
	if first, taken := l.names[m.Name]; taken {
		p := m.NameAt.At("name: there is a tool %q already", m.Name)
		if first != "" {
			p.Text += " (" + first + ")"
		}
		p.Mend = "give this one another name"
		return nil, p
	}
	if family, _, _ := strings.Cut(m.Name, "."); l.families[family] {
		p := m.NameAt.At("name: there are tools already whose names begin with %q", family)
		p.Mend = "begin this one's name with another word"
		return nil, p
	}
	st, problem := checkExecutable(root, m)
	if problem != nil {
		return nil, problem
	}
	made := newPlugin(m, root.Name(), filepath.Join(root.Name(), file), l.log)
	made.size, made.changed = st.Size(), st.ModTime()
	for i := range m.Actions {
		// The registry knows best what it takes; one action at a time, to say which.
		alone := &plugin{info: made.info}
		alone.info.Actions = made.info.Actions[i : i+1]
		if _, err := tool.NewRegistry(alone); err != nil {
			return nil, m.ActionsAt[i].At("%s", strings.TrimPrefix(err.Error(), "tool "+m.Name+": "))
		}
	}
	return made, nil
}

// list gives what is in a folder, sorted by name.
func list(root *os.Root) ([]fs.DirEntry, *Problem) {
	f, err := root.Open(".")
	if err != nil {
		return nil, &Problem{Text: "the folder cannot be read: " + cause(err).Error(), Err: err}
	}
	defer f.Close()
	entries, err := f.ReadDir(maxEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, &Problem{Text: "the folder cannot be read: " + cause(err).Error(), Err: err}
	case len(entries) > maxEntries:
		return nil, &Problem{Text: fmt.Sprintf("more than %d files: this is no folder of plugins", maxEntries), Mend: "name the folder that holds the manifests"}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// cause is the innermost error: the path is said once, by the Problem.
func cause(err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return inner.Err
	}
	return err
}
