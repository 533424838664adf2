package netgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// readCommand takes what a shell line prints. What it says on stderr is dropped, since that may hold the secret.
func readCommand(ctx context.Context, line string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	own(cmd)
	cmd.WaitDelay = time.Second
	out := &bounded{most: maxSecretValue + 3}
	cmd.Stdout = out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the command did not print a secret within %v: %w", secretTimeout, ctx.Err())
	case out.passed:
		return nil, fmt.Errorf("the command printed more than %d bytes", maxSecretValue)
	case err != nil:
		return nil, fmt.Errorf("the command failed (%w): run it by hand to see why", err)
	}
	return out.data, nil
}

// A bounded takes so many bytes and then fails.
type bounded struct {
	data   []byte
	most   int
	passed bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > b.most {
		b.passed = true
		return 0, errors.New("too much")
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

var _ io.Writer = (*bounded)(nil)
