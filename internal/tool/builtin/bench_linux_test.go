package builtin_test

import (
	"testing"

	"airlock/agent"
)

// What cmd.run costs beside the same shell through the bare client.
func BenchmarkRun(b *testing.B) {
	w := newWorld(b)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			res, err := w.m.Client.Run(b.Context(), agent.ExecParams{
				Argv: []string{"bash", "-c", "true"}, ExecOptions: agent.ExecOptions{Env: w.m.Env, ClearEnv: true},
			}, nil)
			if err != nil || !res.Success() {
				b.Fatal(res, err)
			}
		}
	})
	b.Run("cmd.run", func(b *testing.B) {
		for b.Loop() {
			if res := w.run("true"); !res.OK {
				b.Fatal(res)
			}
		}
	})
}

func BenchmarkFiles(b *testing.B) {
	w := newWorld(b)
	for _, c := range []struct {
		name, tool string
		args       map[string]any
	}{
		{"write", "fs.write_file", map[string]any{"path": "file", "content": "content"}},
		{"read", "fs.read_file", map[string]any{"path": "file"}},
		{"list", "fs.list_dir", map[string]any{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if res := w.call(c.tool, c.args); !res.OK {
					b.Fatal(res)
				}
			}
		})
	}
}
