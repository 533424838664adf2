package shellrisk

import (
	"strings"
)

// shell judges a shell: its -c, what it reads, or its script.
func shell(c *call) {
	args, how, done := c.shellOptions()
	if done {
		c.append(*c.part)
		return
	}
	fr := c.fr
	if c.prog.risk != ReadOnly { // its language is not bash's
		c.part.add(c.prog.risk, because(c.prog.why, c.prog.risk, c.name))
	}
	switch {
	case how.text && len(args) > 0 && args[0].Known:
		fr.base = c.wrapped()
		c.shellText(args[0].Value, c.sc.shell(), fr)
		return
	case how.text:
		c.part.add(Unknown, c.name+" -c runs text that is not literal")
	case len(args) > 0 && !how.stdin:
		if how.noexec {
			c.file(c.part, &args[0], useRead, c.sc, &c.fr)
			break
		}
		c.part.add(Unknown, c.name+" runs a script: "+printable(args[0].Value))
	case fr.stdin != nil && fr.stdin.known:
		fr.base = c.wrapped()
		in := fr.stdin.text
		fr.stdin = nil
		c.shellText(in, c.sc.shell(), fr)
		return
	case fr.stdin != nil && fr.stdin.net:
		c.part.add(Destructive, c.name+" runs what comes from another machine")
	case !how.noexec:
		c.part.add(Unknown, c.name+" runs what it reads")
	}
	c.append(*c.part)
}

// A shellUse says how a shell is told to start.
type shellUse struct{ text, noexec, stdin bool }

// shellOptions takes a shell's options; done: it does nothing but say what it is.
func (c *call) shellOptions() (rest []field, how shellUse, done bool) {
	args := c.args[1:]
	i := 0
	for ; i < len(args); i++ {
		f := &args[i]
		if !f.Known {
			break
		}
		v := f.Value
		if v == "--" || v == "-" {
			i++
			break
		}
		if len(v) < 2 || v[0] != '-' && v[0] != '+' {
			break
		}
		if strings.HasPrefix(v, "--") {
			o := c.prog.option(v)
			switch {
			case o == nil:
				c.part.add(Unknown, c.name+" has an option that is not known: "+printable(v))
			case o.only:
				return nil, how, true
			case o.value:
				i++
				c.part.add(Unknown, c.name+" "+v+" runs a file first")
			}
			continue
		}
		how.text = how.text || strings.Contains(v, "c")
		how.noexec = how.noexec || strings.Contains(v, "n") && v[0] == '-'
		how.stdin = how.stdin || strings.Contains(v, "s")
		if strings.HasSuffix(v, "o") || strings.HasSuffix(v, "O") {
			i++
		}
	}
	return args[min(i, len(args)):], how, false
}

// eval judges eval: its words are read again, here.
func eval(c *call) {
	args := c.args[1:]
	if len(args) > 0 && args[0].Known && args[0].Value == "--" {
		args = args[1:]
	}
	var b strings.Builder
	for i := range args {
		if !args[i].Known {
			c.part.add(Unknown, "eval runs text that is not literal")
			c.append(*c.part)
			c.sc.goWild()
			c.sc.cwd = ""
			return
		}
		b.WriteString(args[i].Value)
		b.WriteByte(' ')
	}
	fr := c.fr
	fr.base = c.wrapped()
	c.shellText(b.String(), c.sc, fr)
}

// trap judges trap: its first word is a shell's text for later.
func trap(c *call) {
	args := c.args[1:]
	for len(args) > 0 && args[0].Known && strings.HasPrefix(args[0].Value, "-") && args[0].Value != "-" {
		v := args[0].Value
		args = args[1:]
		if v != "--" { // -l, -p
			args = nil
		}
	}
	if len(args) < 2 || args[0].Known && (args[0].Value == "-" || args[0].Value == "") {
		c.append(*c.part)
		return
	}
	if !args[0].Known {
		c.part.add(Unknown, "trap keeps text that is not literal")
		c.append(*c.part)
		return
	}
	fr := c.fr
	fr.base = c.wrapped()
	later := c.sc.child()
	later.goWild()
	later.cwd = ""
	c.shellText(args[0].Value, later, fr)
}
