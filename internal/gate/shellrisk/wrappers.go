package shellrisk

import "strings"

// handlerOf gives what judges the programs whose doing a table cannot tell of: tables name
// it with do=.
func handlerOf(name string) func(*call) {
	switch name {
	case "":
		return nil
	case "wrap":
		return wrap
	case "env":
		return env
	case "flock":
		return flockCmd
	case "after":
		return after
	case "shell":
		return shell
	case "eval":
		return eval
	case "trap":
		return trap
	case "xargs":
		return xargs
	case "ssh":
		return ssh
	}
	return fileHandlerOf(name)
}

// wrap judges a program that runs another one, whose words follow its own.
func wrap(c *call) {
	c.judge()
	s := &c.scan
	if s.only && c.part.User == "" {
		c.append(*c.part)
		return
	}
	rest := s.operands[min(len(s.operands), s.prog.skip):]
	for i := range min(len(s.operands), s.prog.skip) {
		c.vagueOperand(&s.operands[i])
	}
	if s.prog.risk == Privileged { // sudo takes assignments as env does
		rest = c.assignments(rest)
	}
	c.runs(rest)
}

// vagueOperand notes an operand that decides which of the words are the command.
func (c *call) vagueOperand(f *field) {
	if f.many {
		c.part.add(Unknown, c.title()+" is given a word that could be several")
	}
}

// runs judges the command that a wrapper runs.
func (c *call) runs(args []field) {
	if len(args) == 0 {
		c.append(*c.part)
		return
	}
	fr := c.fr
	fr.base, fr.noFuncs = c.wrapped(), true
	sc := c.sc
	if c.scan.prog.remote {
		fr.remote, fr.stdin = true, nil
		sc = sc.shell()
		sc.cwd = ""
	}
	if c.scan.prog.joined {
		c.joined(args, sc, fr)
		return
	}
	c.command(args, sc, fr)
}

// joined judges words that are joined and read by a shell.
func (c *call) joined(args []field, sc *scope, fr frame) {
	var b strings.Builder
	for i := range args {
		if !args[i].Known {
			c.part.add(Unknown, c.title()+" is given shell text that is not literal")
			c.append(*c.part)
			return
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(args[i].Value)
	}
	c.shellText(b.String(), sc.shell(), fr)
}

// shellText judges text that a shell reads.
func (c *call) shellText(text string, sc *scope, fr frame) {
	fr.noFuncs = false
	first := len(c.parts)
	c.text(text, sc, fr)
	if len(c.parts) == first {
		c.append(*c.part)
	}
}

// env judges env: assignments, then a command; -S splits one word into that.
func env(c *call) {
	c.judge()
	s := &c.scan
	for i := range s.opts {
		o := &s.opts[i]
		if o.name != "-S" && o.name != "--split-string" {
			continue
		}
		if !o.value.Known || strings.ContainsAny(o.value.Value, `\$`) {
			c.part.add(Unknown, "env -S is given text that cannot be told")
		}
		fr := c.fr
		fr.base = c.wrapped()
		text := []byte(o.value.Value)
		for j := range s.operands {
			text = append(text, ' ')
			text = appendQuoted(text, s.operands[j].Value)
		}
		c.shellText(string(text), c.sc.shell(), fr)
		return
	}
	rest := s.operands
	if len(rest) > 0 && rest[0].Known && rest[0].Value == "-" {
		rest = rest[1:]
	}
	c.runs(c.assignments(rest))
}

// assignments judges the assignments before a command, and gives what follows them.
func (c *call) assignments(rest []field) []field {
	for len(rest) > 0 && strings.Contains(rest[0].start(), "=") {
		f := rest[0]
		name, value, _ := strings.Cut(f.Value, "=")
		f.Value = value
		if !c.passVariable(name, &f) {
			c.part.add(Unknown, printable(name)+"=… can change what the program does")
		}
		rest = rest[1:]
	}
	return rest
}

// flock judges flock, which takes a file and then a command or -c and a shell's text.
func flockCmd(c *call) {
	c.judge()
	args := c.scan.operands
	if len(args) > 1 && args[1].Known && (args[1].Value == "-c" || args[1].Value == "--command") {
		fr := c.fr
		fr.base = c.wrapped()
		c.joined(args[2:], c.sc, fr)
		return
	}
	c.runs(args[min(1, len(args)):])
}

// after judges a program whose command stands behind --.
func after(c *call) {
	c.judge()
	s := &c.scan
	at := s.dashAt
	if !s.dashes {
		at = min(s.prog.skip+1, len(s.operands))
	}
	c.runs(s.operands[at:])
}

// xargs judges a command to which words are added that it reads.
func xargs(c *call) {
	c.judge()
	s := &c.scan
	if s.only {
		c.append(*c.part)
		return
	}
	mark := ""
	for i := range s.opts {
		switch o := &s.opts[i]; o.name {
		case "-I", "--replace", "-J":
			mark = o.value.Value
		case "-i":
			if mark = o.value.Value; mark == "" {
				mark = "{}"
			}
		}
	}
	args := append([]field(nil), s.operands...)
	if len(args) == 0 {
		args = append(args, literal("echo"))
	}
	if mark == "" {
		args = append(args, field{Word: Word{Value: "…"}, many: true, unsafe: true})
	} else {
		replace(args, mark, "")
	}
	c.fr.stdin = nil
	c.runs(args)
}

// replace makes what holds a mark unknown: something else will stand there.
func replace(args []field, mark, start string) {
	for i := range args {
		at := strings.Index(args[i].Value, mark)
		if at < 0 || mark == "" {
			continue
		}
		args[i] = field{Word: Word{Value: args[i].Value}, prefix: args[i].Value[:at], unsafe: true}
		if at == 0 {
			args[i].prefix = start
		}
	}
}

// ssh judges ssh: what follows the host is a shell's text over there.
func ssh(c *call) {
	c.judge()
	s := &c.scan
	if s.only {
		c.append(*c.part)
		return
	}
	if len(s.operands) > 0 {
		c.part.host(printable(s.operands[0].Value))
		c.vagueOperand(&s.operands[0])
	}
	if len(s.operands) < 2 {
		if c.fr.stdin != nil {
			c.part.add(Unknown, "a shell on another machine runs what it reads")
		}
		c.append(*c.part)
		return
	}
	rest := s.operands[1:]
	if rest[0].Known && rest[0].Value == "--" {
		rest = rest[1:]
	}
	c.runs(rest)
}
