package changes_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"airlock/internal/changes"
)

// BenchmarkReadNothing is what a command costs that changed nothing.
func BenchmarkReadNothing(b *testing.B) {
	h, s := newHost(b), newStore(b)
	data := newLayer().bytes(b)
	for b.Loop() {
		w, err := s.Create(changes.Header{ID: testID, WorkDir: "/w"})
		if err != nil {
			b.Fatal(err)
		}
		if err := changes.Read(b.Context(), bytes.NewReader(data), w, &changes.ReadOptions{HostRoot: h.root, Started: time.Now()}); err != nil {
			b.Fatal(err)
		}
		if set, err := w.Finish(); err != nil || set.State != changes.None {
			b.Fatal(set, err)
		}
	}
}

// BenchmarkReadMany reads 100,000 small new files in 1,000 folders, to the disk.
func BenchmarkReadMany(b *testing.B) {
	h, s := newHost(b), newStore(b)
	l := newLayer().dir("./w/", 0o755)
	for i := range 1000 {
		l.opaque(fmt.Sprintf("./w/%d/", i), 0o755)
		for j := range 100 {
			l.file(fmt.Sprintf("./w/%d/%d", i, j), fmt.Sprintf("content of %d in %d", j, i))
		}
	}
	h.dir("/w")
	data := l.bytes(b)
	for b.Loop() {
		w, err := s.Create(changes.Header{ID: testID, WorkDir: "/w"})
		if err != nil {
			b.Fatal(err)
		}
		if err := changes.Read(b.Context(), bytes.NewReader(data), w, &changes.ReadOptions{HostRoot: h.root}); err != nil {
			b.Fatal(err)
		}
		if set, err := w.Finish(); err != nil || len(set.Changes) != 101_000 {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Remove(testID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
