//go:build linux

package guest_test

import (
	"testing"

	"go.uber.org/goleak"

	"airlock/internal/guest"
)

type options = guest.Options

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
