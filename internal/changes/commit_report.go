package changes

// active lists the entries whose effect is on the host: commits that no undo took back.
// The last one is what the next undo takes.
func (m *committer) active() []*journal {
	var stack []*journal
	for _, j := range m.entries {
		if j.entry.Kind == kindCommit {
			stack = append(stack, j)
		} else if len(stack) > 0 {
			stack = stack[:len(stack)-1] // the last first: there is no other order
		}
	}
	return stack
}

// committed says which paths are let out.
func (m *committer) committed() map[Path]bool {
	done := make(map[Path]bool)
	for _, j := range m.active() {
		if j.num <= m.set.read {
			continue // the set was read since, and holds nothing that was let out then
		}
		for i := range j.ops {
			if j.ops[i].Do != doTouch && !j.ops[i].Aux {
				done[j.ops[i].Path] = true
			}
		}
	}
	return done
}

// restored says what the last undos left at each path, to know it again.
func (m *committer) restored() map[Path]*Node {
	out := make(map[Path]*Node)
	for _, j := range m.entries {
		for i := range j.ops {
			if j.ops[i].Do == doTouch {
				continue
			}
			delete(out, j.ops[i].Path)
			if n := j.after[i]; n != nil && j.entry.Kind == kindUndo {
				out[j.ops[i].Path] = n
			}
		}
	}
	return out
}

// remaining counts the changes of scope Work that could still be committed.
func (m *committer) remaining() int {
	done, n := m.committed(), 0
	for i := range m.set.Changes {
		if ch := &m.set.Changes[i]; ch.Scope == Work && ch.Refused == "" && !done[ch.Path] {
			n++
		}
	}
	return n
}

// state is the set's: Committed when something is let out and nothing of the work is left.
func (m *committer) state() State {
	switch {
	case !m.set.Live && m.set.State == Discarded, !m.set.lasting && m.set.State == None:
		return m.set.State
	case len(m.active()) > 0 && m.remaining() == 0:
		return Committed
	case m.set.lasting && len(m.set.Changes) == 0 && m.set.Live:
		return None
	case m.set.lasting && len(m.set.Changes) == 0:
		return Discarded
	}
	return Kept
}

func (m *committer) report(sel *selection, already []Path) *CommitReport {
	r := &CommitReport{ID: m.id}
	if sel != nil {
		r.Along, r.Left, r.Already = sel.along, sel.left, append(sel.already, already...)
	}
	m.reportState(r)
	return r
}

func (m *committer) reportState(r *CommitReport) {
	r.State, r.Remaining = m.set.State, m.remaining()
}

// reportOps lists what an entry does, in the order of the set.
func (m *committer) reportOps(r *CommitReport, j *journal) {
	kinds := make(map[Path]Kind, len(m.set.Changes))
	for i := range m.set.Changes {
		kinds[m.set.Changes[i].Path] = m.set.Changes[i].Kind
	}
	for i := range j.ops {
		if o := &j.ops[i]; o.Do != doSame && o.Do != doTouch && !o.Aux {
			r.Committed = append(r.Committed, Committing{o.Path, kinds[o.Path]})
		}
	}
}
