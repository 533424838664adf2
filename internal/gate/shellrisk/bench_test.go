package shellrisk_test

import (
	"testing"

	"airlock/internal/gate/shellrisk"
)

// BenchmarkAnalyze judges the lines of all corpora, one after the other, on one core.
func BenchmarkAnalyze(b *testing.B) {
	lines := everyLine(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		shellrisk.Analyze(lines[n%len(lines)], place)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkAnalyzeReadOnly judges the lines that are judged most often.
func BenchmarkAnalyzeReadOnly(b *testing.B) {
	lines := corpus(b, "readonly.txt")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		shellrisk.Analyze(lines[n%len(lines)], place)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
}
