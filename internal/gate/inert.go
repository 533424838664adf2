package gate

import (
	"bytes"
	"io"
	"path"
	"strings"
)

// What a change of a commit is to be.
const (
	typeFile = "file"
	typeDir  = "dir"
)

// maxSettings is how much of a file is read to tell that nothing runs what it says.
const maxSettings = 64 << 10

// inert reports whether nothing runs what a commit would write to a place from which
// programs take what they run: a folder by itself, a sample of a git hook, and of a
// repository that is new the settings that name no program. What is changed rather than
// new could turn a repository that is in use elsewhere, so it is not looked into.
func (p *CommitPath) inert() bool {
	name := strings.ToLower(path.Clean(p.Path))
	folder, base := path.Split(name)
	switch {
	case p.Type == typeDir:
		return p.Kind == "added"
	case p.Type != typeFile:
		return false
	case p.Kind != "added": // a hook may be a link to the sample that is changed
		return false
	case strings.HasSuffix(folder, "/.git/hooks/") && strings.HasSuffix(base, ".sample"):
		return true
	case base == ".git":
		return pointsToRepository(p.content())
	case base == "commondir":
		return strings.TrimSuffix(string(p.content()), "\n") == "../.."
	case strings.Contains(folder, "/.git/") && (base == "config" || base == "config.worktree"):
		return harmlessSettings(p.content())
	}
	return false
}

// content is what the commit would write; nil where it cannot be told or is too much.
func (p *CommitPath) content() []byte {
	if p.Content == nil {
		return nil
	}
	r, err := p.Content()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(io.LimitReader(r, maxSettings+1))
	if err != nil || len(text) > maxSettings {
		return nil
	}
	return text
}

// pointsToRepository reports whether a file in place of a .git folder names one within
// another: a worktree or a module, whose settings rules see as well.
func pointsToRepository(text []byte) bool {
	target, ok := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), "gitdir: ")
	if !ok || strings.ContainsAny(target, "\n\r\x00") {
		return false
	}
	parts := strings.Split(target, "/")
	for i, part := range parts {
		if part == ".git" && i+2 < len(parts) && (parts[i+1] == "worktrees" || parts[i+1] == "modules") {
			rest := strings.Join(parts[i+2:], "/")
			return path.Clean("/"+rest) == "/"+rest && !strings.Contains(rest, "..")
		}
	}
	return false
}

// harmlessSettings reports whether git settings are made of nothing but what git writes
// into a new repository: keys that name no program, no file and no other place. Whatever
// is written in an unusual way is not harmless, so that git cannot read it otherwise.
func harmlessSettings(text []byte) bool {
	if len(text) == 0 || bytes.ContainsAny(text, "\r\x00\\") {
		return false
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.Trim(line, " \t\n")
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			if section = sectionOf(line); section == "" {
				return false
			}
		default:
			key, value, given := strings.Cut(line, "=")
			if section == "" || !given || !harmlessSetting(section, strings.ToLower(strings.TrimRight(key, " \t")), strings.TrimLeft(value, " \t")) {
				return false
			}
		}
	}
	return true
}

// sectionOf reads a section's line; "" where it is more than that.
func sectionOf(line string) string {
	name, ok := strings.CutSuffix(line[1:], "]")
	if !ok {
		return ""
	}
	name, sub, has := strings.Cut(name, ` "`)
	if has {
		if sub, ok = strings.CutSuffix(sub, `"`); !ok || strings.ContainsAny(sub, `"]`) {
			return ""
		}
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return ""
		}
	}
	return strings.ToLower(name)
}

// What a setting's value may be.
const (
	anyValue = iota
	aSwitch  // true, false or a number
	aName    // of a branch, a remote or a revision
	aURL
)

// harmlessSettingsOf are the settings by section, with what they may hold.
var harmlessSettingsOf = map[string]map[string]int{
	"core": {
		"repositoryformatversion": aSwitch, "filemode": aSwitch, "bare": aSwitch, "logallrefupdates": aSwitch,
		"ignorecase": aSwitch, "precomposeunicode": aSwitch, "symlinks": aSwitch, "autocrlf": aName, "eol": aName,
		"safecrlf": aName, "quotepath": aSwitch, "abbrev": aName, "compression": aSwitch, "trustctime": aSwitch,
		"protecthfs": aSwitch, "protectntfs": aSwitch, "preloadindex": aSwitch, "untrackedcache": aName,
	},
	"remote":     {"url": aURL, "pushurl": aURL, "fetch": anyValue, "tagopt": anyValue, "promisor": aSwitch, "partialclonefilter": aName, "prune": aSwitch},
	"branch":     {"remote": aName, "merge": aName, "rebase": aName, "description": anyValue},
	"user":       {"name": anyValue, "email": anyValue},
	"init":       {"defaultbranch": aName},
	"pull":       {"rebase": aName, "ff": aName},
	"push":       {"default": aName, "autosetupremote": aSwitch},
	"gc":         {"auto": aSwitch},
	"submodule":  {"url": aURL, "active": aSwitch, "branch": aName},
	"extensions": {"objectformat": aName, "refstorage": aName, "partialclone": aName},
}

// harmlessSetting reports whether a setting can be let out unseen.
func harmlessSetting(section, key, value string) bool {
	kind, ok := harmlessSettingsOf[section][key]
	if !ok || strings.ContainsAny(value, "\"") {
		return false
	}
	switch kind {
	case aSwitch:
		v := strings.ToLower(value)
		return v == "true" || v == "false" || v != "" && strings.Trim(v, "0123456789") == ""
	case aName:
		return value != "" && value[0] != '-' && strings.Trim(value, nameChars+"/+") == "" && !strings.Contains(value, "..")
	case aURL:
		// A helper's name and two colons runs that helper; a dash could be an option.
		return value != "" && value[0] != '-' && !strings.Contains(value, "::") && !strings.Contains(value, "/-") && !strings.Contains(value, "@-")
	}
	return true
}
