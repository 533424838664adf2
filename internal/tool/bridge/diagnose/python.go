package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"airlock/internal/tool/bridge/setup"
)

// The oldest Python that the bridge's agents were ever promised.
const oldestMinor = 8

var versionForm = regexp.MustCompile(`^Python (\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?`)

// python asks each Python for its version.
func (d *doctor) python(ctx context.Context) {
	any := false
	for _, p := range d.used {
		if !p.python {
			continue
		}
		any = true
		switch {
		case p.err != nil:
			d.add(Python, Error, p.path, p.err.Error(), mendInterpreter(p))
		case !d.tryable(p):
			d.add(Python, Info, p.path, "it lies in the workspace and runs only in a sandbox, so it is not tried here", "")
		default:
			d.version(ctx, p)
		}
	}
	if any {
		return
	}
	if at := d.lookPath("python3"); at != "" {
		d.add(Python, Info, at, "no agent needs it", "")
	} else {
		d.add(Python, Info, "python3", "PATH has none, and no agent needs one", "")
	}
}

// mendInterpreter is what to do about a program that is missing.
func mendInterpreter(p *program) string {
	if gone, ok := errors.AsType[*setup.NotFoundError](p.err); ok && gone.Found != "" {
		member := "command"
		if gone.Python {
			member = "python"
		}
		return "write " + member + ": " + gone.Found + " in the entries of " + p.names()
	}
	venv := filepath.Dir(filepath.Dir(p.path))
	if p.python && filepath.Base(filepath.Dir(p.path)) == "bin" && venv != "/" && venv != "/usr" && venv != "/usr/local" {
		return "make the virtual environment: python3 -m venv " + quoted(venv)
	}
	return "install it, or name one that is there in the entries of " + p.names()
}

func (d *doctor) version(ctx context.Context, p *program) {
	out, err := d.run(ctx, "", p.path, "--version")
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.add(Python, Error, p.path, "it does not say its version: "+err.Error(), mendInterpreter(p))
		return
	}
	major, minor, ok := parseVersion(out)
	switch {
	case !ok:
		d.add(Python, Error, p.path, fmt.Sprintf("it is no Python 3: it says %q of its version", words(lastLine(out))), "name a Python in the entries of "+p.names())
	case major < 3 || major == 3 && minor < oldestMinor:
		d.add(Python, Error, p.path, fmt.Sprintf("it is Python %d.%d; agents need 3.%d or newer", major, minor, oldestMinor), "name a newer one in the entries of "+p.names())
	default:
		p.well = true
		d.add(Python, OK, p.path, strings.TrimSpace(out)+" ("+p.names()+")", "")
	}
}

// parseVersion reads what python --version prints.
func parseVersion(out string) (major, minor int, ok bool) {
	for line := range strings.Lines(out) {
		if m := versionForm.FindStringSubmatch(line); m != nil {
			major, _ = strconv.Atoi(m[1]) // digits, by the form
			minor, _ = strconv.Atoi(m[2])
			return major, minor, true
		}
	}
	return 0, 0, false
}

// dependencies looks for the other interpreters, and for the packages that each Python's
// scripts name.
func (d *doctor) dependencies(ctx context.Context) {
	for _, p := range d.used {
		if p.python {
			d.packages(ctx, p)
			continue
		}
		if p.err != nil {
			d.add(Dependencies, Error, p.path, p.err.Error(), mendInterpreter(p))
			continue
		}
		d.add(Dependencies, OK, p.path, "it is there ("+p.names()+")", "")
	}
}

// packages asks a Python which of the distributions that requirements.txt names it has.
func (d *doctor) packages(ctx context.Context, p *program) {
	for _, file := range d.requirements(p) {
		r, err := readRequirements(file)
		if err != nil {
			d.add(Dependencies, Warning, file, "it cannot be read: "+err.Error(), "make it readable")
			continue
		}
		if !p.well {
			d.add(Dependencies, Info, file, "not looked at: its Python, "+p.path+", was not tried or does not work", "")
			continue
		}
		missing, err := d.missing(ctx, p, slices.Concat(r.always, r.sometimes))
		if ctx.Err() != nil {
			return
		}
		d.tellMissing(p, file, r, missing, err)
	}
}

func (d *doctor) tellMissing(p *program, file string, r *requirements, missing []string, err error) {
	install := quoted(p.path) + " -m pip install -r " + quoted(file)
	always := intersect(r.always, missing)
	sometimes := intersect(r.sometimes, missing)
	switch {
	case err != nil:
		d.add(Dependencies, Warning, file, p.path+" does not say what it has: "+err.Error(), "")
	case len(always) > 0:
		d.add(Dependencies, Error, file, p.path+" does not have "+list(always), install)
	case len(sometimes) > 0:
		d.add(Dependencies, Info, file, p.path+" does not have "+list(sometimes)+", which only some systems or versions need", install)
	default:
		d.add(Dependencies, OK, file, fmt.Sprintf("%s has all %d of it", p.path, len(r.always)+len(r.sometimes)), "")
	}
	if r.more {
		d.add(Dependencies, Info, file, "lines that name no package by its name, such as -r and URLs, were not looked at", "")
	}
}

// requirements are the files that name a Python's packages: the workspace's, and those
// beside scripts in it.
func (d *doctor) requirements(p *program) []string {
	folders := []string{d.file.Workspace}
	for _, a := range p.agents {
		folder := filepath.Dir(a.Script)
		if a.Script != "" && within(d.file.Workspace, folder) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	var files []string
	for _, folder := range folders {
		file := filepath.Join(folder, "requirements.txt")
		if isRegular(file) {
			files = append(files, file)
		}
	}
	return files
}

// askPackages takes names as a JSON list on stdin and prints those that are missing. The
// current folder is not searched before Python's own modules; the workspace is, after
// them, as an agent has it in PYTHONPATH.
const askPackages = `import sys
if sys.path and sys.path[0] == "":
    sys.path.pop(0)
import json
from importlib import metadata
sys.path.append(sys.argv[1])
missing = []
for name in json.load(sys.stdin):
    for form in (name, name.replace("-", "_"), name.replace("_", "-"), name.replace(".", "_"), name.lower()):
        try:
            metadata.distribution(form)
            break
        except metadata.PackageNotFoundError:
            pass
    else:
        missing.append(name)
print(json.dumps(missing))
`

func (d *doctor) missing(ctx context.Context, p *program, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	input, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	out, err := d.run(ctx, string(input), p.path, "-c", askPackages, d.file.Workspace)
	if err != nil {
		return nil, err
	}
	var missing []string
	if err := json.Unmarshal([]byte(lastLine(out)), &missing); err != nil {
		return nil, fmt.Errorf("its answer is no list: %w", err)
	}
	return missing, nil
}

// intersect are those of all that are some as well.
func intersect(all, some []string) []string {
	var both []string
	for _, name := range all {
		if slices.Contains(some, name) {
			both = append(both, name)
		}
	}
	return both
}

// list is a few of many.
func list(names []string) string {
	const few = 12
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
