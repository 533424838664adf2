package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// What an upper layer may take on the host's disk when nobody is there to look at it. What is inside chooses the sizes: a
// file of holes costs it nothing, and the engine writes holes out.
const (
	mostHoles   = 8 << 30 // bytes; a layer that has more is not read as a set of changes either
	upperAround = 8       // the part of the disk's limit that entries' headers may take beside content
	upperLeast  = 64 << 20
	upperBlock  = 64 << 10
)

// errUpperTooLarge is a layer that was not kept.
var errUpperTooLarge = errors.New("it is larger than what a sandbox can write within its limit of disk")

// saveUpper writes what the sandbox changed to a file that appears whole.
func (l *last) saveUpper(path string) error {
	tmp := path + ".part"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	defer f.Close()
	w := &upperFile{f: f, content: mostUpper(f, l.k.plan.Disk), holes: mostHoles}
	l.ops.Lock()
	err = l.pipeUpper(w)
	l.ops.Unlock()
	if err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// pipeUpper reads the upper layer into w. What w does not take ends the reading.
func (l *last) pipeUpper(w io.Writer) error {
	r, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	_, _ = unix.FcntlInt(pw.Fd(), unix.F_SETPIPE_SZ, 1<<20) // a smaller pipe works too, slower
	copied := make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(w, struct{ io.Reader }{r}, make([]byte, upperBlock))
		r.Close() // the engine gets EPIPE instead of waiting for a reader that is gone
		copied <- err
	}()
	err = l.k.upper(pw)
	pw.Close()
	if failed := <-copied; failed != nil {
		return failed
	}
	return err
}

// mostUpper is how many bytes other than holes a layer may take in f: as many as the sandbox could write, and never
// more than nine tenths of what is free.
func mostUpper(f *os.File, disk int64) int64 {
	most := int64(1) << 62
	if disk > 0 {
		most = disk + max(disk/upperAround, upperLeast)
	}
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) == nil {
		most = min(most, int64(st.Bavail)*st.Bsize/10*9)
	}
	return most
}

// An upperFile leaves out of a file what is empty, and takes so much and no more.
type upperFile struct {
	f              *os.File
	content, holes int64 // bytes that may still come
	at             int64
}

func (u *upperFile) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		part := p[done:min(done+upperBlock, len(p))]
		left := &u.content
		empty := len(bytes.Trim(part, "\x00")) == 0
		if empty {
			left = &u.holes
		}
		if *left -= int64(len(part)); *left < 0 {
			return done, errUpperTooLarge
		}
		if !empty {
			if _, err := u.f.WriteAt(part, u.at); err != nil {
				return done, fmt.Errorf("after %d MB: %w", u.at>>20, err)
			}
		}
		u.at += int64(len(part))
		done += len(part)
	}
	return len(p), nil
}

// end gives the file its length, which may end with a hole, and waits until it is on the disk.
func (u *upperFile) end() error {
	if err := u.f.Truncate(u.at); err != nil {
		return err
	}
	return u.f.Sync()
}
