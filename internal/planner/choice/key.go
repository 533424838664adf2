package choice

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// key is the key that goes with the target; "" is none. It goes where it belongs or nowhere.
func (c *chooser) key(ctx context.Context, t *target) (string, error) {
	if c.opts.Show != nil {
		return "", nil // nothing is sent
	}
	key, err := c.findKey(ctx, t)
	switch {
	case err != nil:
		return "", err
	case key != "" && strings.HasPrefix(t.baseURL, "http://") && !loopback(t.baseURL):
		return "", fmt.Errorf("the key for %s would be readable on its way to http://%s; use https://, or a tunnel that begins on this machine (ssh -L)", t.provider.name, host(t.baseURL))
	case key == "" && t.needsKey():
		return "", fmt.Errorf("%s needs a key; set %s, or key_command below ai: in %s to a command that prints it", t.provider.name, t.provider.keys[0], c.file())
	}
	if strings.HasPrefix(t.baseURL, "http://") && !loopback(t.baseURL) {
		c.note("what is sent to http://" + host(t.baseURL) + " can be read on its way")
	}
	return key, nil
}

// needsKey reports whether nothing can be asked without a key. Another address than the
// provider's own may want none.
func (t *target) needsKey() bool {
	p := t.provider
	return p.needsKey && (p.base == "" || p.wire == wireGemini || sameOrigin(t.baseURL, p.base))
}

func (c *chooser) findKey(ctx context.Context, t *target) (string, error) {
	if t.found {
		return "", nil // nobody vouched for it
	}
	// The command was written for an address. One that a variable or a flag names, such as
	// a project's .env may set, does not get what it prints.
	if t.keyCommand != "" && t.fromEnv == "" {
		return c.keyFromCommand(ctx, t.keyCommand)
	}
	variable := c.keyVariable(t.provider)
	switch {
	case variable != "" && (t.named || sameOrigin(t.baseURL, t.provider.base)):
		return goodKey(variable, strings.TrimSpace(c.env(variable)))
	case variable != "":
		c.note(fmt.Sprintf("%s is not sent to %s; name the provider beside the address if it shall be", variable, host(t.baseURL)))
	}
	return "", c.notItsCommand(t)
}

// notItsCommand says why the key command of the settings is not run, where somebody could
// have meant it to be.
func (c *chooser) notItsCommand(t *target) error {
	ai := &c.opts.AI
	if ai.KeyCommand == "" || t.provider == nil {
		return nil
	}
	if t.fromEnv != "" && t.keyCommand != "" {
		return fmt.Errorf("key_command is not run for the address in %s, which anything could have set; write base_url: %s below ai: in %s", t.fromEnv, t.baseURL, c.file())
	}
	theirs := ai.BaseURL
	if p := named(ai.Provider); theirs == "" && p != nil {
		theirs = p.base
	}
	switch {
	case t.named && ai.Provider == t.provider.name:
		return fmt.Errorf("key_command is for %s, and is not run for %s, which %s names; write that address into %s, or set %s", orUnknown(host(theirs)), host(t.baseURL), t.why, c.file(), t.provider.keys[0])
	case !t.named:
		c.note(fmt.Sprintf("key_command is for %s, and is not run for %s", orUnknown(host(theirs)), host(t.baseURL)))
	}
	return nil
}

func orUnknown(host string) string {
	if host == "" {
		return "another address"
	}
	return host
}

// maxKey is how long a key may be.
const maxKey = 8 << 10

// goodKey refuses what is no key, without showing it: it may well be one.
func goodKey(from, key string) (string, error) {
	wrong := ""
	switch {
	case key == "":
		wrong = "is empty"
	case len(key) > maxKey:
		wrong = fmt.Sprintf("has more than %d bytes", maxKey)
	case strings.ContainsAny(key, "\r\n"):
		wrong = "has several lines; let it be the key alone, such as with | head -n 1"
	case strings.Contains(key, " "):
		wrong = "has a space in it, so it is no key"
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		wrong = "holds characters that no key has"
	default:
		return key, nil
	}
	return "", fmt.Errorf("the key of %s %s", from, wrong)
}

// keyFromCommand is what the key command prints.
func (c *chooser) keyFromCommand(ctx context.Context, line string) (string, error) {
	out, err := runKeyCommand(ctx, line, c.opts.Stdin, c.opts.Stderr)
	if err != nil {
		return "", fmt.Errorf("key_command: %w", err)
	}
	return goodKey("key_command", strings.TrimSpace(out))
}

var errKeyTooLong = errors.New("it prints too much for a key")

// keyBuffer takes what the command prints.
type keyBuffer struct {
	buf  []byte
	full bool
}

// Write is io.Writer's: an error stops the copying, and what is written after that fails.
func (k *keyBuffer) Write(p []byte) (int, error) {
	if len(k.buf)+len(p) > maxKey+2 {
		k.full = true
		return 0, errKeyTooLong
	}
	k.buf = append(k.buf, p...)
	return len(p), nil
}
