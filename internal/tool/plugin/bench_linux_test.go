package plugin_test

import "testing"

// BenchmarkInvoke is a call of the smallest plugin there can be: what a call costs
// beside the plugin's own work.
func BenchmarkInvoke(b *testing.B) {
	m := machine(b)
	p := probe(b, "", sh(`echo '{"ok":true,"stdout":"x"}'`), nil)
	for b.Loop() {
		if res := p.Invoke(b.Context(), m, goCall()); !res.OK {
			b.Fatal(res.Stderr)
		}
	}
}
