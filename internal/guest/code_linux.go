package guest

import (
	"context"
	"strings"

	"airlock/agent"
	"airlock/internal/rpc"
)

// longCode is where code no longer goes in an argument: the kernel takes at most
// 128 KiB in one, and all of them share a limit with the environment.
const longCode = 64 << 10

// A language is how exec_code runs code.
type language uint8

const (
	unsupported language = iota
	python
	node
	bash
	sh
	rust
)

func languageOf(name string) language {
	switch strings.ToLower(name) {
	case "python", "python3":
		return python
	case "node", "javascript", "js":
		return node
	case "bash":
		return bash
	case "sh":
		return sh
	case "rust":
		return rust
	}
	return unsupported
}

// The loaders run what descriptor 3 holds as if it had been the argument, and close the
// descriptor first.
const (
	pythonLoader = `exec(compile(__import__("os").fdopen(3,"rb").read().decode(),"<string>","exec"))`
	nodeLoader   = `{const fs=require("fs"),code=fs.readFileSync(3,"utf8");fs.closeSync(3);(0,eval)(code+"\n//# sourceURL=[eval]")}`
	shellLoader  = `eval "exec 3<&-;$(cat <&3)"`
)

// shell is the argv that runs a line of shell of any length, and what descriptor 3 has
// to hold for it.
func shell(name, code string) (argv []string, behind string) {
	if len(code) < longCode {
		return []string{name, "-c", code}, ""
	}
	return []string{name, "-c", shellLoader}, code
}

// interpreter is what shell is, for a language that an interpreter runs.
func interpreter(lang language, code string) (argv []string, behind string) {
	short := len(code) < longCode
	switch {
	case lang == bash:
		return shell("bash", code)
	case lang == sh:
		return shell("sh", code)
	case lang == python && short:
		return []string{"python3", "-c", code}, ""
	case lang == python:
		return []string{"python3", "-c", pythonLoader}, code
	case short:
		return []string{"node", "-e", code}, ""
	}
	return []string{"node", "-e", nodeLoader}, code
}

type codeParams struct {
	agent.ExecCodeParams
	Lang *string `json:"lang"`
	Code *string `json:"code"`
}

func (p *codeParams) check() error {
	switch {
	case p.Lang == nil:
		return missing("lang")
	case p.Code == nil:
		return missing("code")
	case strings.IndexByte(*p.Code, 0) >= 0:
		return invalid("code has a NUL byte")
	}
	return checkOptions(&p.ExecOptions)
}

func (s *session) execCode(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p codeParams
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	lang := languageOf(*p.Lang)
	if lang == unsupported {
		return agent.ExecResult{ExitCode: -1, Stderr: "unsupported language: " + *p.Lang}, nil
	}
	what := told{cmd: cut(*p.Code, maxTold), lang: cut(*p.Lang, maxTold)}
	return s.call(ctx, peer, req, &p.ExecOptions, what, func(c *call) *agent.ExecResult {
		if lang == rust {
			return c.rust(*p.Code)
		}
		prog, err := c.program()
		if err != nil {
			return c.refused(err)
		}
		prog.argv, prog.code = interpreter(lang, *p.Code)
		return c.run(prog, c.outputs())
	})
}
