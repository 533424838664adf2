package changes

import "strings"

// What is noise, as data. A folder of noise that the working folder lies in is none.
var (
	noiseFolders = [...]Path{
		"/tmp", "/var/tmp", "/proc", "/sys", "/dev", "/run", "/var/run", "/var/lock",
		"/var/cache", "/var/log", "/var/lib/apt/lists",
	}

	// Below a home folder: Home, /root and those in /home.
	noiseInHome = [...]string{
		".cache", ".npm/_cacache", ".npm/_logs", ".cargo/registry", ".gradle/caches",
		".local/share/Trash", "go/pkg/mod/cache", "Library/Caches",
		".bash_history", ".zsh_history", ".python_history", ".node_repl_history",
		".lesshst", ".viminfo", ".wget-hsts", ".sudo_as_admin_successful",
	}

	// Anywhere, in the working folder too: nobody writes these by hand.
	noiseNames = [...]string{
		"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis",
		".ipynb_checkpoints", ".parcel-cache", ".turbo", ".nyc_output", ".sass-cache",
		".eslintcache", ".DS_Store",
	}
	noisePairs = [...]string{"node_modules/.cache", "node_modules/.vite"}
)

// A scoper tells the work from what is beside it.
type scoper struct {
	work, home Path
}

// scope is p's. Where the working folder is "/" or a home, everything in it is work but
// what is noise there: /tmp and the caches.
func (s scoper) scope(p Path) Scope {
	inside := s.work != "" && p.Below(s.work)
	rest := string(p)
	if inside && s.work != "/" {
		rest = rest[len(s.work):]
	}
	switch {
	case s.inNoiseFolder(p), hasNoiseName(rest):
		return Noise
	case inside:
		return Work
	}
	return Outside
}

func (s scoper) inNoiseFolder(p Path) bool {
	for _, dir := range noiseFolders {
		if s.counts(p, dir) {
			return true
		}
	}
	home := s.homeOf(p)
	if home == "" {
		return false
	}
	for _, name := range noiseInHome {
		if s.counts(p, child(home, name)) {
			return true
		}
	}
	return false
}

// counts reports whether p is noise for being in dir. A person who works below /tmp
// does mean the files there: what is below the working folder then counts as work.
func (s scoper) counts(p, dir Path) bool {
	if !p.Below(dir) {
		return false
	}
	return s.work == "" || !s.work.Below(dir) || !p.Below(s.work)
}

// homeOf is the home folder that p is in, or "".
func (s scoper) homeOf(p Path) Path {
	if s.home != "" && s.home != "/" && p.Below(s.home) {
		return s.home
	}
	if p.Below("/root") {
		return "/root"
	}
	if rest, ok := strings.CutPrefix(string(p), "/home/"); ok {
		user, _, _ := strings.Cut(rest, "/")
		return Path("/home/" + user)
	}
	return ""
}

// hasNoiseName reports whether a component of p is a cache's name.
func hasNoiseName(p string) bool {
	last := ""
	for name := range strings.SplitSeq(p, "/") {
		for _, n := range noiseNames {
			if name == n {
				return true
			}
		}
		for _, n := range noisePairs {
			if dir, base, _ := strings.Cut(n, "/"); name == base && last == dir {
				return true
			}
		}
		last = name
	}
	return false
}
