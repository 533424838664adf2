//go:build unix

package choice_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/config"
	"airlock/internal/planner/choice"
)

func TestWhereAKeyGoes(t *testing.T) {
	print := "echo " + key
	openai := config.AI{Provider: "openai", Model: "gpt-x", KeyCommand: print}
	const official = "https://api.openai.com/v1"
	for _, tt := range []struct {
		name string
		opts choice.Options
		env  vars
		want want
	}{
		{
			"the command's to the provider of the settings",
			choice.Options{AI: openai},
			nil,
			want{provider: "openai", model: "gpt-x", endpoint: official, key: key, why: "the settings"},
		},
		{
			"it is before the variable, which is for all programs",
			choice.Options{AI: openai},
			vars{"OPENAI_API_KEY": "sk-SECRET-other"},
			want{provider: "openai", model: "gpt-x", endpoint: official, key: key, why: "the settings"},
		},
		{
			"to the same provider that a variable names",
			choice.Options{AI: openai},
			vars{"AIRLOCK_PROVIDER": "openai"},
			want{provider: "openai", model: "gpt-x", endpoint: official, key: key, why: "AIRLOCK_PROVIDER"},
		},
		{
			"to the same host that a variable names",
			choice.Options{AI: openai},
			vars{"AIRLOCK_BASE_URL": official + "/"},
			want{provider: "openai", model: "gpt-x", endpoint: official, key: key, why: "AIRLOCK_BASE_URL"},
		},
		{
			"not to another address that a variable names",
			choice.Options{AI: openai},
			vars{"AIRLOCK_PROVIDER": "openai", "AIRLOCK_MODEL": "m", "AIRLOCK_BASE_URL": "https://evil.example.com/v1"},
			want{err: "key_command is for api.openai.com, and is not run for evil.example.com, which AIRLOCK_PROVIDER names; write that address into /home/ann/config.yaml, or set OPENAI_API_KEY"},
		},
		{
			"nor to one that is named alone",
			choice.Options{AI: openai},
			vars{"AIRLOCK_MODEL": "m", "AIRLOCK_BASE_URL": "https://evil.example.com/v1"},
			want{provider: "openai", model: "m", endpoint: "https://evil.example.com/v1", why: "AIRLOCK_BASE_URL", note: "key_command is for api.openai.com, and is not run for evil.example.com"},
		},
		{
			"nor to another port of the host",
			choice.Options{AI: openai, Model: "m", Provider: "openai", BaseURL: "https://api.openai.com:8443/v1"},
			nil,
			want{err: "is not run for api.openai.com:8443"},
		},
		{
			"nor in the clear",
			choice.Options{AI: openai, Model: "m", Provider: "openai", BaseURL: "http://api.openai.com/v1"},
			nil,
			want{err: "is not run for api.openai.com"},
		},
		{
			"nor to another provider",
			choice.Options{AI: openai},
			vars{"AIRLOCK_PROVIDER": "anthropic"},
			want{err: "anthropic needs a key"},
		},
		{
			"nor to an address that Azure's variable names",
			choice.Options{AI: config.AI{Provider: "azure", Model: "m", KeyCommand: print}},
			vars{"AZURE_OPENAI_ENDPOINT": "https://evil.example.com"},
			want{err: "key_command is not run for the address in AZURE_OPENAI_ENDPOINT"},
		},
		{
			"nor to one that Ollama's names",
			choice.Options{AI: config.AI{Provider: "ollama", Model: "m", KeyCommand: print}},
			vars{"OLLAMA_HOST": "127.0.0.1:4321"},
			want{err: "key_command is not run for the address in OLLAMA_HOST"},
		},
		{
			"the command's to the address of the settings",
			choice.Options{AI: config.AI{BaseURL: "https://gpu.example.com/v1", Model: "m", KeyCommand: print}},
			nil,
			want{provider: "openai", model: "m", endpoint: "https://gpu.example.com/v1", key: key, why: "the settings"},
		},
		{
			"the variable's to another address beside which its provider is named",
			choice.Options{},
			vars{"AIRLOCK_PROVIDER": "openai", "AIRLOCK_MODEL": "m", "AIRLOCK_BASE_URL": "https://proxy.example.com/v1", "OPENAI_API_KEY": key},
			want{provider: "openai", model: "m", endpoint: "https://proxy.example.com/v1", key: key, why: "AIRLOCK_PROVIDER"},
		},
		{
			"not where the provider is named in another place",
			choice.Options{BaseURL: "https://proxy.example.com/v1", Model: "m"},
			vars{"AIRLOCK_PROVIDER": "openai", "OPENAI_API_KEY": key},
			want{provider: "openai", model: "m", endpoint: "https://proxy.example.com/v1", why: "--base-url", note: "OPENAI_API_KEY is not sent to proxy.example.com"},
		},
		{
			"no key is needed at another address",
			choice.Options{AI: config.AI{Provider: "anthropic", Model: "m", BaseURL: "http://127.0.0.1:9/"}},
			nil,
			want{provider: "anthropic", model: "m", endpoint: "http://127.0.0.1:9", why: "the settings"},
		},
		{
			"a key to this machine needs no TLS",
			choice.Options{AI: config.AI{Provider: "vllm", Model: "m", BaseURL: "http://[::1]:9/v1"}},
			vars{"VLLM_API_KEY": key},
			want{provider: "vllm", model: "m", endpoint: "http://[::1]:9/v1", key: key, why: "the settings"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Environ = tt.env.get
			check(t, &tt.opts, tt.want)
		})
	}
}

