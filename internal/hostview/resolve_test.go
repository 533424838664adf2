package hostview_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"airlock/internal/hostview"
)

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestHiddenResolvesLinks(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(base, "real")
	for _, dir := range []string{"real/.ssh", "real/.aws", "real/work", "vault/gnupg", "state"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"vault/gnupg/ring", "vault/gnupg/conf"} {
		if err := os.WriteFile(filepath.Join(base, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(base, "home")
	link(t, real, home)
	link(t, filepath.Join(base, "vault/gnupg"), real+"/.gnupg")
	link(t, base, base+"/way")
	secrets := []string{"real/.aws", "real/.gnupg", "real/.ssh", "vault/gnupg"}
	for _, tt := range []struct {
		name string
		rule hostview.Rules
		want []string
	}{
		{"a home behind a link is hidden where it really is, and a link with what it leads to", hostview.Rules{}, secrets},
		{
			"state that does not exist yet is hidden where it will be",
			hostview.Rules{State: []string{base + "/way/state/new/airlock"}},
			append(slices.Clone(secrets), "state/new/airlock"),
		},
		{
			"state that cannot be shown cannot be shown by its real name",
			hostview.Rules{State: []string{base + "/way/state"}, Show: []string{base + "/state"}},
			[]string{"real/.aws", "real/.gnupg", "real/.ssh", "state", "vault/gnupg"},
		},
		{"a secret is shown by the name in the home", hostview.Rules{Show: []string{home + "/.gnupg"}}, []string{"real/.aws", "real/.ssh"}},
		{"a secret is shown by its real name", hostview.Rules{Show: []string{real + "/.ssh", base + "/vault/gnupg"}}, []string{"real/.aws"}},
		{
			"a file is shown through the link to its folder",
			hostview.Rules{Show: []string{home + "/.gnupg/conf"}},
			[]string{"real/.aws", "real/.ssh", "vault/gnupg/ring"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := tt.rule
			rule.Homes, rule.WorkDir = []string{home}, real
			got, err := hostview.Hidden(&rule)
			if err != nil {
				t.Fatalf("Hidden: %v", err)
			}
			if got, want := below(got, base), slices.Sorted(slices.Values(tt.want)); !slices.Equal(got, want) {
				t.Errorf("Hidden = %q, want %q", got, want)
			}
		})
	}
}

// A link that anybody could put there must not choose what is hidden from everybody.
func TestHiddenIgnoresPlantedLinks(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "ssh-airlock-test-") //nolint:usetesting // what is hidden is a name right in /tmp
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	planted := dir + "-link"
	link(t, "/usr", planted)
	defer os.Remove(planted)
	got, err := hostview.Hidden(&hostview.Rules{Homes: []string{"/nonexistent"}, WorkDir: "/usr"})
	if err != nil {
		t.Fatalf("Hidden: %v", err)
	}
	if !slices.Contains(got, dir) {
		t.Errorf("the folder %s is not hidden", dir)
	}
	if slices.Contains(got, planted) || slices.Contains(got, "/usr") {
		t.Errorf("the link %s was followed, or hidden for the driver to follow", planted)
	}
}
