package netgate_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"airlock/internal/netgate"
)

func TestWhereSecretsComeFrom(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       netgate.Secret
		back       string
	}{
		{"a variable", "KEY=env:MY_KEY", netgate.Secret{Name: "KEY", Source: "env:MY_KEY"}, ""},
		{"a file for a host", "KEY=file:/etc/key@api.example", netgate.Secret{Name: "KEY", Source: "file:/etc/key", Hosts: []string{"api.example"}}, ""},
		{"a command for two", "KEY=cmd:pass show x@a.example, *.B.example", netgate.Secret{Name: "KEY", Source: "cmd:pass show x", Hosts: []string{"a.example", "*.b.example"}}, "KEY=cmd:pass show x@a.example,*.b.example"},
		{"an @ of its own", "KEY=cmd:pass me@x.example@", netgate.Secret{Name: "KEY", Source: "cmd:pass me@x.example"}, ""},
		{"an = of its own", "KEY=cmd:a=b c", netgate.Secret{Name: "KEY", Source: "cmd:a=b c"}, ""},
		{"for an address", "KEY=env:K@[", netgate.Secret{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := netgate.ParseSecret(tc.text)
			if tc.want.Name == "" {
				if err == nil {
					t.Errorf("ParseSecret(%q) = %+v, want an error", tc.text, got)
				}
				return
			}
			back := tc.back
			if back == "" {
				back = tc.text
			}
			if err != nil || !reflect.DeepEqual(got, tc.want) || got.String() != back {
				t.Errorf("ParseSecret(%q) = %+v (%s), %v, want %+v (%s)", tc.text, got, got, err, tc.want, back)
			}
		})
	}
	for _, text := range []string{"", "KEY", "=env:X", "K-Y=env:X", "1K=env:X", "KEY=", "KEY=X", "KEY=env:", "KEY=http:x", "KEY=env:X@a,,b", "KEY=env:X@10.0.0.0/8", "KEY=env:X@a:80", "KEY=env:X@*", "K=env:" + strings.Repeat("x", 1<<20)} {
		if got, err := netgate.ParseSecret(text); err == nil {
			t.Errorf("ParseSecret(%.40q) = %+v, want an error", text, got)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	for _, s := range []string{"K=env:X", "K=file:/x@a.example,b", "K=cmd:a@b@", "K=cmd:@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := netgate.ParseSecret(text)
		if err != nil {
			return
		}
		if len(s.String()) > 16<<10 { // names in other letters are longer in ASCII
			return
		}
		if again, err := netgate.ParseSecret(s.String()); err != nil || again.String() != s.String() {
			t.Errorf("%q is %q and then %q, %v", text, s, again, err)
		}
	})
}

func TestSecretsAreReadWithinBounds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := func(name string) (string, bool) {
		text, ok := map[string]string{"SET": "v1", "EMPTY": "", "LINES": "a\nb", "BIG": strings.Repeat("x", 8<<10)}[name]
		return text, ok
	}
	for _, tc := range []struct {
		name, source string
		want         int // bytes; 0: an error
	}{
		{"a variable", "env:SET", 2},
		{"as long as can be", "env:BIG", 8 << 10},
		{"a variable that is not set", "env:NONE", 0},
		{"an empty one", "env:EMPTY", 0},
		{"one with lines", "env:LINES", 0},
		{"a file with a newline", "file:" + write("a", "secret\n"), 6},
		{"a file of another system", "file:" + write("b", "secret\r\n"), 6},
		{"a file too long", "file:" + write("c", strings.Repeat("x", 8<<10+1)), 0},
		{"an endless file", "file:/dev/zero", 0},
		{"a folder", "file:" + dir, 0},
		{"no file", "file:" + dir + "/none", 0},
		{"a command", "cmd:printf 'sec%s\\n' ret", 6},
		{"a command that fails", "cmd:echo secret; exit 1", 0},
		{"a command that says nothing", "cmd:true", 0},
		{"a command without end", "cmd:yes secret", 0},
		{"no source", "x:y", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := netgate.Read(t.Context(), tc.source, env)
			if (err == nil) != (tc.want > 0) || err == nil && len(string(got)) != tc.want {
				t.Errorf("Read = %d bytes, %v, want %d", len(string(got)), err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret\n") {
				t.Errorf("the error tells: %v", err)
			}
		})
	}
}

