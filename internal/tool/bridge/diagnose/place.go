package diagnose

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"airlock/internal/tool/bridge/setup"
)

// workspace looks at the folder that agents run in.
func (d *doctor) workspace(context.Context) {
	if d.file == nil {
		return
	}
	path := d.file.Workspace
	st, err := os.Stat(path)
	switch {
	case err != nil:
		d.add(Workspace, Error, path, err.Error(), "make it, or name another one as workspace.path or ADK_WORKSPACE")
		return
	case !st.IsDir():
		d.add(Workspace, Error, path, "it is no folder", "name a folder as workspace.path or ADK_WORKSPACE")
		return
	}
	well := true
	if err := usable(path); err != nil {
		well = false
		d.add(Workspace, Warning, path, "agents cannot write to it: "+err.Error(), "make it yours, or chmod u+w it, unless they need not")
	}
	if ownersKnown && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0 {
		well = false
		d.add(Workspace, Warning, path, fmt.Sprintf("everybody can write to it (mode %#o), and what lies there is run with your rights", st.Mode().Perm()), "chmod o-w "+quoted(path))
	}
	if len(d.file.Agents) == 0 {
		well = false
		d.add(Workspace, Warning, path, "no agent is configured", "name one under agents")
	}
	if well {
		d.add(Workspace, OK, path, "it is there and can be written", "")
	}
	d.shadows()
}

// shadows warns of files whose names are those of modules that most scripts import: the
// workspace is in PYTHONPATH, before Python's own.
func (d *doctor) shadows() {
	for _, p := range d.used {
		if !p.python {
			continue
		}
		for _, name := range []string{"json", "os", "re", "random", "logging", "argparse", "time", "datetime", "pathlib", "subprocess", "typing", "types", "email", "http", "queue", "select", "ssl", "string", "token", "code"} {
			file := filepath.Join(d.file.Workspace, name+".py")
			if isRegular(file) {
				d.add(Workspace, Warning, file, "each agent imports it in place of Python's own "+name+", since the workspace is in PYTHONPATH", "give it another name")
			}
		}
		return
	}
}

// gemini looks for the program that calls the original bridge.
func (d *doctor) gemini(ctx context.Context) {
	at := d.lookPath("gemini")
	if at == "" {
		d.add(Gemini, Info, "gemini", "PATH has no Gemini CLI, which is needed only where that one is to call the bridge", "npm install -g @google/gemini-cli")
		return
	}
	out, err := d.run(ctx, "", at, "--version")
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.add(Gemini, Warning, at, "it does not say its version: "+err.Error(), "npm install -g @google/gemini-cli")
		return
	}
	d.add(Gemini, OK, at, "version "+lastLine(out), "")
}

// smoke tries the interpreters, and has them read the scripts.
func (d *doctor) smoke(ctx context.Context) {
	for _, p := range d.used {
		// A Python that does not even say its version was told of before.
		if !d.tryable(p) || p.python && !p.well || ctx.Err() != nil {
			continue
		}
		k := kindOf(p.path)
		if p.python {
			k = kindPython
		}
		out, err := d.run(ctx, "", k.trial(p.path)...)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.add(Smoke, Error, p.path, "it does not run a program of one line: "+err.Error(), mendInterpreter(p))
			continue
		case strings.TrimSpace(out) != "42":
			d.add(Smoke, Error, p.path, "it was to print 42, and printed "+fmt.Sprintf("%q", words(lastLine(out))), mendInterpreter(p))
			continue
		}
		d.add(Smoke, OK, p.path, "it runs programs", "")
		for _, a := range p.agents {
			d.parses(ctx, p.path, k, a)
		}
	}
	d.ownInterpreters(ctx)
}

// ownInterpreters reads the scripts whose first line says what runs them.
func (d *doctor) ownInterpreters(ctx context.Context) {
	if d.file == nil {
		return
	}
	for i := range d.file.Agents {
		a := &d.file.Agents[i]
		if a.Interpreter != "" || a.Script == "" || ctx.Err() != nil {
			continue
		}
		program := d.named(a.Script)
		if program == "" || within(d.file.Workspace, program) {
			continue // what is in the workspace may be the agent's own
		}
		d.parses(ctx, program, kindOf(program), a)
	}
}

// named is the program that a script's first line says, or that env finds for it.
func (d *doctor) named(script string) string {
	f, err := openRegular(script)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head) // what cannot be read was told before
	line, ok := strings.CutPrefix(string(head[:n]), "#!")
	if !ok {
		return ""
	}
	line, _, _ = strings.Cut(line, "\n")
	fields := strings.Fields(line)
	if len(fields) > 1 && filepath.Base(fields[0]) == "env" {
		if fields = fields[1:]; fields[0] == "-S" && len(fields) > 1 {
			fields = fields[1:]
		}
		return d.lookPath(filepath.Base(fields[0]))
	}
	if len(fields) == 0 || !filepath.IsAbs(fields[0]) {
		return ""
	}
	return fields[0]
}

// parses has an interpreter read a script, and run none of it.
func (d *doctor) parses(ctx context.Context, program string, k kind, a *setup.Agent) {
	argv := k.parse(program, a.Script)
	if argv == nil || a.Script == "" || !isRegular(a.Script) || d.lookScript(a) != nil {
		return
	}
	_, err := d.run(ctx, "", argv...)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		d.add(Smoke, Error, a.Name, a.Script+" is no program that "+program+" can read: "+err.Error(), "mend it")
	default:
		d.add(Smoke, OK, a.Name, "its script can be read", "")
	}
}
