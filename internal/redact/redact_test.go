package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"airlock/internal/redact"
)

// glue keeps secrets in one piece out of this file: scanners of source code would find them.
func glue(parts ...string) string { return strings.Join(parts, "") }

var (
	long   = "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1JkLmNbVcXz0PoIuYtReWqAsDfGhJkLmNbVcXz123456789"
	hexes  = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
	pem    = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA" + long + "\n" + long + "\n-----END RSA PRIVATE KEY-----"
	jwt    = glue("eyJ", "hbGciOiJIUzI1NiJ9.eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U")
	github = glue("ghp", "_", long[:36])
)

// secrets are texts with what becomes of them.
var secrets = []struct{ name, in, want string }{
	{"a private key", "key:\n" + pem + "\nend", "key:\n[redacted:private-key]\nend"},
	{"a private key that was cut off", pem[:120], "[redacted:private-key]"},
	{"a private key in a string", `"k": "` + strings.ReplaceAll(pem, "\n", `\n`) + `\n"`, `"k": "[redacted:private-key]\n"`},
	{"an indented private key", "  " + strings.ReplaceAll(pem, "\n", "\n  "), "  [redacted:private-key]"},
	{"an AWS key", "id " + glue("AKIA", "IOSFODNN7EXAMPLE") + ".", "id [redacted:aws-key-id]."},
	{"an AWS secret in an environment", "AWS_SECRET_ACCESS_KEY=" + long[:40], "AWS_SECRET_ACCESS_KEY=[redacted:secret]"},
	{"an AWS secret in a file", "aws_secret_access_key = " + long[:40] + "\n", "aws_secret_access_key = [redacted:secret]\n"},
	{"a GitHub token", "x " + github + " y", "x [redacted:github-token] y"},
	{"a GitLab token", glue("glpat", "-", long[:20]), "[redacted:gitlab-token]"},
	{"a Slack token", glue("xoxb", "-123456789012-1234567890123-", long[:24]), "[redacted:slack-token]"},
	{"a Stripe key", glue("sk", "_live_", long[:24]), "[redacted:stripe-key]"},
	{"an OpenAI key", glue("sk-", "proj-", long), "[redacted:openai-key]"},
	{"an old OpenAI key", glue("sk-", long[:48]), "[redacted:openai-key]"},
	{"an Anthropic key", glue("sk-", "ant-api03-", long), "[redacted:anthropic-key]"},
	{"a Google key", glue("AI", "za", long[:35]), "[redacted:google-api-key]"},
	{"an npm token in its file", "//registry.npmjs.org/:_authToken=" + glue("npm", "_", long[:36]), "//registry.npmjs.org/:_authToken=[redacted:secret]"},
	{"an npm token", glue("npm", "_", long[:36]), "[redacted:npm-token]"},
	{"a PyPI token", glue("pypi-AgEI", "cHlwaS5vcmc", long), "[redacted:pypi-token]"},
	{"a JSON web token", "t=" + jwt + ";", "t=[redacted:jwt];"},
	{"a bot's token", "https://api.telegram.org/bot123456789:" + glue("AA", long[:33]) + "/getMe", "https://api.telegram.org/bot123456789:[redacted:telegram-token]/getMe"},
	{"a password for mysql", "mysql -uroot -phunter2 db; x", "mysql -uroot -p[redacted:password] db; x"},
	{"a quoted one for mysqldump", `mysqldump -h x -p'hunter2' db`, `mysqldump -h x -p'[redacted:password]' db`},
	{"a header", "Authorization: Bearer abc.def-123\n", "Authorization: Bearer [redacted:authorization]\n"},
	{"a header in a command", `curl -H "Authorization: Basic dXNlcjpwYXNz" https://x`, `curl -H "Authorization: Basic [redacted:authorization]" https://x`},
	{"a header in a command in a text", `"curl -H \"Authorization: token abcdef\" x"`, `"curl -H \"Authorization: token [redacted:authorization]\" x"`},
	{"a header without a scheme", "authorization: 4f9a8b7c6d5e\n", "authorization: [redacted:authorization]\n"},
	{"a header of a key", `curl -H 'X-Api-Key: 4f9a8b7c' x`, `curl -H 'X-Api-Key: [redacted:secret]' x`},
	{"a cookie", "Cookie: session=abc; id=1\nHost: x", "Cookie: [redacted:cookie]\nHost: x"},
	{"an environment", "export DB_PASSWORD=hunter2 DB=x", "export DB_PASSWORD=[redacted:password] DB=x"},
	{"a quoted one", `DB_PASSWORD="correct horse" x`, `DB_PASSWORD="[redacted:password]" x`},
	{"one with quotes in it", `password = "a\"b c" x`, `password = "[redacted:password]" x`},
	{"JSON", `{"user":"a","password":"hunter2","n":1}`, `{"user":"a","password":"[redacted:password]","n":1}`},
	{"JSON in a text", `"{\"api_key\": \"abcd1234\", \"n\": 1}"`, `"{\"api_key\": \"[redacted:secret]\", \"n\": 1}"`},
	{"YAML", "db:\n  password: hunter2 # old\n  user: a\n", "db:\n  password: [redacted:password] # old\n  user: a\n"},
	{"a sentence as a password", "passphrase: correct horse battery\nx", "passphrase: [redacted:password]\nx"},
	{"XML", "<server><password>hunter2</password></server>", "<server><password>[redacted:password]</password></server>"},
	{"Python", "connect(user='a', password='hunter2')", "connect(user='a', password='[redacted:password]')"},
	{"Ruby", "password => 'hunter2',", "password => '[redacted:password]',"},
	{"an option", "mysql --password hunter2 -u root", "mysql --password [redacted:password] -u root"},
	{"an option with a sign", "mysql --password=hunter2 db", "mysql --password=[redacted:password] db"},
	{"an option of a token", "gh auth --with-token s3cr3tvalue", "gh auth --with-token [redacted:secret]"},
	{"curl's user", "curl -u ann:hunter2 https://x", "curl -u ann:[redacted:user-password] https://x"},
	{"sshpass", "sshpass -p hunter2 ssh host", "sshpass -p [redacted:sshpass] ssh host"},
	{"a URL", "git clone https://ann:hunter2@example.org/x.git", "git clone https://ann:[redacted:url-password]@example.org/x.git"},
	{"a URL with a token as its user", "https://" + github + ":x-oauth-basic@github.com/x", "https://[redacted:github-token]:[redacted:url-password]@github.com/x"},
	{"a token before a password", "machine x login " + github + " password hunter2", "machine x login [redacted:github-token] password [redacted:netrc]"},
	{"a URL with a token alone", "https://" + long[:30] + "@github.com/x", "https://[redacted:url-password]@github.com/x"},
	{"a database's URL", "postgres://app:p#ss?w0rd@db:5432/x", "postgres://app:[redacted:url-password]@db:5432/x"},
	{"a URL's parameter", "https://x/?a=1&access_token=abcd1234&b=2", "https://x/?a=1&access_token=[redacted:secret]&b=2"},
	{"a signed URL", "https://x/?sv=1&sig=" + long[:40] + "%3D&se=2", "https://x/?sv=1&sig=[redacted:azure-signature]&se=2"},
	{"a connection string", "Server=db;Uid=a;Pwd=hunter2;Port=1", "Server=db;Uid=a;Pwd=[redacted:password];Port=1"},
	{"an Azure account", "AccountName=a;AccountKey=" + long[:60] + "==;E=x", "AccountName=a;AccountKey=[redacted:secret];E=x"},
	{".netrc", "machine example.org login ann password hunter2\n", "machine example.org login ann password [redacted:netrc]\n"},
	{".netrc over several lines", "machine example.org\n  login ann\n  password hunter2\n", "machine example.org\n  login ann\n  password [redacted:netrc]\n"},
	{"a coloured one", "\x1b[01;31m\x1b[K" + github + "\x1b[m", "\x1b[01;31m\x1b[K[redacted:github-token]\x1b[m"},
	{"two of them", github + " " + github, "[redacted:github-token] [redacted:github-token]"},
	{"camel case", `clientSecret: "abcd1234"`, `clientSecret: "[redacted:secret]"`},
	{"a plural", `{"secrets": "abcd1234"}`, `{"secrets": "[redacted:secret]"}`},
}