func TestValuesDoNotShow(t *testing.T) {
	held := netgate.Held{Name: "KEY", Hosts: []string{"a"}, Placeholder: netgate.NewPlaceholder(), Value: "hunter2"}
	config := netgate.Config{Secrets: []netgate.Held{held}}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "held", held, "value", held.Value)
	for _, text := range []string{fmt.Sprint(held), fmt.Sprintf("%+v %#v %q %x %s", config, &config, held, held.Value, held.Value), log.String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("shows: %s", text)
		}
	}
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var back netgate.Config
	if err := json.Unmarshal(data, &back); err != nil || string(back.Secrets[0].Value) != "hunter2" {
		t.Errorf("through JSON: %v, and the value is not what it was", err)
	}
	if err := back.Check(); err != nil {
		t.Error(err)
	}
}

func TestPlansForSecrets(t *testing.T) {
	for _, tc := range []struct{ name, allow, secret, want string }{
		{"a host that is let out", "api.example", "K=env:K@api.example", ""},
		{"by default, all that are", "api.example,b.example:80,*.c.example", "K=env:K", ""},
		{"of a pattern", "*.example.com", "K=env:K@a.example.com", ""},
		{"a pattern", "a.example.com", "K=env:K@*.example.com", ""},
		{"an address in a range", "10.0.0.0/8", "K=env:K@10.1.2.3", ""},
		{"port 443 and another", "api.example:443,api.example:8080", "K=env:K@api.example", ""},
		{"port 443 alone", "api.example:443", "K=env:K@api.example", "api.example is let out at port 443 alone"},
		{"by default, port 443 alone", "api.example:443", "K=env:K", "api.example is let out at port 443 alone"},
		{"another host", "api.example", "K=env:K@b.example", "b.example is not let out"},
		{"patterns alone", "*.example", "K=env:K", "for no host"},
		{"nothing is let out", "", "K=env:K", "for no host"},
		{"the proxy's variable", "api.example", "https_proxy=env:K", "choose another name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var plan netgate.Plan
			if tc.allow != "" {
				rules, err := netgate.ParseAllow(tc.allow)
				if err != nil {
					t.Fatal(err)
				}
				plan.Allow = rules
			}
			secret, err := netgate.ParseSecret(tc.secret)
			if err != nil {
				t.Fatal(err)
			}
			plan.Secrets = []netgate.Secret{secret}
			err = plan.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check: %v, want %q", err, tc.want)
			}
		})
	}
	twice := netgate.Plan{Allow: netgate.Rules{{Host: "a.example"}}, Secrets: []netgate.Secret{{Name: "K", Source: "env:K"}, {Name: "K", Source: "env:L"}}}
	if err := twice.Check(); err == nil {
		t.Error("a secret was named twice")
	}
}

func TestTheEnvironmentHoldsPlaceholders(t *testing.T) {
	secret, err := netgate.ParseSecret("KEY=env:MINE")
	if err != nil {
		t.Fatal(err)
	}
	plan := netgate.Plan{Allow: netgate.Rules{{Host: "api.example"}}, Secrets: []netgate.Secret{secret}}
	read := func(string) (string, bool) { return "hunter2", true }
	config, err := plan.Hold(t.Context(), read)
	if err != nil {
		t.Fatal(err)
	}
	again, err := plan.Hold(t.Context(), read)
	if err != nil {
		t.Fatal(err)
	}
	if config.Secrets[0].Placeholder == again.Secrets[0].Placeholder {
		t.Error("one placeholder was made twice")
	}
	env := config.Env()
	for _, want := range []string{"HTTP_PROXY=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128", "ALL_PROXY=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1", "KEY=" + config.Secrets[0].Placeholder} {
		if !slices.Contains(env, want) {
			t.Errorf("Env = %q, want %s in it", env, want)
		}
	}
	if text := strings.Join(env, " "); strings.Contains(text, "hunter2") {
		t.Errorf("Env = %s", text)
	}
	if data, err := json.Marshal(plan); err != nil || strings.Contains(string(data), "hunter2") {
		t.Errorf("the plan is %s, %v", data, err)
	}
	if env := (&netgate.Config{Publish: []netgate.Publish{{Port: 80, HostPort: 80}}}).Env(); len(env) > 0 {
		t.Errorf("Env without a proxy = %q", env)
	}
}
