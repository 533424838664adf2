package pkgs

// What the tests look at beside the tools.

// CheckNames is a manager's grammar.
func CheckNames(manager string, pinned bool, names ...string) error {
	return byName(manager).names.check(names, pinned)
}

// ParseInstalled reads a manager's list of installed packages.
func ParseInstalled(manager, output string) []Package { return byName(manager).installed(output) }

// ParseFound reads what a manager's search found: name, version and description each.
func ParseFound(manager, output string) [][3]string {
	var list [][3]string
	for _, f := range byName(manager).found(output) {
		list = append(list, [3]string{f.Name, f.Version, f.About})
	}
	return list
}

// Preferred are the names of the managers in the order in which a system with this
// os-release is asked for them.
func Preferred(osRelease string) []string {
	var names []string
	for _, m := range preferred(systemIDs(osRelease)) {
		names = append(names, m.name)
	}
	return names
}

// Managers are the names of all managers.
func Managers() []string { return Preferred("") }

// Argvs are all argument lists of a manager, by what they are for. Names follow those of
// "install", "remove" and "upgrade some".
func Argvs(manager string) map[string][]string {
	m := byName(manager)
	return map[string][]string{
		"install": m.install.argv, "remove": m.remove.argv, "update": m.update.argv,
		"upgrade": m.upgrade.argv, "upgrade some": m.upgradeSome.argv,
		"search": m.search.argv, "list": m.list,
		"install, dry": m.install.dry, "remove, dry": m.remove.dry, "upgrade some, dry": m.upgradeSome.dry,
	}
}

func byName(name string) *manager {
	for _, m := range managers {
		if m.name == name {
			return m
		}
	}
	panic("no manager " + name)
}
