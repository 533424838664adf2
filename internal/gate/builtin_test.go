package gate_test

import (
	"testing"

	"airlock/internal/gate"
)

func TestTheBuiltInPolicyPassesItsOwnTests(t *testing.T) {
	if _, err := gate.New(nil); err != nil {
		t.Errorf("New: err = %v", err)
	}
}
