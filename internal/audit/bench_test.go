package audit_test

import (
	"path/filepath"
	"sync"
	"testing"

	"airlock/internal/audit"
)

var typical = map[string]any{
	"argv": []string{"git", "status", "--short"}, "workdir": "/home/ann/src/project", "exit_code": 0, "duration_ms": 12,
}

// BenchmarkRecord is rows per second with the chain on, each on the disk when Record
// returns.
func BenchmarkRecord(b *testing.B) {
	for _, bm := range []struct {
		name    string
		writers int
	}{{"one writer", 1}, {"eight writers", 8}, {"sixty-four writers", 64}} {
		b.Run(bm.name, func(b *testing.B) {
			l := open(b, filepath.Join(b.TempDir(), "record.db"), nil)
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range bm.writers {
				all.Go(func() {
					for range (b.N + i) / bm.writers {
						if err := l.Record(b.Context(), "call", "abcdefgh", typical); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkOpen is what a program pays that records one row: opening the record, the row, and
// closing it.
func BenchmarkOpen(b *testing.B) {
	once := func(b *testing.B, path string) {
		l, err := audit.Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Record(b.Context(), "run", "abcdefgh", typical); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("one that there is", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "record.db")
		for b.Loop() {
			once(b, path)
		}
	})
	b.Run("a new one", func(b *testing.B) {
		for b.Loop() {
			once(b, filepath.Join(b.TempDir(), "record.db"))
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	l := open(b, filepath.Join(b.TempDir(), "record.db"), nil)
	const rows = 5000
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range rows / 50 {
				if err := l.Record(b.Context(), "call", "abcdefgh", typical); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	for b.Loop() {
		if _, err := l.Verify(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
