package netgate_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsThatPeopleUse asks real clients, with the variables that Env sets.
func TestProgramsThatPeopleUse(t *testing.T) {
	w := setup(t, "example.com")
	tlsServer := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(tlsServer.Close)
	w.host("example.com", "203.0.113.1", 80, site(t, hello))
	w.host("example.com", "203.0.113.1", 443, tlsServer.Listener.Addr().String())
	roots := filepath.Join(t.TempDir(), "roots.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: tlsServer.Certificate().Raw}
	if err := os.WriteFile(roots, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	const python = `import sys, urllib.request as r
try: print(r.urlopen(sys.argv[1], timeout=30).read().decode(), end="")
except r.HTTPError as e: print(e.code, e.headers["X-Airlock-Rule"], e.read().decode(), end="")`
	for _, tc := range []struct {
		name string
		argv []string
		want string
	}{
		{"curl", []string{"curl", "-sS", "http://example.com/x"}, "hello from example.com/x"},
		{"curl over TLS", []string{"curl", "-sS", "--cacert", roots, "https://example.com/x"}, "hello from example.com/x"},
		{"curl through SOCKS5", []string{"curl", "-sS", "-x", "socks5h://" + w.proxy, "http://example.com/x"}, "hello from example.com/x"},
		{"curl through SOCKS5, over TLS", []string{"curl", "-sS", "--cacert", roots, "-x", "socks5h://a:b@" + w.proxy, "https://example.com/x"}, "hello from example.com/x"},
		{"curl through CONNECT", []string{"curl", "-sS", "-p", "http://example.com/x"}, "hello from example.com/x"},
		{"curl that sends much", []string{"curl", "-sS", "-T", "/proc/self/exe", "http://example.com/x"}, "hello from example.com/x"},
		{"curl elsewhere", []string{"curl", "-sS", "-i", "http://example.net/"}, "X-Airlock-Rule: not-allowed"},
		{"curl elsewhere, over TLS", []string{"curl", "-sS", "-v", "https://example.net/"}, "X-Airlock-Rule: not-allowed"},
		{"curl elsewhere, through SOCKS5", []string{"curl", "-sS", "-x", "socks5h://" + w.proxy, "http://example.net/"}, "SOCKS5"},
		{"curl through SOCKS4", []string{"curl", "-sS", "-x", "socks4a://" + w.proxy, "http://example.com/"}, "SOCKS4"},
		{"wget", []string{"wget", "-qO-", "http://example.com/x"}, "hello from example.com/x"},
		{"wget over TLS", []string{"wget", "-qO-", "--ca-certificate", roots, "https://example.com/x"}, "hello from example.com/x"},
		{"wget elsewhere", []string{"wget", "-qSO-", "http://example.net/x"}, "X-Airlock-Rule: not-allowed"},
		{"python", []string{"python3", "-c", python, "http://example.com/x"}, "hello from example.com/x"},
		{"python over TLS", []string{"python3", "-c", python, "https://example.com/x"}, "hello from example.com/x"},
		{"python elsewhere", []string{"python3", "-c", python, "http://example.net/x"}, "403 not-allowed airlock: example.net is not let out (not-allowed)\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.argv[0]); err != nil {
				t.Skip(err)
			}
			cmd := exec.CommandContext(t.Context(), tc.argv[0], tc.argv[1:]...)
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+roots, "NO_PROXY=localhost", "no_proxy=localhost", "HOME="+t.TempDir())
			for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
				cmd.Env = append(cmd.Env, name+"=http://"+w.proxy)
			}
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), tc.want) {
				t.Errorf("%v said %q, %v, want %q", tc.argv, out, err, tc.want)
			}
			w.next()
		})
	}
}
