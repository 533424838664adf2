package gate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/internal/gate"
)

// What is built in is not held against its own tests each time the program starts: here
// it is.
func TestTheBuiltinPolicyPassesItsOwnTests(t *testing.T) {
	if _, err := gate.New(&gate.Options{Builtin: gate.BuiltinPolicy, Homes: []string{"/home/you"}, State: []string{"/home/you/.local/state/airlock", "/home/you/.config/airlock", "/etc/airlock"}}); err != nil {
		t.Error(err)
	}
}

// OnlyBuiltin rests on it.
func TestNothingBuiltInIsAboutSandboxes(t *testing.T) {
	text := string(gate.BuiltinPolicy)
	rules := strings.Count(text, "\n- name:")
	if rules == 0 || strings.Count(text, "\n  where: host\n") != rules {
		t.Errorf("of %d rules that are built in, %d say where: host", rules, strings.Count(text, "\n  where: host\n"))
	}
}

func TestOnlyBuiltin(t *testing.T) {
	dir := t.TempDir()
	user := filepath.Join(dir, "policy.yaml")
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(filepath.Join(work, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(&gate.Options{User: user, Homes: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if !g.OnlyBuiltin(work) {
		t.Error("OnlyBuiltin = false, and there is no other policy")
	}
	write := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("version: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(work, ".airlock", "policy.yaml"))
	if g.OnlyBuiltin(filepath.Join(work, "sub")) {
		t.Error("OnlyBuiltin = true below a project's policy")
	}
	if !g.OnlyBuiltin(dir) {
		t.Error("OnlyBuiltin = false beside a project with a policy")
	}
	write(user)
	if g.OnlyBuiltin(dir) {
		t.Error("OnlyBuiltin = true with a user's policy")
	}
	if err := os.Remove(user); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", user); err != nil {
		t.Fatal(err)
	}
	if g.OnlyBuiltin(dir) {
		t.Error("OnlyBuiltin = true with a policy that leads nowhere")
	}
}
