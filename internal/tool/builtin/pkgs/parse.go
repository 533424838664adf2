package pkgs

import (
	"strings"

	"airlock/internal/lazyregexp"
)

// A Package is one that is installed.
type Package struct {
	Name    string
	Version string
	Arch    string // "" where the manager does not say
	Partly  bool   // an installation that was begun and did not end well
}

// A found is one that a search found.
type found struct {
	Name, Version, About string
}

// lines are the lines of a program's output, without their ends, the empty ones left out.
func lines(output string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(output, "\n") {
			if line = strings.TrimRight(line, "\r "); line != "" && !yield(line) {
				return
			}
		}
	}
}

// tabInstalled reads a state, name, version and architecture between tabs. The states are
// dpkg's; what is in none of them, such as "config-files", is not installed.
func tabInstalled(output string) []Package {
	var list []Package
	for line := range lines(output) {
		f := strings.Split(line, "\t")
		if len(f) != 4 || f[1] == "" || f[1] == "gpg-pubkey" { // a key in rpm's database
			continue
		}
		p := Package{Name: f[1], Version: f[2], Arch: f[3]}
		switch f[0] {
		case "installed", "triggers-awaited", "triggers-pending":
		case "half-installed", "half-configured", "unpacked":
			p.Partly = true
		default:
			continue
		}
		list = append(list, p)
	}
	return list
}

// spacedInstalled reads a name and a version a line; of several versions it takes the last.
func spacedInstalled(output string) []Package {
	var list []Package
	for line := range lines(output) {
		if f := strings.Fields(line); len(f) >= 2 {
			list = append(list, Package{Name: f[0], Version: f[len(f)-1]})
		}
	}
	return list
}

// apkName is NAME-VERSION, where a version begins with a digit and ends with its release.
var apkName = lazyregexp.New(`^([A-Za-z0-9_][A-Za-z0-9._+-]*?)-([0-9][A-Za-z0-9._]*(-r[0-9]+)?)$`)

func apkInstalled(output string) []Package {
	var list []Package
	for line := range lines(output) {
		if m := apkName.FindStringSubmatch(line); m != nil {
			list = append(list, Package{Name: m[1], Version: m[2]})
		}
	}
	return list
}

// dashed reads "NAME - ABOUT".
func dashed(output string) []found {
	var list []found
	for line := range lines(output) {
		if name, about, ok := strings.Cut(line, " - "); ok && name != "" && !strings.Contains(name, " ") {
			list = append(list, found{Name: name, About: about})
		}
	}
	return list
}

func apkFound(output string) []found {
	var list []found
	for _, f := range dashed(output) {
		if m := apkName.FindStringSubmatch(f.Name); m != nil {
			list = append(list, found{Name: m[1], Version: m[2], About: f.About})
		}
	}
	return list
}

// rpmLine is dnf's and yum's "NAME.ARCH : ABOUT"; newer ones put less space before the colon.
var rpmLine = lazyregexp.New(`^ ?([A-Za-z0-9_][^\s:]*)\.[a-z0-9_]+\s*:\s+(.*)$`)

func rpmFound(output string) []found {
	var list []found
	seen := map[string]bool{}
	for line := range lines(output) {
		if m := rpmLine.FindStringSubmatch(line); m != nil && !seen[m[1]] {
			seen[m[1]] = true
			list = append(list, found{Name: m[1], About: m[2]})
		}
	}
	return list
}

// zypperFound reads a table with the columns S, Name, Summary and Type.
func zypperFound(output string) []found {
	var list []found
	for line := range lines(output) {
		f := strings.Split(line, "|")
		if len(f) < 4 {
			continue
		}
		name := strings.TrimSpace(f[1])
		if kind := strings.TrimSpace(f[len(f)-1]); kind == "package" && name != "" {
			list = append(list, found{Name: name, About: strings.TrimSpace(strings.Join(f[2:len(f)-1], "|"))})
		}
	}
	return list
}

// pacmanFound reads "REPOSITORY/NAME VERSION …", each with its description on the next
// line, indented.
func pacmanFound(output string) []found {
	var list []found
	for line := range lines(output) {
		if strings.HasPrefix(line, " ") {
			if n := len(list); n > 0 && list[n-1].About == "" {
				list[n-1].About = strings.TrimSpace(line)
			}
			continue
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if _, name, ok := strings.Cut(f[0], "/"); ok && name != "" {
			list = append(list, found{Name: name, Version: f[1]})
		}
	}
	return list
}

// brewFound reads names, a line each, between headings.
func brewFound(output string) []found {
	var list []found
	for line := range lines(output) {
		if !strings.HasPrefix(line, "==>") && !strings.Contains(line, " ") {
			list = append(list, found{Name: line})
		}
	}
	return list
}

// systemIDs are the words of ID and ID_LIKE in os-release(5), ID's first.
func systemIDs(osRelease string) []string {
	var id, like []string
	for line := range lines(osRelease) {
		key, value, _ := strings.Cut(line, "=")
		value = strings.ToLower(strings.Trim(value, `"'`))
		switch key {
		case "ID":
			id = strings.Fields(value)
		case "ID_LIKE":
			like = strings.Fields(value)
		}
	}
	return append(id, like...)
}
