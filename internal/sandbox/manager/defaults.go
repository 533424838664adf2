package manager

// orDefaults fills in bounds that a request says nothing of: one sandbox should not be able to take
// the machine, whoever forgot to bound it.
func (l Limits) orDefaults(d Limits) Limits {
	if l.Memory == 0 {
		l.Memory = d.Memory
	}
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	if l.Procs == 0 {
		l.Procs = d.Procs
	}
	if l.Disk == 0 {
		l.Disk = d.Disk
	}
	if l.Files == 0 {
		l.Files = d.Files
	}
	if l.Output == 0 {
		l.Output = d.Output
	}
	if l.Timeout == 0 {
		l.Timeout = d.Timeout
	}
	return l
}
