package main_test

// Modules that are needed by packages still being written.
import (
	_ "github.com/aymanbagabas/go-udiff"
	_ "github.com/creack/pty"
	_ "github.com/gofrs/flock"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/mdlayher/vsock"
	_ "github.com/opencontainers/runtime-spec/specs-go"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
)
