package material_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"airlock/internal/planner/material"
)

// known are values as people have them in .env files.
const known = `# the service's settings
APP_NAME=My Application
APP_ENV=production
DEBUG=true
PORT=8080
TTL_MS=3600000
HOST=db.example.org:5432
REGION=eu-west-1
DATA_DIR=/var/lib/app/data
HOMEPAGE=https://example.org/docs/start?lang=en
REF=${APP_NAME}
TODO=<your key>
KEY_TO_COME=your-key-here
export SESSION='Tq8v Zr1"L\mW/+='
LICENSE="correcthorsebatterystaple"
DB_PASSWORD=sunshine # set in May
DB_URL=postgres://app:gr4nite7@db:5432/app
HOOK=https://hooks.example.org/T00/B00/x7Yk2PqLm9Rt
PIN_CODE=4711
ACCESS_PASSWORD=password
MULTI="first line of it 8Z
second line of it 9Y"
`

func TestKnownValuesAreTakenOutOfEverything(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{".git/HEAD": "ref", ".env": known, "sub/dir/prod.env": "INNER=Wz7k-Pq2m-88xQ\n", ".env.local": "LOCAL=Vb6n_Mc4x_77wE\n"})
	r := material.NewRedactor(&material.RedactorOptions{
		WorkDir: filepath.Join(dir, "sub/dir"), Extra: []string{"the provider's own key 1", "short"},
		Environ: []string{"MY_TOKEN=Hj3kLp0o", "EDITOR=Xx9yZz8w", "SHELL=/bin/bash", "PWD=/home/ann/project", "SSH_AUTH_SOCK=/tmp/ssh-XXXXabc/agent.1", "broken"},
	})
	session := `Tq8v Zr1"L\mW/+=`
	for _, tt := range []struct{ name, in, want string }{
		{"as it is", "a " + session + " b", "a [redacted:env] b"},
		{"within a word", "x" + session + "y", "x[redacted:env]y"},
		{"twice", session + session, "[redacted:env][redacted:env]"},
		{"at the end", "a " + session, "a [redacted:env]"},
		{"cut off", session[:8], session[:8]},
		{"as JSON has it", asJSON(t, session), "[redacted:env]"},
		{"as JSON in JSON has it", asJSON(t, asJSON(t, session)), "[redacted:env]"},
		{"in a query", "a=" + url.QueryEscape(session) + "&b", "a=[redacted:env]&b"},
		{"in a path", "/" + url.PathEscape(session) + "/", "/[redacted:env]/"},
		{"in a query, in small letters", strings.ToLower("%2F") + url.QueryEscape(session), "%2f[redacted:env]"},
		{"as base64", base64.StdEncoding.EncodeToString([]byte(session)), "[redacted:env]"},
		{"as base64 of URLs", base64.RawURLEncoding.EncodeToString([]byte(session)), "[redacted:env]"},
		{"a word without a name that says so", "correcthorsebatterystaple", "[redacted:env]"},
		{"a password that is a word", "it said sunshine!", "it said [redacted:env]!"},
		{"a URL's password", "log in with gr4nite7.", "log in with [redacted:env]."},
		{"the URL", "to postgres://app:gr4nite7@db:5432/app", "to [redacted:env]"},
		{"a URL that is secret itself", "curl https://hooks.example.org/T00/B00/x7Yk2PqLm9Rt", "curl [redacted:env]"},
		{"a value of two lines", "first line of it 8Z\nsecond line of it 9Y", "[redacted:env]"},
		{"one of its lines", "+second line of it 9Y", "+[redacted:env]"},
		{"of the folder's own file", "Wz7k-Pq2m-88xQ", "[redacted:env]"},
		{"of another file above", "Vb6n_Mc4x_77wE", "[redacted:env]"},
		{"of the environment", "Hj3kLp0o", "[redacted:env]"},
		{"of the environment, without such a name", "Xx9yZz8w /bin/bash /home/ann/project /tmp/ssh-XXXXabc/agent.1", "Xx9yZz8w /bin/bash /home/ann/project /tmp/ssh-XXXXabc/agent.1"},
		{"the provider's key", "key: the provider's own key 1", "key: [redacted:key]"},
		{"what is too short", "short 4711", "short 4711"},
		{
			"words, numbers, places", "My Application in production is true on 8080, 3600000 db.example.org:5432 eu-west-1 /var/lib/app/data https://example.org/docs/start?lang=en your-key-here password",
			"My Application in production is true on 8080, 3600000 db.example.org:5432 eu-west-1 /var/lib/app/data https://example.org/docs/start?lang=en your-key-here password",
		},
		{"a part of a longer secret", "ghp_" + strings.Repeat("Ab3", 6) + "Hj3kLp0o" + strings.Repeat("Cd4", 5), "[redacted:github-token]"},
		{"what reaches beyond a value's end", "PASSWORD=" + session, "PASSWORD=[redacted:env]"},
		{"what stands behind another", "machine x login Hj3kLp0o password hunter2", "machine x login [redacted:env] password [redacted:netrc]"},
		{"what redact knows", "API_KEY=Kq7wXz3vBn", "API_KEY=[redacted:secret]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Text(tt.in)
			if got != tt.want {
				t.Errorf("Text(%q)\n  = %q,\nwant %q", tt.in, got, tt.want)
			}
			if again := r.Text(got); again != got {
				t.Errorf("Text(%q) = %q", got, again)
			}
		})
	}
	// Within what is encoded as a whole, no more than the neighbours' characters stay.
	for i := range 4 {
		whole := base64.StdEncoding.EncodeToString([]byte("user:xyz"[:4+i] + session + "more"))
		got := r.Text(whole)
		if !strings.Contains(got, "[redacted:env]") || len(got)-len("[redacted:env]") > len(whole)-len(session)*4/3+3 {
			t.Errorf("%s is redacted to %s", whole, got)
		}
	}
}

