package svcs_test

import (
	"context"
	"os"
	"testing"

	"airlock/internal/guest"
	"airlock/internal/tool/builtin/pkgs/throwaway"
)

func TestMain(m *testing.M) {
	if os.Getenv(throwaway.GuestEnv) != "" {
		os.Exit(guest.Main(context.Background(), "test", []string{"--listen", "stdio"}, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
