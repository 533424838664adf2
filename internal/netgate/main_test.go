package netgate_test

import (
	"testing"

	"airlock/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
