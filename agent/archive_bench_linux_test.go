package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"airlock/agent"
	"airlock/internal/guest/guesttest"
)

// trees are what copies are measured with.
func trees(b *testing.B) map[string]func(root string) int64 {
	return map[string]func(root string) int64{
		"one-200MB": func(root string) int64 {
			data := bytes.Repeat([]byte("0123456789abcdef"), 200<<20/16)
			if err := os.WriteFile(filepath.Join(root, "large"), data, 0o644); err != nil {
				b.Fatal(err)
			}
			return int64(len(data))
		},
		"10000x1KB": func(root string) int64 {
			data := bytes.Repeat([]byte("0123456789abcdef"), 64)
			for i := range 10_000 {
				dir := filepath.Join(root, fmt.Sprintf("d%02d", i/100))
				if i%100 == 0 {
					if err := os.Mkdir(dir, 0o755); err != nil {
						b.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d", i)), data, 0o644); err != nil {
					b.Fatal(err)
				}
			}
			return 10_000 << 10
		},
	}
}

func BenchmarkCopyIn(b *testing.B)  { benchmarkCopy(b, agent.CopyIn) }
func BenchmarkCopyOut(b *testing.B) { benchmarkCopy(b, agent.CopyOut) }

func benchmarkCopy(b *testing.B, cp copier) {
	for name, tree := range trees(b) {
		b.Run(name, func(b *testing.B) {
			root := b.TempDir()
			from := filepath.Join(root, "from")
			if err := os.Mkdir(from, 0o755); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(tree(from))
			connect := agent.Connector(guesttest.Connector(b, nil))
			for i := 0; b.Loop(); i++ {
				to := filepath.Join(root, fmt.Sprint(i))
				if _, err := cp(b.Context(), connect, from, to, nil); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				_ = os.RemoveAll(to)
				b.StartTimer()
			}
		})
	}
}
