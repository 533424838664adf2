package shellrisk

import "strings"

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
	verbs := c.tables["cloud-words"]
	risk := Unknown
	only := true
	for i := range c.scan.operands {
		f := &c.scan.operands[i]
		if !f.Known {
			break
		}
		if v := verbs.sub(f.Value); v != nil {
			switch {
			case v.risk == Destructive:
				risk = Destructive
			case risk == Unknown || v.risk != ReadOnly:
				risk = v.risk
			}
			only = only && v.risk == ReadOnly
		}
		if i > 0 && (f.Value == "ssh" || f.Value == "run" || f.Value == "exec" || strings.Contains(f.Value, "=")) {
			only = false
		}
	}
	if only && risk == ReadOnly && len(p.Options) < 12 {
		for i := range p.Effects {
			if p.Effects[i].Risk == Unknown {
				p.Effects = append(p.Effects[:i:i], p.Effects[i+1:]...)
				break
			}
		}
	} else {
		p.add(risk, c.name+" is told to do more than look")
	}
	c.append(*p)
}
