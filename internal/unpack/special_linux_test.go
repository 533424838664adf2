package unpack_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"airlock/internal/unpack"
)

func TestAFileTakesNoDevicesPlace(t *testing.T) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "there", Typeflag: tar.TypeReg, Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		make func(path string) error
	}{
		{"a pipe", func(path string) error { return unix.Mkfifo(path, 0o600) }},
		{"a socket", func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) }},
		{"a device", func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }},
	} {
		for _, replace := range []unpack.Replace{unpack.ReplaceSame, unpack.ReplaceEmpty, unpack.ReplaceAll} {
			dir := t.TempDir()
			path := filepath.Join(dir, "there")
			if err := tt.make(path); errors.Is(err, unix.EPERM) {
				t.Logf("%s can only be made by root", tt.name)
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			_, err := unpack.Into(t.Context(), dir, bytes.NewReader(content.Bytes()), &unpack.Options{Replace: replace})
			st, statErr := os.Lstat(path)
			if statErr != nil {
				t.Fatal(statErr)
			}
			if replaced := st.Mode().IsRegular(); replaced != (replace == unpack.ReplaceAll) || replaced != (err == nil) {
				t.Errorf("%s, Replace %d: it is %v, %v", tt.name, replace, st.Mode(), err)
			}
		}
	}
}
