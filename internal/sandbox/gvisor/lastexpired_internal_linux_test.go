package gvisor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatIsKeptOfAnExpiredSandboxIsBounded(t *testing.T) {
	const mega = 1 << 20
	data := bytes.Repeat([]byte("x"), mega)
	for _, tt := range []struct {
		name           string
		content, holes int64
		write          []int // megabytes: of data, or negative of holes
		fails          bool
	}{
		{"content within its limit is kept", 2 * mega, 0, []int{2}, false},
		{"content above it is not", 2*mega - 1, 0, []int{2}, true},
		{"holes do not count as content", 1, 8 * mega, []int{-8}, false},
		{"holes have a limit of their own", 1, 8 * mega, []int{-8, -1}, true},
		{"a layer may end with a hole", mega, mega, []int{1, -1}, false},
		{"many small holes are as one large one", mega, 4 * mega, []int{-1, -1, 1, -1, -1, -1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "tar"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			u := &upperFile{f: f, content: tt.content, holes: tt.holes}
			var want []byte
			for _, n := range tt.write {
				part := bytes.Repeat(data, max(n, 0))
				if n < 0 {
					part = make([]byte, -n*mega)
				}
				want = append(want, part...)
				if _, err = u.Write(part); err != nil {
					break
				}
			}
			if tt.fails {
				if !errors.Is(err, errUpperTooLarge) {
					t.Fatalf("Write: err = %v, want %v", err, errUpperTooLarge)
				}
				return
			}
			if err := errors.Join(err, u.end()); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the file has %d bytes (%v), and not the %d that were written", len(got), err, len(want))
			}
			var st unix.Stat_t
			if err := unix.Stat(f.Name(), &st); err != nil || st.Blocks*512 > tt.content+mega {
				t.Errorf("it takes %d bytes of the disk (%v), %d are allowed", st.Blocks*512, err, tt.content)
			}
		})
	}
}

func TestAnExpiredSandboxMayLeaveAsMuchAsItCouldWrite(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := mostUpper(f, 8<<20); got > 8<<20+upperLeast || got <= 0 {
		t.Errorf("mostUpper = %d", got)
	}
	if got := mostUpper(f, 0); got <= 0 || got == 1<<62 {
		t.Errorf("without a limit of disk, mostUpper = %d, want a part of what is free", got)
	}
}
