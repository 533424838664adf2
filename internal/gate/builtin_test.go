package gate_test

import (
	"os"
	"strings"
	"testing"

	"airlock/internal/gate"
)

func TestTheBuiltInPolicyPassesItsOwnTests(t *testing.T) {
	if _, err := gate.New(nil); err != nil {
		t.Errorf("New: err = %v", err)
	}
}

// TestTheExampleInTheDocumentationLoads reads the policies of docs/policy.md.
func TestTheExampleInTheDocumentationLoads(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("docs/policy.md shows no policy")
	}
	for _, block := range blocks {
		policy, _, _ := strings.Cut(block, "```")
		if err := load(t, policy); err != nil {
			t.Errorf("%v\n%s", err, policy)
		}
	}
}
