package unpack_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"airlock/internal/unpack"
)

// smallFiles makes a folder of 10,000 files of 1 KiB.
func smallFiles(b *testing.B, root string) {
	b.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), 64)
	for i := range 10_000 {
		dir := filepath.Join(root, fmt.Sprintf("d%02d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%d", i)), data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPackSmallFiles(b *testing.B) {
	root := b.TempDir()
	smallFiles(b, root)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := unpack.Pack(b.Context(), io.Discard, root, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpackSmallFiles(b *testing.B) {
	root := b.TempDir()
	smallFiles(b, filepath.Join(root, "from"))
	var tarball bytes.Buffer
	if _, err := unpack.Pack(b.Context(), &tarball, filepath.Join(root, "from"), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		to := b.TempDir()
		if _, err := unpack.Into(b.Context(), to, bytes.NewReader(tarball.Bytes()), nil); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = os.RemoveAll(to)
		b.StartTimer()
	}
}
