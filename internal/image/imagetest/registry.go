// Package imagetest has a real registry for tests, which is Debian's docker-registry, and certificates for servers.
package imagetest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Certificate makes a certificate that is its own authority, for names, addresses and the loopback, and its key, as PEM.
func Certificate(names ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), nil
}

// Serve starts a registry with TLS on the loopback that keeps what it has in dir and lets in ann alone, whose password is
// secret. It ends with end, which has to be called. exec.ErrNotFound: there is no docker-registry.
func Serve(ctx context.Context, dir string, cert, key []byte) (addr string, end func(), err error) {
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		return "", nil, err
	}
	for name, text := range map[string][]byte{
		"cert.pem": cert, "key.pem": key,
		"htpasswd": []byte("ann:$2b$04$DeEWdQNJQwbymWAt/OuvHe356XuacvpmKQvJw1KdQw.TeHqOR/r7e\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", nil, err
		}
	}
	for range 3 { // somebody may take the port before the registry does
		if addr, err = free(ctx); err != nil {
			return "", nil, err
		}
		config := filepath.Join(dir, "config.yml")
		text := fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %[1]s/data}}
http: {addr: "%[2]s", secret: test, tls: {certificate: %[1]s/cert.pem, key: %[1]s/key.pem}}
auth: {htpasswd: {realm: test, path: %[1]s/htpasswd}}
`, dir, addr)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return "", nil, err
		}
		if end, err = run(ctx, exec.CommandContext(ctx, program, "serve", config), addr, cert); err == nil {
			return addr, end, nil
		}
	}
	return "", nil, err
}

// free is an address that nobody listens at.
func free(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// run starts a registry and waits until it answers.
func run(ctx context.Context, cmd *exec.Cmd, addr string, cert []byte) (end func(), err error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none") // later versions look for a collector
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	end = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	client := &http.Client{Transport: tr, Timeout: 5 * time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/v2/", nil)
		if err != nil {
			end()
			return nil, err
		}
		if resp, err := client.Do(req); err == nil {
			return end, resp.Body.Close()
		}
		select {
		case <-ended:
			return nil, errors.New("docker-registry ended: " + said.String())
		case <-ctx.Done():
			end()
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond): // until it listens
		}
	}
}
