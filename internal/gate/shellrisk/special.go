package shellrisk

import (
	"path"
	"strings"
)

func fileHandlerOf(name string) func(*call) {
	switch name {
	case "find":
		return find
	case "sed":
		return sed
	case "awk":
		return awk
	case "sql":
		return sql
	case "cd":
		return cd
	case "set":
		return setNames
	case "test":
		return test
	case "chmod":
		return chmod
	case "dd":
		return dd
	case "tar":
		return tar
	case "python":
		return python
	case "applet":
		return applet
	case "push":
		return push
	case "su":
		return su
	case "script":
		return script
	case "cloud":
		return cloud
	}
	return func(c *call) { // a table names what there is not
		c.part.add(Unknown, "what "+c.title()+" does cannot be told")
		c.append(*c.part)
	}
}

// cd follows the shell into a folder.
func cd(c *call) {
	c.judge()
	c.append(*c.part)
	ops := c.scan.operands
	was := c.sc.cwd
	switch {
	case c.fr.noFuncs && c.fr.base != nil && !isBuiltinWrapper(c.fr.base.Wrappers):
		return
	case c.name == "popd" || len(ops) > 1 || c.name == "pushd" && len(ops) == 0:
		c.sc.cwd = ""
	case len(ops) == 0:
		c.sc.cwd = c.home
	case !ops[0].Known || ops[0].Value == "-" || ops[0].Value == "" || c.fr.remote:
		c.sc.cwd = ""
	default:
		dir := ops[0]
		if !path.IsAbs(dir.Value) && !strings.HasPrefix(dir.Value, ".") {
			if _, set := c.sc.lookup("CDPATH"); set || c.opts.Env["CDPATH"] != "" {
				c.sc.cwd = ""
				return
			}
		}
		c.sc.cwd, _ = c.absolute(&dir, c.sc)
	}
	if was != c.workDir && below(c.sc.cwd, c.workDir) && !below(was, c.workDir) {
		c.sc.cwd = "" // where there is no such folder, the shell stays outside
	}
}

func isBuiltinWrapper(list []string) bool {
	return len(list) > 0 && (list[len(list)-1] == "command" || list[len(list)-1] == "builtin")
}

// setNames judges the builtins that set the variables they are told the names of.
func setNames(c *call) {
	c.judge()
	if c.name != "printf" {
		for i := range c.scan.operands {
			c.setsName(&c.scan.operands[i])
			if c.name == "unset" && c.scan.operands[i].Known {
				c.sc.define(c.scan.operands[i].Value, false)
			}
		}
	}
	c.append(*c.part)
}

// setsName notes that a builtin sets a variable.
func (c *call) setsName(f *field) {
	name, index, _ := strings.Cut(f.Value, "[")
	switch {
	case !f.Known:
		c.sc.goWild()
		c.part.add(Unknown, c.name+" sets a variable whose name cannot be told")
		return
	case strings.ContainsAny(index, "$`["):
		c.part.add(Unknown, c.name+" is given an index that could run a command")
	case !c.quietVariable(name) && name != "IFS":
		c.part.add(Unknown, name+" changes what programs do")
	}
	c.sc.forget(name, false)
}

// test judges test and [: an index in the name of a variable can run a command.
func test(c *call) {
	for i := range c.args {
		f := &c.args[i]
		before := ""
		if i > 0 {
			before = c.args[i-1].Value
		}
		named := before == "-v" || before == "-R"
		if f.many && f.unsafe || named && !f.Known || f.Known && strings.Contains(f.Value, "[") && strings.ContainsAny(f.Value, "$`") {
			c.part.add(Unknown, c.name+" is given an index that could run a command")
		}
	}
	c.append(*c.part)
}

// chmod judges changes of rights and owners.
func chmod(c *call) {
	c.judge()
	p := c.part
	for i := range c.scan.opts {
		name := c.scan.opts[i].name
		if name != "-R" && name != "--recursive" {
			continue
		}
		for j := range p.Effects {
			if WritesInside.Less(p.Effects[j].Risk) {
				p.Effects[j].Risk = Destructive
			}
		}
	}
	c.append(*p)
}

// dd judges dd's operands, each of which says what it is.
func dd(c *call) {
	for i := range c.args[1:] {
		f := c.args[i+1]
		key, value, _ := strings.Cut(f.start(), "=")
		f.Value = value
		f.prefix = strings.TrimPrefix(f.prefix, key+"=")
		switch {
		case key == "if":
			c.file(c.part, &f, useRead, c.sc, &c.fr)
		case key == "of" && !harmlessDevices[value]:
			c.part.add(Destructive, "dd overwrites what it is told to")
			c.file(c.part, &f, useWrite, c.sc, &c.fr)
		case !c.args[i+1].Known && !strings.Contains(c.args[i+1].prefix, "="):
			c.part.add(Unknown, "dd is given a word that cannot be told")
		}
	}
	c.append(*c.part)
}

