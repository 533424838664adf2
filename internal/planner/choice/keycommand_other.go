//go:build !unix

package choice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// keyTime is how long a key command may take: it may ask for a passphrase.
const keyTime = 60 * time.Second

// runKeyCommand runs a line of the person's own, where there is a shell for it.
func runKeyCommand(ctx context.Context, line string, stdin io.Reader, stderr io.Writer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	var out keyBuffer
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = os.Environ()
	cmd.Stdout, cmd.Stderr = &out, stderr
	if f, ok := stdin.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			cmd.Stdin = f
		}
	}
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case out.full:
		return "", errKeyTooLong
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("it gave no key within %v", keyTime)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("it failed (%w); run it by hand to see why", err)
	}
	return string(out.buf), nil
}