func TestKeyCommand(t *testing.T) {
	for _, tt := range []struct{ name, line, err string }{
		{"one line", "echo " + key, ""},
		{"without an end", "printf %s " + key, ""},
		{"spaces around it", "echo '  " + key + "\t'", ""},
		{"an empty line behind it", "echo " + key + "; echo", ""},
		{"a pipe", "printf '%s\\nuser: ann\\n' " + key + " | head -n 1", ""},
		{"the person's environment", "echo $TEST_AIRLOCK_VALUE", ""},
		{"two lines", "echo SECRET; echo user: ann", "the key of key_command has several lines; let it be the key alone"},
		{"nothing", "true", "the key of key_command is empty"},
		{"an escape sequence", "printf 'SECRET\\033[2J'", "the key of key_command holds characters that no key has"},
		{"a sentence", "echo SECRET is not in the store", "the key of key_command has a space in it"},
		{"much", "head -c 9000 /dev/zero | tr '\\0' k", "key_command: it prints too much for a key"},
		{"without an end at all", "yes SECRET", "key_command: it prints too much for a key"},
		{"a failure", "echo SECRET; exit 3", "key_command: it failed (exit status 3); run it by hand to see why"},
		{"no such program", "exec no-such-program-SECRET", "key_command: it failed (exit status 127)"},
		{"no shell's line", "if SECRET", "key_command: it failed (exit status 2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TEST_AIRLOCK_VALUE", key)
			var stderr bytes.Buffer
			w := want{provider: "openai", model: "m", endpoint: "https://api.openai.com/v1", key: key, why: "the settings", err: tt.err}
			check(t, &choice.Options{AI: config.AI{Provider: "openai", Model: "m", KeyCommand: tt.line}, Stderr: &stderr}, w)
		})
	}
	t.Run("what it says on stderr is shown", func(t *testing.T) {
		var stderr bytes.Buffer
		check(t, &choice.Options{AI: config.AI{Provider: "openai", Model: "m", KeyCommand: "echo the store is locked >&2; exit 1"}, Stderr: &stderr}, want{err: "it failed"})
		if got := stderr.String(); got != "the store is locked\n" {
			t.Errorf("stderr = %q", got)
		}
	})
}

func TestNothingIsLeftOfAKeyCommand(t *testing.T) {
	leaves := func(line string) *choice.Options {
		return &choice.Options{AI: config.AI{Provider: "openai", Model: "m", KeyCommand: line}, Dial: nobody}
	}
	gone := func(t *testing.T, pidFile string) {
		t.Helper()
		text, err := os.ReadFile(pidFile)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			err := syscall.Kill(pid, 0)
			if errors.Is(err, syscall.ESRCH) || zombie(pid) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("process %d is still there", pid)
			}
		}
	}
	t.Run("a child in the background neither stays nor holds the key back", func(t *testing.T) {
		pidFile := filepath.Join(t.TempDir(), "pid")
		begin := time.Now()
		got, err := choice.Choose(t.Context(), leaves("sleep 1000 & echo $! > "+pidFile+"; echo "+key))
		if err != nil || got.Key != key {
			t.Fatalf("Choose: err = %v", err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		gone(t, pidFile)
	})
	t.Run("the person gives up", func(t *testing.T) {
		pidFile := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin := time.Now()
		opts := leaves("sleep 1000 & echo $! > " + pidFile + "; echo it waits >&2; wait")
		opts.Stderr = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		if _, err := choice.Choose(ctx, opts); err == nil {
			t.Error("Choose: err = nil")
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		gone(t, pidFile)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// zombie reports whether a process has ended and only waits to be collected.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