// plain are texts that stay as they are.
var plain = []struct{ name, in string }{
	{"nothing", ""},
	{"words", "the quick brown fox"},
	{"a git hash", "commit 9fceb02d0ae598e95dc970b74767f19372d61af8"},
	{"a UUID", "id: 123e4567-e89b-12d3-a456-426614174000"},
	{"a checksum", hexes + "  file.tar.gz\nsha256:" + hexes},
	{"an image", `<img src="data:image/png;base64,iVBORw0KGgo` + strings.Repeat(long, 20) + `">`},
	{"a lock file", `"integrity": "sha512-` + long + `=="`},
	{"test results", "--- PASS: TestToken (0.00s)\nPASS\nok  airlock/internal/redact 0.003s\npass: 5, fail: 0"},
	{"a certificate", "-----BEGIN CERTIFICATE-----\nMIID" + long + "\n-----END CERTIFICATE-----\n"},
	{"a public key", "-----BEGIN PUBLIC KEY-----\nMIID" + long + "\n-----END PUBLIC KEY-----\n"},
	{"the working folder", "PWD=/home/ann OLDPWD=/home"},
	{"a variable", "DB_PASSWORD=$DB_PASSWORD TOKEN=${TOKEN} x=${{ secrets.TOKEN }}"},
	{"a placeholder", "password: <your password>\ntoken = xxxxxxxx\nAPI_KEY=***"},
	{"no password", "password: null\nsecret: \"\"\ntoken=none"},
	{"a prompt", "Password: "},
	{"code", "token := lexer.Next()\nif token == x { return token.Kind }\npassword = getpass(prompt)\nsecret = cfg.Secret"},
	{"Go", "\tToken:    &token.Token{},\n\tsecretMap: secretMap,\n\tCredentials: map[string]string{\"foo\": \"bar\"},"},
	{"rights of a workflow", "permissions:\n  id-token: write\n"},
	{"a placeholder in a manual", "the trailer.<token>.command variable\nor <token>"},
	{"a type", "password: string;\ntoken?: string"},
	{"a parser's error", "SyntaxError: Unexpected token: punc"},
	{"numbers of tokens", "max_tokens: 4096, token_count=12, total_tokens=900"},
	{"what is about a secret", "password_file=/run/secrets/db\ntoken_url=https://x/t\nsecret_name: db-credentials"},
	{"a tokenizer", "tokenizer: bert-base-uncased"},
	{"prose", "The secret: never give up. His password was easy to guess."},
	{"a URL", "https://example.org/a@b?x=1 ssh://git@github.com/x.git http://localhost:8080/"},
	{"a keyword argument of its own name", "f(token=token, password=self.password)"},
	{"a comparison", "if password == other:"},
	{"a path with a key's beginning", "/usr/share/sk-learn/xoxo ghp_ AKIA npm_config_cache hf_hub"},
	{"a machine in prose", "the machine has a default login and password rules"},
	{"a numeric user", "docker run -u 1000:1000 x"},
	{"emphasis", "bearer of bad news and bearer authentication-schemes"},
	{"a row of dashes", "-----BEGIN -----"},
}