// tar judges tar, whose first word may be its options without a dash.
func tar(c *call) {
	if len(c.args) > 1 && c.args[1].Known && c.args[1].Value != "" && c.args[1].Value[0] != '-' {
		args := append([]field(nil), c.args[1:]...)
		args[0].Value = "-" + args[0].Value
		c.scan = c.take(c.prog, args)
		c.part.Operands, c.part.Options = nil, nil
		c.fill()
	}
	c.judge()
	extract, create := false, false
	var archive, dir *field
	for i := range c.scan.opts {
		switch o := &c.scan.opts[i]; o.name {
		case "-x", "--extract", "--get":
			extract = true
		case "-c", "-r", "-u", "-A", "--create", "--append", "--update", "--catenate", "--concatenate", "--delete":
			create = true
		case "-f", "--file":
			archive = &o.value
		case "-C", "--directory":
			dir = &o.value
		}
	}
	if archive != nil && strings.Contains(archive.Value, ":") {
		c.part.add(Network, "tar reaches another machine for its archive")
	}
	switch {
	case archive != nil && create:
		c.file(c.part, archive, useWrite, c.sc, &c.fr)
	case archive != nil:
		c.file(c.part, archive, useRead, c.sc, &c.fr)
	}
	if extract {
		here := literal(".")
		if dir == nil {
			dir = &here
		}
		c.file(c.part, dir, useMake, c.sc, &c.fr)
	}
	c.append(*c.part)
}

// python judges python, of which only a few modules are known.
func python(c *call) {
	args := c.args[1:]
	if len(args) > 1 && args[0].Known && args[0].Value == "-m" && args[1].Known {
		switch args[1].Value {
		case "json.tool":
			if len(args) <= 3 {
				c.append(*c.part)
				return
			}
		case "pip":
			c.fr.noFuncs = true
			c.command(append([]field{literal("pip")}, args[2:]...), c.sc, c.fr)
			return
		}
	}
	c.judge()
	if c.fr.stdin != nil && c.fr.stdin.net && !c.scan.only {
		c.part.add(Unknown, c.name+" may run what comes from another machine")
	}
	c.append(*c.part)
}

// applet judges busybox and its like: the first word is the program.
func applet(c *call) {
	args := c.args[1:]
	if len(args) == 0 || args[0].Known && strings.HasPrefix(args[0].Value, "--") {
		c.append(*c.part)
		return
	}
	c.runs(args)
}

// find judges find's expression.
func find(c *call) {
	args := c.args[1:]
	start := ""
	for i := 0; i < len(args); i++ {
		f := &args[i]
		text := f.start()
		expression := f.Known && (text == "!" || text == "(" || text == ")" || text == "," || strings.HasPrefix(text, "-"))
		switch {
		case expression:
			i = c.predicate(args, i, start)
		case f.many || !f.Known && (text == "" || strings.HasPrefix(text, "-")):
			c.part.add(Unknown, "find is given a word that could be an action")
		case start == "" || strings.HasPrefix(text, "-"):
			start = text
			c.file(c.part, f, useRead, c.sc, &c.fr)
		default:
			c.file(c.part, f, useRead, c.sc, &c.fr)
		}
	}
	c.append(*c.part)
}

// predicate judges the word of find's expression at i, and gives the last one it took.
func (c *call) predicate(args []field, i int, start string) int {
	name := args[i].Value
	if len(name) < 2 || name == "--" {
		return i
	}
	if strings.HasPrefix(name, "-exec") || strings.HasPrefix(name, "-ok") {
		end := i + 1
		for end < len(args) && !(args[end].Known && (args[end].Value == ";" || args[end].Value == "+" && args[end-1].Value == "{}")) {
			end++
		}
		inner := append([]field(nil), args[i+1:end]...)
		if start == "" {
			start = "."
		}
		replace(inner, "{}", start)
		fr := c.fr
		fr.base, fr.noFuncs, fr.stdin = c.wrapped(), true, nil
		sc := c.sc
		if strings.HasSuffix(name, "dir") {
			sc = sc.child()
			sc.cwd = ""
		}
		c.command(inner, sc, fr)
		return end
	}
	o := c.prog.opts[name]
	if o == nil {
		if !strings.HasPrefix(name, "-newer") && !strings.HasPrefix(name, "-O") {
			c.part.add(Unknown, "find has an action that is not known: "+printable(name))
		}
		return i
	}
	if o.risk != "" {
		c.part.add(o.risk, because(o.why, o.risk, "find "+name))
	}
	if !o.value || i+1 >= len(args) {
		return i
	}
	if args[i+1].many {
		c.part.add(Unknown, "find is given a word that could be an action")
	}
	c.file(c.part, &args[i+1], o.use, c.sc, &c.fr)
	return i + 1
}
