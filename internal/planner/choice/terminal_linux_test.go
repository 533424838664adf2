package choice_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"airlock/internal/config"
	"airlock/internal/planner/choice"
)

// chooseOnTerminal chooses with a key command that asks for something, then asks itself.
func chooseOnTerminal() {
	opts := &choice.Options{
		AI:     config.AI{Provider: "openai", Model: "m", KeyCommand: os.Getenv("AIRLOCK_TEST_TERMINAL")},
		Stderr: os.Stderr,
	}
	if os.Getenv("AIRLOCK_TEST_PIPED") == "" {
		opts.Stdin = os.Stdin
	}
	chosen, err := choice.Choose(context.Background(), opts)
	if err != nil {
		fmt.Println("failed:", err)
	} else {
		fmt.Println("a key that ends in", chosen.Key[max(0, len(chosen.Key)-3):])
	}
	fmt.Print("airlock asks: ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("airlock got %q, %v\n", line, err)
}

func TestAKeyCommandMayAskOnTheTerminal(t *testing.T) {
	for _, tt := range []struct{ name, line, piped, type1, want string }{
		{"on the terminal that is stdin", `printf 'passphrase: ' >&2; read -r x; echo "sk-$x"`, "", "abc\n", "a key that ends in abc"},
		{"on the terminal beside a pipe", `printf 'passphrase: ' >&2; read -r x; echo "sk-$x"`, "1", "abc\n", "a key that ends in abc"},
		{"on the terminal by its name", `printf 'passphrase: ' >/dev/tty; read -r x </dev/tty; echo "sk-$x"`, "", "abc\n", "a key that ends in abc"},
		{"and be given up", `printf 'passphrase: ' >&2; read -r x; echo "sk-$x"`, "", "\x03", "failed: key_command: it failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe)
			cmd.Env = append(os.Environ(), "AIRLOCK_TEST_TERMINAL="+tt.line, "AIRLOCK_TEST_PIPED="+tt.piped)
			tty, err := pty.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			seen := &strings.Builder{}
			until(t, tty, seen, "passphrase: ")
			if _, err := io.WriteString(tty, tt.type1); err != nil {
				t.Fatal(err)
			}
			until(t, tty, seen, tt.want)
			until(t, tty, seen, "airlock asks: ")
			if _, err := io.WriteString(tty, "yes\n"); err != nil {
				t.Fatal(err)
			}
			until(t, tty, seen, `airlock got "yes\n", <nil>`)
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// until reads from the terminal until a text is there.
func until(t *testing.T, tty *os.File, seen *strings.Builder, text string) {
	t.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := tty.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("the terminal shows %q, not %q: %v", seen.String(), text, err)
		}
	}
}