func TestText(t *testing.T) {
	for _, tt := range secrets {
		t.Run(tt.name, func(t *testing.T) {
			got := redact.Text(tt.in)
			if got != tt.want {
				t.Errorf("Text(%q)\n  = %q,\nwant %q", tt.in, got, tt.want)
			}
			built, done := "", 0
			for _, s := range redact.Spans(tt.in) {
				built += tt.in[done:s.Start] + "[redacted:" + s.Rule + "]"
				done = s.End
			}
			if built += tt.in[done:]; built != got {
				t.Errorf("Spans(%q) come to %q", tt.in, built)
			}
		})
	}
	for _, tt := range plain {
		t.Run(tt.name+" stays", func(t *testing.T) {
			if got := redact.Text(tt.in); got != tt.in {
				t.Errorf("Text(%q)\n  = %q", tt.in, got)
			}
		})
	}
}

// TestSplits: however a text is cut into writes, what comes out is the same.
func TestSplits(t *testing.T) {
	all := ""
	for _, tt := range secrets {
		all += tt.in + "\n"
		checkSplits(t, tt.in)
	}
	for _, tt := range plain {
		checkSplits(t, tt.in)
	}
	if got, want := written(t, all, 1), redact.Text(all); got != want {
		t.Errorf("byte by byte: %q\nwant %q", got, want)
	}
}