func asJSON(t *testing.T, s string) string {
	t.Helper()
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out[1 : len(out)-1])
}

func TestFilesThatHoldSecrets(t *testing.T) {
	r := material.NewRedactor(nil)
	for _, tt := range []struct{ name, in, want string }{
		{".env", "A=1\nexport B = 'x y' # why\n\n# about B\nC=\nD: z\r\n", "A=[redacted:env]\nexport B = [redacted:env]\n\n# about B\nC=\nD: [redacted:env]\r\n"},
		{"/x/prod.env", "K=\"a\nb=c\nd\" # e\nL=`m\nn`\n", "K=[redacted:env]\nL=[redacted:env]\n"},
		{".env.local", "# OLD=secret\n  #OLDER: 'a'\nA=it's\nB='x\\'\n", "# OLD=[redacted:env]\n  #OLDER: [redacted:env]\nA=[redacted:env]\nB=[redacted:env]\n"},
		{".ENV", "A=\"not closed\nB=2\nand a line of its own\n", "A=[redacted:env]\nB=[redacted:env]\n[redacted:env]\n"},
		{".env.production", "\ufeffA=1\nA.b-c=2\nsetenv X 1\nA=\\\n  more\n", "\ufeffA=[redacted:env]\nA.b-c=[redacted:env]\n[redacted:env]\nA=[redacted:env]\n[redacted:env]\n"},
		{"/home/ann/.netrc", "machine x\n login ann\n password p w\nmachine y password 'q'\naccount z", "machine x\n login ann\n password [redacted:file] w\nmachine y password [redacted:file]\naccount [redacted:file]"},
		{".pgpass", "# c\ndb\\:x:5432:*:ann:p:w\\\\\nh:1:d:u:\n", "# c\ndb\\:x:5432:*:ann:[redacted:file]\nh:1:d:u:\n"},
		{".npmrc", "registry=https://r.example.org/\n//r.example.org/:_auth = YW5uOnB3\n@x:registry=https://y/\nsave-exact=true\n", "registry=https://r.example.org/\n//r.example.org/:_auth = [redacted:file]\n@x:registry=https://y/\nsave-exact=true\n"},
		{"/home/ann/.aws/credentials", "[default]\naws_access_key_id = abc\naws_session_token=def=\nregion = eu-west-1\n", "[default]\naws_access_key_id = [redacted:file]\naws_session_token=[redacted:file]\nregion = eu-west-1\n"},
		{"environment.go", "A=1", "A=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.File(tt.name, tt.in)
			if got != tt.want {
				t.Errorf("File(%q)\n  = %q,\nwant %q", tt.in, got, tt.want)
			}
			if again := r.File(tt.name, got); again != got {
				t.Errorf("File(%q)\n  = %q", got, again)
			}
		})
	}
}

func TestARedactorReadsFilesAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "folder.env"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, ".env")); err != nil {
		t.Skip(err)
	}
	write(t, dir, map[string]string{"x.env": "\x00\xff=\xff\xff\xff\xff\xff\xff\xff\nOK=Tq8vZr1LmW\n"})
	r := material.NewRedactor(&material.RedactorOptions{WorkDir: dir})
	if got := r.Text("Tq8vZr1LmW"); got != "[redacted:env]" {
		t.Errorf("Text = %q", got)
	}
	// Folders above are looked at within a repository alone.
	write(t, dir, map[string]string{"sub/x": ""})
	if got := material.NewRedactor(&material.RedactorOptions{WorkDir: filepath.Join(dir, "sub")}).Text("Tq8vZr1LmW"); got != "Tq8vZr1LmW" {
		t.Errorf("Text = %q", got)
	}
}

// many is a redactor of n values.
func many(n int) *material.Redactor {
	var extra []string
	for i := range n {
		extra = append(extra, fmt.Sprintf("Zk%07d/%x+q", i*7919, i*104729))
	}
	return material.NewRedactor(&material.RedactorOptions{Extra: extra})
}

func TestARedactorIsSafeForConcurrentUse(t *testing.T) {
	r := many(50)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got := r.Text("a Zk0007919/19919+q b"); got != "a [redacted:key] b" {
					t.Errorf("Text = %q", got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestValuesThatAreMadeToTakeLong(t *testing.T) {
	var extra []string
	for i := range 1000 {
		extra = append(extra, strings.Repeat("a", 4000+i)+"b", strings.Repeat("a", 6+i%60)+fmt.Sprint(i))
	}
	r := material.NewRedactor(&material.RedactorOptions{Extra: extra})
	text := strings.Repeat("a", 63)
	text = strings.Repeat(text+"c", 16<<10) // a MiB
	if got := r.Text(text); len(got) == 0 {
		t.Error("nothing is left")
	}
	if got := r.Text(strings.Repeat("a", 1<<20)); !strings.Contains(got, "[redacted:key]") {
		t.Errorf("%.100q is left", got)
	}
}

func BenchmarkRedactor(b *testing.B) {
	clean := strings.Repeat("2026-11-20T16:20:00Z INFO compiling package airlock/internal/redact in 1.52s, 14 of 120\n", 12000)
	r := many(200)
	dirty := strings.Repeat("Zk0007919/19919+q is one of them, base64 of others is Wms and so on and so forth, Zk00 is none, .........\n", 10000)
	for _, bm := range []struct{ name, text string }{{"nothing in a MB", clean}, {"ten thousand in a MB", dirty}} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			for b.Loop() {
				r.Text(bm.text)
			}
		})
	}
	b.Run("making one of 200 values", func(b *testing.B) {
		for b.Loop() {
			many(200)
		}
	})
}
