//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "airlock-engine runs sandboxes, which needs Linux")
	os.Exit(2)
}
