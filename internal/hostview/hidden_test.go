package hostview_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"airlock/internal/hostview"
)

// home makes a home folder with some secrets.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []string{".ssh/id_ed25519", ".ssh/config", ".ssh/keys/a", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", "src/main.go"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// below keeps the paths below dir, made relative to it.
func below(paths []string, dir string) []string {
	var out []string
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, dir+"/"); ok {
			out = append(out, rest)
		}
	}
	return out
}

func TestHidden(t *testing.T) {
	h := home(t)
	for _, tt := range []struct {
		name string
		rule hostview.Rules
		want []string
	}{
		{"secrets that exist are hidden", hostview.Rules{}, []string{".aws", ".config/gh", ".netrc", ".ssh"}},
		{"a path can be hidden as well", hostview.Rules{Hide: []string{h + "/src"}}, []string{".aws", ".config/gh", ".netrc", ".ssh", "src"}},
		{"a shown path is not hidden", hostview.Rules{Show: []string{h + "/.aws"}}, []string{".config/gh", ".netrc", ".ssh"}},
		{"a shown folder shows the secrets below it", hostview.Rules{Show: []string{h + "/.config"}}, []string{".aws", ".netrc", ".ssh"}},
		{
			"a shown file below a hidden folder leaves its neighbours hidden",
			hostview.Rules{Show: []string{h + "/.ssh/keys/a"}},
			[]string{".aws", ".config/gh", ".netrc", ".ssh/config", ".ssh/id_ed25519"},
		},
		{"what is Airlock's own stays hidden", hostview.Rules{State: []string{h + "/src"}, Show: []string{h + "/src"}}, []string{".aws", ".config/gh", ".netrc", ".ssh", "src"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := tt.rule
			rule.Homes, rule.WorkDir = []string{h}, h
			got, err := hostview.Hidden(&rule)
			if err != nil {
				t.Fatalf("Hidden: %v", err)
			}
			if got := below(got, h); !slices.Equal(got, tt.want) {
				t.Errorf("Hidden = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHiddenRefuses(t *testing.T) {
	h := home(t)
	for _, tt := range []struct {
		name, want string
		rule       hostview.Rules
	}{
		{"a working folder among the secrets", "use --show", hostview.Rules{WorkDir: h + "/.ssh/keys"}},
		{"the root folder", "--hide /", hostview.Rules{Hide: []string{"/"}}},
		{"a path that does not exist, which is likely a slip", "no such path", hostview.Rules{Show: []string{h + "/.shs"}}},
		{"an empty path", "is empty", hostview.Rules{Hide: []string{""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := tt.rule
			rule.Homes = []string{h}
			_, err := hostview.Hidden(&rule)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Hidden: err = %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestHiddenOfTheSystem(t *testing.T) {
	got, err := hostview.Hidden(&hostview.Rules{Homes: []string{"/nonexistent"}, WorkDir: "/usr"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/etc/shadow", "/root"} {
		if !slices.Contains(got, p) {
			t.Errorf("%s is not hidden from somebody at home elsewhere", p)
		}
	}
}

func TestGuardedAreSecretsThatDoNotExistYet(t *testing.T) {
	h := home(t)
	if err := os.Mkdir(h+"/settings", 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := hostview.Guarded(&hostview.Rules{Homes: []string{h}, Show: []string{h + "/.aws", h + "/.ssh/config", h + "/settings"}, Settings: []string{h + "/settings"}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		h + "/settings": true,
		h + "/.gnupg":   true, h + "/.netrc": true, h + "/.pgpass": true,
		h + "/.aws": false, h + "/.ssh": false, h + "/src": false,
	} {
		if slices.Contains(got, path) != want {
			t.Errorf("%s is guarded: %t, want %t", path, !want, want)
		}
	}
}
