package changes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
)

// copyRuns copies the content of src, which is size bytes long, into the empty file dst,
// holes as holes, and returns its digest.
func copyRuns(dst, src *os.File) (string, error) {
	info, err := src.Stat()
	if err != nil {
		return "", err
	}
	size := info.Size()
	if err := dst.Truncate(size); err != nil {
		return "", err
	}
	sum, at := sha256.New(), int64(0)
	buf := make([]byte, max(1, min(size, 128<<10)))
	err = dataRuns(src, size, func(from, to int64) error {
		if err := hashZeros(sum, from-at); err != nil {
			return err
		}
		at = to
		w := io.MultiWriter(io.NewOffsetWriter(dst, from), sum)
		n, err := io.CopyBuffer(w, io.NewSectionReader(src, from, to-from), buf)
		if err == nil && n < to-from {
			err = fmt.Errorf("it became shorter while it was copied: %w", io.ErrUnexpectedEOF)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if err := hashZeros(sum, size-at); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func hashZeros(sum hash.Hash, n int64) error {
	_, err := io.CopyN(sum, zeroReader{}, n)
	return err
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// digest is the SHA-256 of the file at p.
func (h *hostFS) digest(p Path) (string, error) {
	f, err := h.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", shown(p), err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// sameXattrs reports whether two nodes carry the same user attributes.
func sameXattrs(a, b *Node) bool {
	if len(a.Xattrs) != len(b.Xattrs) {
		return false
	}
	for key, value := range a.Xattrs {
		if other, ok := b.Xattrs[key]; !ok || !bytes.Equal(value, other) {
			return false
		}
	}
	return true
}

// sameObject reports whether now is the very object that was seen before, unchanged. A
// rename changes ctime and nothing else, so withCTime is for objects that stayed put.
func sameObject(now, before *Node, withCTime bool) bool {
	return now.Type == before.Type && now.Ino == before.Ino && now.Size == before.Size &&
		now.MTime.Equal(before.MTime) && (!withCTime || now.CTime.Equal(before.CTime))
}
