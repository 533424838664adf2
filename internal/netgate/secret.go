package netgate

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Bounds of secrets.
const (
	maxSecretSpec  = 16 << 10 // bytes of NAME=SOURCE@HOSTS
	maxSecretValue = 8 << 10
	secretTimeout  = 30 * time.Second // of a command that prints one
)

// placeholderStart is what every placeholder begins with.
const placeholderStart = "airlock_secret_"

// A Secret says where a secret comes from and for whom it is. It holds no value.
type Secret struct {
	Name   string   `json:"name"`            // of the variable inside
	Source string   `json:"source"`          // "env:VARIABLE", "file:PATH" or "cmd:COMMAND"
	Hosts  []string `json:"hosts,omitempty"` // as a Rule's Host, without ranges; empty: see Plan.Hold
}

// ParseSecret reads "NAME=SOURCE[@HOST,…]". The last @ is what begins the hosts: a source with an
// @ in it and no hosts ends with another one.
func ParseSecret(text string) (Secret, error) {
	if len(text) > maxSecretSpec {
		return Secret{}, fmt.Errorf("secret: it is written with %d bytes, at most %d are read", len(text), maxSecretSpec)
	}
	name, source, ok := strings.Cut(text, "=")
	if !ok || !isVariable(name) {
		return Secret{}, errors.New("secret: it does not begin with the name of a variable; wanted NAME=SOURCE[@HOST,…]")
	}
	secret := Secret{Name: name, Source: source}
	if at := strings.LastIndexByte(source, '@'); at >= 0 {
		secret.Source = source[:at]
		if hosts := source[at+1:]; hosts != "" {
			for host := range strings.SplitSeq(hosts, ",") {
				secret.Hosts = append(secret.Hosts, strings.TrimSpace(host))
			}
		}
	}
	if err := secret.check(); err != nil {
		return Secret{}, err
	}
	for i, host := range secret.Hosts {
		secret.Hosts[i], _ = ruleHost(host) // checked above
	}
	return secret, nil
}

// String is what ParseSecret reads as the same Secret.
func (s Secret) String() string {
	text := s.Name + "=" + s.Source
	if len(s.Hosts) > 0 || strings.Contains(s.Source, "@") {
		text += "@" + strings.Join(s.Hosts, ",")
	}
	return text
}

func (s Secret) check() error {
	if !isVariable(s.Name) {
		return fmt.Errorf("secret %s: this is no name of a variable", quote(s.Name))
	}
	if kind, rest, _ := strings.Cut(s.Source, ":"); rest == "" || kind != "env" && kind != "file" && kind != "cmd" {
		return fmt.Errorf("secret %s: no source; wanted env:VARIABLE, file:PATH or cmd:COMMAND", s.Name)
	}
	for _, host := range s.Hosts {
		spelled, err := ruleHost(host)
		if err == nil && (Rule{Host: spelled}).isRange() && strings.Contains(spelled, "/") {
			err = errors.New("a secret is for hosts, not for a range of addresses")
		}
		if err != nil {
			return fmt.Errorf("secret %s: host %s: %w (ports are not named here)", s.Name, quote(host), err)
		}
	}
	return nil
}

func isVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Read reads the value of a secret: of a variable that env has (nil: os.LookupEnv), the content of a file, or what a shell line
// prints within half a minute, each without the newline at its end. No error holds any of it.
func Read(ctx context.Context, source string, env func(string) (string, bool)) (Value, error) {
	kind, rest, _ := strings.Cut(source, ":")
	var data []byte
	var err error
	switch kind {
	case "env":
		if env == nil {
			env = os.LookupEnv
		}
		text, ok := env(rest)
		if !ok {
			return "", fmt.Errorf("the variable %s is not set", quote(rest))
		}
		data = []byte(text)
	case "file":
		data, err = readFile(rest)
	case "cmd":
		data, err = readCommand(ctx, rest)
	default:
		return "", errors.New("no source; wanted env:VARIABLE, file:PATH or cmd:COMMAND")
	}
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	return Value(text), checkValue(text)
}

// readFile reads no more of a file than a secret may have, and of files alone: a FIFO could keep it waiting.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", quote(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSecretValue+3))
}

// checkValue refuses what no header can hold.
func checkValue(text string) error {
	switch {
	case text == "":
		return errors.New("the secret is empty")
	case len(text) > maxSecretValue:
		return fmt.Errorf("the secret has more than %d bytes", maxSecretValue)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return errors.New("the secret has line ends or control characters, which a header cannot hold")
	}
	return nil
}

// A Value is a secret's value. It prints as dots, in logs too; only JSON and a conversion show it.
type Value string

const hidden = "•••"

// String hides the value.
func (Value) String() string { return hidden }

// GoString hides the value.
func (Value) GoString() string { return hidden }

// Format hides the value, whatever the verb.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue hides the value.
func (Value) LogValue() slog.Value { return slog.StringValue(hidden) }

// NewPlaceholder makes what stands for a secret inside: 192 random bits, fit for URLs, headers and shells.
func NewPlaceholder() string {
	var b [24]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return placeholderStart + base64.RawURLEncoding.EncodeToString(b[:])
}

// validPlaceholder reports whether text has NewPlaceholder's form.
func validPlaceholder(text string) bool {
	rest, ok := strings.CutPrefix(text, placeholderStart)
	_, err := base64.RawURLEncoding.DecodeString(rest)
	return ok && err == nil && len(rest) == 32
}
