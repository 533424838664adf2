package shellrisk

import (
	"path"
	"strings"
)

// resolve gives an absolute path without links and "..", or "" where that cannot be told.
func (w *walker) resolve(p string) string {
	if w.opts.ResolvePath == nil {
		return path.Clean(p)
	}
	r := w.opts.ResolvePath(p)
	if !strings.HasPrefix(r, "/") {
		return ""
	}
	return path.Clean(r)
}

// absolute gives the path that a word names; false where it cannot be told.
func (w *walker) absolute(f *field, sc *scope) (string, bool) {
	name := f.Value
	if !f.Known {
		if !f.Glob || f.many || f.prefix == "" && strings.ContainsAny(f.Value, "$`") {
			return "", false
		}
		// A pattern for names in one folder: that folder is known.
		dir, last := path.Split(f.Value)
		if !strings.HasPrefix(f.prefix, dir) || strings.HasPrefix(last, ".") || strings.ContainsAny(f.Value, "$`'\"\\") {
			return "", false
		}
	}
	if name == "" || strings.Contains(name, "\x00") {
		return "", false
	}
	if name[0] != '/' {
		if sc.cwd == "" {
			return "", false
		}
		name = sc.cwd + "/" + name
	}
	name = w.resolve(name)
	return name, name != ""
}

// file notes that the part does something to a file.
func (w *walker) file(p *Part, f *field, u use, sc *scope, fr *frame) {
	w.step()
	switch u {
	case useText, "":
		return
	case useHost, useURL:
		w.hostNamed(p, f, u)
		return
	}
	if fr.remote {
		if u != useRead {
			p.effect(Effect{Risk: remoteRisk(u), Why: "it changes a file elsewhere", Path: printable(f.Value)})
		}
		return
	}
	op := OpWrite
	switch u {
	case useRead:
		op = OpRead
	case useDelete, useMove:
		op = OpDelete
	}
	if name, ok := strings.CutPrefix(f.start(), "/dev/tcp/"); ok || strings.HasPrefix(f.start(), "/dev/udp/") {
		host, _, _ := strings.Cut(strings.TrimPrefix(name, "/dev/udp/"), "/")
		p.host(printable(host))
		p.need("network")
		p.effect(Effect{Risk: Network, Why: "it speaks to another machine", Host: printable(host)})
		return
	}
	abs, known := w.absolute(f, sc)
	ref := PathRef{Path: printable(abs), Op: op, Known: known && f.Known}
	if !known {
		ref.Path = printable(f.Value)
	}
	p.Paths = append(p.Paths, ref)
	if u == useRead {
		return
	}
	e := Effect{Path: ref.Path}
	if e.Risk, e.Why = w.written(abs, known, u); e.Risk != ReadOnly {
		p.effect(e)
	}
}

func remoteRisk(u use) Risk {
	if u == useDelete {
		return Destructive
	}
	return WritesOutside
}

func (w *walker) hostNamed(p *Part, f *field, u use) {
	host := f.Value
	if u == useURL {
		if _, rest, ok := strings.Cut(host, "://"); ok {
			host = rest
		}
		host, _, _ = strings.Cut(host, "/")
		host = host[strings.LastIndexByte(host, '@')+1:]
	}
	if host != "" {
		p.host(printable(host))
	}
}

var harmlessDevices = map[string]bool{"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/stdin": true, "/dev/tty": true}

// written says what it means that a file is written to or deleted.
func (w *walker) written(abs string, known bool, u use) (Risk, string) {
	if u == useDelete {
		return Destructive, "it deletes files"
	}
	if !known {
		return WritesOutside, "it writes to a file that cannot be told"
	}
	switch {
	case harmlessDevices[abs] || below(abs, "/dev/fd") && abs != "/dev/fd":
		return ReadOnly, ""
	case below(abs, "/dev/shm"):
		return WritesOutside, "it writes to " + abs
	case below(abs, "/dev"), below(abs, "/proc"), below(abs, "/sys"):
		return Destructive, "it writes to a device or the kernel: " + abs
	}
	if w.workDir == abs && u != useMake {
		return WritesOutside, "it replaces the working folder"
	}
	if w.home != "" && below(abs, w.home) {
		first, _, _ := strings.Cut(strings.TrimPrefix(abs[len(w.home):], "/"), "/")
		if strings.HasPrefix(first, ".") && !below(w.workDir, w.home+"/"+first) {
			if u == useMake {
				return WritesOutside, "it writes to a person's settings: " + abs
			}
			return Destructive, "it replaces a person's settings: " + abs
		}
	}
	inside := w.workDir != "" && below(abs, w.workDir)
	for _, dir := range w.opts.TempDirs {
		inside = inside || strings.HasPrefix(dir, "/") && below(abs, path.Clean(dir))
	}
	for _, dir := range systemDirs {
		if below(abs, dir) && !below(w.workDir, dir) && !(inside && w.workDir != "/") && !below(abs, "/var/tmp") {
			if u == useMake {
				return Privileged, "it writes to the system's files: " + abs
			}
			return Destructive, "it replaces one of the system's files: " + abs
		}
	}
	if !inside {
		return WritesOutside, "it writes outside of the working folder: " + abs
	}
	if strings.Contains(abs+"/", "/.git/") && !strings.Contains(w.workDir+"/", "/.git/") {
		return Unknown, "what lies in .git can make git run programs"
	}
	return WritesInside, "it writes to " + abs
}

var systemDirs = []string{"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/var", "/opt", "/root", "/System", "/Library", "/run"}

// below reports whether a path is dir or lies in it.
func below(abs, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(abs, "/")
	}
	return dir != "" && strings.HasPrefix(abs, dir) && (len(abs) == len(dir) || abs[len(dir)] == '/')
}
