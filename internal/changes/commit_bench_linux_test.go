package changes_test

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkCommitOfTenThousandFiles commits 10,000 small files, half of them in new
// folders and half over files that are there, and undoes it.
func BenchmarkCommitOfTenThousandFiles(b *testing.B) {
	w := newWorld(b, func(w *world, r string) {
		for i := range 5000 {
			w.write(r, fmt.Sprintf("old-%d/%d", i%50, i), fmt.Sprint("old ", i))
		}
	}, func(w *world, r string) {
		for i := range 5000 {
			w.write(r, fmt.Sprintf("old-%d/%d", i%50, i), fmt.Sprint("new ", i))
			w.write(r, fmt.Sprintf("new-%d/%d", i%50, i), fmt.Sprint("added ", i))
		}
	})
	for b.Loop() {
		start := time.Now()
		if _, err := w.commit(nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/commit")
		start = time.Now()
		if _, err := w.undo(nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/undo")
	}
	if _, err := os.Stat(w.host); err != nil {
		b.Fatal(err)
	}
}
