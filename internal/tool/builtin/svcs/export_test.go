package svcs

// What the tests look at beside the tools.

// CheckName is a manager's grammar: the unit that a service's name means.
func CheckName(manager, service string) (string, error) { return byName(manager).check(service) }

// Managers are the names of all managers.
func Managers() []string {
	var names []string
	for _, m := range managers {
		names = append(names, m.name)
	}
	return names
}

// Argvs are a manager's arguments for each action.
func Argvs(manager string) map[string][]string { return byName(manager).actions }

// ReadShow reads what systemctl show writes.
func ReadShow(unit, output string) (Service, error) { return readShow(unit, output) }

// ReadLists reads what systemctl writes of its units and of their files.
func ReadLists(units, files string) []Service {
	return mergeSystemd(readUnits(units), readUnitFiles(files))
}

// ReadRCStatus reads what rc-status writes.
func ReadRCStatus(output string) []Service { return readRCStatus(output) }

// ReadRunlevels reads what rc-update show writes.
func ReadRunlevels(output string) map[string]string { return readRunlevels(output) }

// ReadLaunchctl reads what launchctl list writes.
func ReadLaunchctl(output string) []Service { return readLaunchctl(output) }

// ReadPrint reads the state in what launchctl print writes.
func ReadPrint(output string) string { return readPrint(output) }

// ReadDisabled reads what launchctl print-disabled writes.
func ReadDisabled(output string) map[string]bool { return readDisabled(output) }

func byName(name string) *manager {
	for _, m := range managers {
		if m.name == name {
			return m
		}
	}
	panic("no manager " + name)
}
