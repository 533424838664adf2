package fastsys_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"airlock/internal/fastsys"
)

func TestAFileIsMadeReadAndDressedAsByPackageUnix(t *testing.T) {
	dir := t.TempDir()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(fastsys.Mkdirat(unix.AT_FDCWD, filepath.Join(dir, "d"), 0o750))
	at, err := fastsys.Openat(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(err)
	fd, err := fastsys.Openat(at, "f", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	check(err)
	text := bytes.Repeat([]byte("text\n"), 1000)
	n, err := fastsys.Write(fd, text)
	if err != nil || n != len(text) {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if n, err := fastsys.Write(fd, nil); n != 0 || err != nil {
		t.Fatalf("Write of nothing = %d, %v", n, err)
	}
	when := time.Unix(1234567890, 123456789)
	check(fastsys.Fchmod(fd, 0o640))
	check(fastsys.Fchown(fd, os.Getuid(), os.Getgid()))
	check(fastsys.Futimens(fd, &[2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(when.UnixNano())}))
	var st, want unix.Stat_t
	check(fastsys.Fstat(fd, &st))
	check(unix.Fstat(fd, &want))
	if st != want || st.Mode != unix.S_IFREG|0o640 || st.Size != int64(len(text)) {
		t.Errorf("Fstat = %+v, unix.Fstat = %+v", st, want)
	}
	if got := time.Unix(st.Mtim.Unix()); !got.Equal(when) {
		t.Errorf("time = %v, want %v", got, when)
	}
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2*len(text))
	if n, err := fastsys.Read(fd, buf); err != nil || !bytes.Equal(buf[:max(n, 0)], text) {
		t.Errorf("Read = %d, %v", n, err)
	}
	if n, err := fastsys.Read(fd, buf); n != 0 || err != nil {
		t.Errorf("Read at the end = %d, %v", n, err)
	}
	check(fastsys.Close(fd))
	if err := fastsys.Close(fd); !errors.Is(err, unix.EBADF) {
		t.Errorf("Close twice = %v", err)
	}
	check(fastsys.Close(at))
}

func TestErrorsAreTheKernels(t *testing.T) {
	for name, c := range map[string]struct {
		call func() error
		want error
	}{
		"a file that is not there": {func() error { _, err := fastsys.Openat(unix.AT_FDCWD, "missing", 0, 0); return err }, unix.ENOENT},
		"a zero byte in a name":    {func() error { _, err := fastsys.Openat(unix.AT_FDCWD, "a\x00b", 0, 0); return err }, unix.EINVAL},
		"a folder that is there":   {func() error { return fastsys.Mkdirat(unix.AT_FDCWD, t.TempDir(), 0o700) }, unix.EEXIST},
		"write":                    {func() error { _, err := fastsys.Write(-1, []byte("x")); return err }, unix.EBADF},
		"read":                     {func() error { _, err := fastsys.Read(-1, make([]byte, 1)); return err }, unix.EBADF},
		"close":                    {func() error { return fastsys.Close(-1) }, unix.EBADF},
		"fstat":                    {func() error { return fastsys.Fstat(-1, &unix.Stat_t{}) }, unix.EBADF},
		"fchmod":                   {func() error { return fastsys.Fchmod(-1, 0) }, unix.EBADF},
		"fchown":                   {func() error { return fastsys.Fchown(-1, 0, 0) }, unix.EBADF},
		"futimens":                 {func() error { return fastsys.Futimens(-1, &[2]unix.Timespec{}) }, unix.EBADF},
	} {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// On one processor, a call that waits must let others run, and the garbage collector look at its stack.
func TestACallThatWaitsKeepsNobodyWaiting(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	got := make(chan byte)
	for range 8 {
		go func() {
			var grow [8 << 10]byte // on the stack, which the collector may move once the call is over
			n, err := fastsys.Read(p[0], grow[len(grow)-1:])
			if n != 1 || err != nil {
				t.Errorf("Read = %d, %v", n, err)
			}
			got <- grow[len(grow)-1]
		}()
	}
	for i := range 8 {
		runtime.GC()
		if n, err := fastsys.Write(p[1], []byte{byte('a' + i)}); n != 1 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		if b := <-got; b != byte('a'+i) {
			t.Errorf("got %d, want %d", b, int('a')+i)
		}
	}
}
