// Package leaktest ends the tests of a package with a look at what still runs.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long what is just ending may take: on a busy machine a process that was killed, or a goroutine whose turn
// has not come, takes longer than the half second that goleak waits.
const patience = 30 * time.Second

// Main runs a package's tests, cleans up after them and ends the program. A goroutine that goes on after them fails them.
func Main(m *testing.M, cleanup ...func()) {
	code := m.Run()
	for _, clean := range cleanup {
		clean()
	}
	if code == 0 {
		if err := wait(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func wait() error {
	for end := time.Now().Add(patience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(end) {
			return err
		}
	}
}