func checkSplits(t *testing.T, text string) {
	t.Helper()
	want := redact.Text(text)
	for i := range len(text) + 1 {
		var out strings.Builder
		w := redact.NewWriter(&out)
		for _, part := range []string{text[:i], text[i:]} {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("split after %q:\n  got %q,\n want %q", text[:i], out.String(), want)
		}
	}
}

// written writes text in pieces of n bytes.
func written(t testing.TB, text string, n int) string {
	t.Helper()
	var out strings.Builder
	w := redact.NewWriter(&out)
	for rest := text; rest != ""; {
		part := rest[:min(n, len(rest))]
		rest = rest[len(part):]
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWriterHoldsBackLittle(t *testing.T) {
	var out bytes.Buffer
	w := redact.NewWriter(&out)
	for _, tt := range []struct{ write, want string }{
		{"Do you want this? [y/N] ", "Do you want this? [y/N] "},
		{"progress 10%\r", "Do you want this? [y/N] progress 10%\r"},
	} {
		if _, err := w.Write([]byte(tt.write)); err != nil {
			t.Fatal(err)
		}
		if out.String() != tt.want {
			t.Errorf("after %q: %q, want %q", tt.write, out.String(), tt.want)
		}
	}
	// A key without an end is redacted, and does not fill the memory.
	if _, err := w.Write([]byte("-----BEGIN PRIVATE KEY-----\n")); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := w.Write(bytes.Repeat([]byte(long), 100)); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(out.String(), "[redacted:private-key]") {
		t.Error("a key without an end is held back without an end")
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestWriterThatFails(t *testing.T) {
	want := errors.New("torn")
	w := redact.NewWriter(broken{want})
	for range 2 {
		if _, err := w.Write([]byte("some text ")); !errors.Is(err, want) {
			t.Errorf("Write: err = %v, want %v", err, want)
		}
	}
	if err := w.Close(); !errors.Is(err, want) {
		t.Errorf("Close: err = %v, want %v", err, want)
	}
}

func TestJSON(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing to redact stays byte by byte", `{"a": [1, 2.50, "x\u0041"], "b":null }`, `{"a": [1, 2.50, "x\u0041"], "b":null }`},
		{"a member of that name", `{"password":"hunter2"}`, `{"password":"[redacted:password]"}`},
		{"in any depth", `{"a":[{"b":{"clientSecret":{"x":["abcd"]}}}]}`, `{"a":[{"b":{"clientSecret":{"x":["[redacted:secret]"]}}}]}`},
		{"an escaped name", `{"p\u0061ssword":"hunter2"}`, `{"p\u0061ssword":"[redacted:password]"}`},
		{"a number as a password", `{"password":12345678,"tokens":5}`, `{"password":"[redacted:password]","tokens":5}`},
		{"a secret in a text", `{"out":"x ` + github + `"}`, `{"out":"x [redacted:github-token]"}`},
		{"a secret as a name", `{"` + github + `":1}`, `{"[redacted:github-token]":1}`},
		{"what follows an option", `["mysql","--password","hunter2","-h","db"]`, `["mysql","--password","[redacted:password]","-h","db"]`},
		{"what follows curl's user", `["curl","-u","ann:hunter2","https://x"]`, `["curl","-u","ann:[redacted:user-password]","https://x"]`},
		{"what follows sshpass", `["sshpass","-p","hunter2","ssh","host"]`, `["sshpass","-p","[redacted:sshpass]","ssh","host"]`},
		{"tests that passed", `{"pass": 12, "fail": 0}`, `{"pass": 12, "fail": 0}`},
		{"options without secrets", `["ls","-l","--sort","time","-u","root"]`, `["ls","-l","--sort","time","-u","root"]`},
		{"a header", `{"Authorization":"Bearer abc"}`, `{"Authorization":"[redacted:authorization]"}`},
		{"an environment", `{"env":["A=1","API_TOKEN=abcd1234"]}`, `{"env":["A=1","API_TOKEN=[redacted:secret]"]}`},
		{"two members of one name", `{"token":"abcd1234","token":"efgh5678"}`, `{"token":"[redacted:secret]","token":"[redacted:secret]"}`},
		{"a placeholder", `{"password":"${PASSWORD}","token":""}`, `{"password":"${PASSWORD}","token":""}`},
		{"half a surrogate", `{"a":"\ud800","password":"x1\ud800"}`, `{"a":"\ud800","password":"[redacted:password]"}`},
		{"what is no JSON is a text", `{"password":"hunter2`, `"{\"password\":\"[redacted:password]"`},
		{"nothing at all", ``, `""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := redact.JSON(json.RawMessage(tt.in))
			if string(got) != tt.want || !json.Valid(got) {
				t.Errorf("JSON(%s)\n  = %s,\nwant %s", tt.in, got, tt.want)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	for _, tt := range secrets {
		f.Add(tt.in, 7)
	}
	for _, tt := range plain {
		f.Add(tt.in, 1)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		once := redact.Text(text)
		if again := redact.Text(once); again != once {
			t.Errorf("what was redacted once does not stay as it is:\n   of %q\n once %q\nagain %q", text, once, again)
		}
		if got := written(t, text, 1+int(uint(n)%uint(len(text)+1))); got != once {
			t.Errorf("written in pieces: %q\nwant %q", got, once)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, tt := range secrets {
		text, err := json.Marshal(map[string]any{"a": tt.in, "password": []string{tt.in}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once := redact.JSON(data)
		if !json.Valid(once) {
			t.Fatalf("JSON(%q) = %q is not valid", data, once)
		}
		if again := redact.JSON(once); string(again) != string(once) {
			t.Errorf("what was redacted once does not stay as it is:\n   of %s\n once %s\nagain %s", data, once, again)
		}
	})
}

func BenchmarkText(b *testing.B) {
	clean := strings.Repeat("2026-11-20T16:20:00Z INFO compiling package airlock/internal/redact in 1.52s, 14 of 120\n", 1000)
	dirty := strings.Repeat("export DB_PASSWORD=hunter2; token: x; git clone https://ann:hunter2@example.org/x.git "+github+"\n", 1000)
	for _, bm := range []struct{ name, text string }{{"without secrets", clean}, {"full of secrets", dirty}} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			for b.Loop() {
				redact.Text(bm.text)
			}
		})
	}
}

// TestJSONOfManyWords: each word is looked at with the two before it, not with all of them.
func TestJSONOfManyWords(t *testing.T) {
	for _, word := range []string{"", "a", "-", "--password", strings.Repeat("a", 64)} {
		list := json.RawMessage(`["--x"` + strings.Repeat(`,"`+word+`"`, 20_000) + `]`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		redact.JSON(list)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 64<<20 {
			t.Errorf("20,000 times %q take %d bytes", word, bytes)
		}
	}
}
