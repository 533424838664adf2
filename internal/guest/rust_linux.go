package guest

import (
	"fmt"
	"os"
	"path/filepath"

	"airlock/agent"
)

// rust compiles code in a private folder and runs what came out. The result of a
// compilation that fails is rustc's own: its exit code, and what it printed as stderr.
// The warnings of one that succeeds are dropped.
func (c *call) rust(code string) *agent.ExecResult {
	prog, err := c.program()
	if err != nil {
		return c.refused(err)
	}
	dir, err := os.MkdirTemp("", "airlock-rust-") // mode 0700
	if err != nil {
		return c.refused(fmt.Errorf("make a folder for the program: %w", err))
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			c.a.log.WarnContext(c.ctx, "a folder could not be removed", "path", dir, "error", err)
		}
	}()
	source, binary := filepath.Join(dir, "main.rs"), filepath.Join(dir, "main")
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		return c.refused(fmt.Errorf("keep the code: %w", err))
	}
	if prog.cred != nil {
		for _, path := range []string{source, dir} {
			if err := os.Lchown(path, int(prog.cred.Uid), int(prog.cred.Gid)); err != nil {
				return c.refused(fmt.Errorf("give the code to its user: %w", err))
			}
		}
	}
	compile := *prog
	compile.argv = []string{"rustc", "--edition", "2021", "-o", binary, source}
	compile.stdin, compile.input, compile.tty, compile.helper = "", false, nil, true
	var out, errs capture
	res := c.perform(&compile, [2]sink{&out, &errs})
	if res.ExitCode != 0 || res.TimedOut || res.Canceled {
		return c.uncompiled(res, &errs)
	}
	prog.argv = []string{binary}
	return c.run(prog, c.outputs())
}

// uncompiled is the result of a failed compilation, in the form that the call asked for.
func (c *call) uncompiled(res *agent.ExecResult, errs *capture) *agent.ExecResult {
	if res.NotStarted == "" {
		res.Stderr = errs.text()
	}
	outlets := c.outputs()
	to := outlets[1]
	if c.opts.TTY != nil {
		to = outlets[0]
	}
	if to.live != nil && res.NotStarted == "" {
		to.live.ctx = c.ctx
		to.take(errs.buf)
		res.Stderr = ""
	}
	return res
}
