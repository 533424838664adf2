package shellrisk

// su judges su and runuser: an option holds a shell's text, or the words after the user
// do, or there is a shell.
func su(c *call) {
	c.judge()
	s := &c.scan
	for i := range s.opts {
		if o := s.opts[i].opt; o != nil && o.exec == "shell" {
			c.append(*c.part)
			return
		}
	}
	rest := s.operands
	for len(rest) > 0 && rest[0].Known && rest[0].Value == "-" {
		rest = rest[1:]
	}
	if c.part.User == "" && len(rest) > 0 {
		c.part.User = printable(rest[0].Value)
		rest = rest[1:]
		if len(rest) > 0 {
			c.part.add(Unknown, c.name+" starts a shell with words of its own")
			rest = nil
		}
	}
	c.runs(rest)
}

// script judges script, which records what a shell does.
func script(c *call) {
	c.judge()
	s := &c.scan
	runs := false
	for i := range s.opts {
		o := s.opts[i].opt
		runs = runs || o != nil && o.exec == "shell"
	}
	out := literal("typescript")
	if len(s.operands) > 0 {
		out = s.operands[0]
	}
	c.file(c.part, &out, useWrite, c.sc, &c.fr)
	if !runs {
		c.part.add(Unknown, "script starts a shell")
	}
	c.append(*c.part)
}

// cloud judges the clients of clouds whose sub-commands are groups and then a verb: the
// verb is looked up among the verbs that all of them use.
func cloud(c *call) {
	c.judge()
	p := c.part
	verbs, groups := c.tables["cloud-words"], c.tables["cloud-groups"]
	risk, found := Unknown, false
	for i := range c.scan.operands {
		f := &c.scan.operands[i]
		if !f.Known {
			break
		}
		v := verbs.sub(f.Value)
		switch {
		case !found && groups.sub(f.Value) != nil && i < len(c.scan.operands)-1:
		case !found && v != nil:
			risk, found = v.risk, true
		case v != nil && v.risk == Destructive && risk == Unknown:
			risk = Destructive
		default:
			found = true
		}
	}
	if risk == ReadOnly {
		kept := p.Effects[:0:0]
		for _, e := range p.Effects {
			if e.Risk != Unknown {
				kept = append(kept, e)
			}
		}
		p.Effects = kept
	} else {
		p.add(risk, c.name+" is told to do more than look")
	}
	c.append(*p)
}

// push judges git push, where a name may say by itself that it replaces or deletes.
func push(c *call) {
	c.judge()
	for i := range c.scan.operands {
		f := &c.scan.operands[i]
		if start := f.start(); start != "" && (start[0] == '+' || start[0] == ':') || !f.Known && start == "" {
			c.part.add(Destructive, "git push can replace or delete what others have")
		}
	}
	c.append(*c.part)
}
