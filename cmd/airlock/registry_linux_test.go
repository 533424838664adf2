package main_test

import (
	"context"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"airlock/internal/image/imagetest"
)

// realRegistry starts a registry with TLS until the script's end: its address is $REGISTRY, ca.crt in the folder $CERTS is whom to
// trust, and ann is let in with the password secret.
func realRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: registry")
	}
	cert, key, err := imagetest.Certificate()
	ts.Check(err)
	dir := ts.MkAbs("../registry")
	certs := ts.MkAbs("../certs")
	ts.Check(os.Mkdir(dir, 0o700))
	ts.Check(os.Mkdir(certs, 0o700))
	ts.Check(os.WriteFile(certs+"/ca.crt", cert, 0o600))
	addr, end, err := imagetest.Serve(context.Background(), dir, cert, key)
	ts.Check(err)
	ts.Defer(end)
	ts.Setenv("REGISTRY", addr)
	ts.Setenv("CERTS", certs)
}
