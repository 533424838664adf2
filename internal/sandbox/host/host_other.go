//go:build !unix

package host

import (
	"errors"
	"os"
	"syscall"
)

func apart() *syscall.SysProcAttr { return nil }

func sockets() (near, far *os.File, err error) {
	return nil, nil, errors.New("running on the host needs Linux")
}
