package agent_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"airlock/agent"
)

// A counter counts what is read of it, and knows whether its end was seen.
type counter struct {
	r     *bytes.Reader
	n     int
	ended bool
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	c.ended = c.ended || err == io.EOF
	return n, err
}

// tarEnd is where the standard library sees a tar's end.
func tarEnd(data []byte) (used int, whole bool) {
	c := &counter{r: bytes.NewReader(data)}
	for r := tar.NewReader(c); ; {
		if _, err := r.Next(); err != nil {
			return c.n, err == io.EOF && !c.ended
		}
	}
}

// tarOf makes a tar of the headers, with content where they have a size.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		err := w.WriteHeader(&h)
		if err == nil {
			_, err = w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tars are of every kind that programs write.
func tars(t testing.TB) map[string][]byte {
	long := strings.Repeat("long/", 60) + "name"
	return map[string][]byte{
		"an empty one":              tarOf(t),
		"a plain one":               tarOf(t, tar.Header{Name: "a", Size: 1}, tar.Header{Name: "b", Size: 512}, tar.Header{Typeflag: tar.TypeDir, Name: "d/"}),
		"long names":                tarOf(t, tar.Header{Name: long, Size: 700}, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: long}),
		"GNU's own":                 tarOf(t, tar.Header{Format: tar.FormatGNU, Name: long, Size: 513, Uid: 1 << 30}, tar.Header{Format: tar.FormatGNU, Name: "b", Size: 3}),
		"records":                   tarOf(t, tar.Header{Format: tar.FormatPAX, Name: "a\xff", Size: 9, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "1\n2=3"}}),
		"a note":                    tarOf(t, tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{agent.PackNotes + "skipped": `["x"]`}}, tar.Header{Name: "a", Size: 3}),
		"a size in them":            sizeInRecords(),
		"a link of a negative size": negativeLink(),
	}
}

// negativeLink is a tar of a link that says to have less than no content.
func negativeLink() []byte {
	var b [512]byte
	copy(b[0:], "name")
	copy(b[100:], "0000644\x00")
	copy(b[124:], strings.Repeat("\xff", 12))
	b[156] = tar.TypeSymlink
	copy(b[157:], "to")
	copy(b[257:], "ustar\x0000")
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00", sum))
	return append(b[:], make([]byte, 1024)...)
}

// sizeInRecords is a tar whose file has a header without a size, and records with one.
func sizeInRecords() []byte {
	block := func(kind byte, size string, content string) []byte {
		var b [512]byte
		copy(b[0:], "name")
		copy(b[100:], "0000644\x00")
		copy(b[124:], size)
		b[156] = kind
		copy(b[257:], "ustar\x0000")
		copy(b[148:], "        ")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		for i := range 6 {
			b[148+i] = '0' + byte(sum>>(3*(5-i))&7)
		}
		b[154] = 0
		out := append(b[:], content...)
		return append(out, make([]byte, -len(content)&511)...)
	}
	out := append(block('x', "00000000014\x00", "12 size=600\n"), block('0', "00000000000\x00", strings.Repeat("y", 600))...)
	return append(out, make([]byte, 1024)...)
}

func TestATarsEndIsWhereItIs(t *testing.T) {
	for name, data := range tars(t) {
		t.Run(name, func(t *testing.T) {
			want := len(data)
			if used, whole := tarEnd(data); used != want || !whole {
				t.Fatalf("the standard library: %d of %d, %v", used, want, whole)
			}
			more := append(bytes.Clone(data), strings.Repeat("more", 1000)...)
			for _, n := range []int{1, 7, 511, 512, 513, 1 << 20} {
				if used, whole := agent.TarEndInPieces(more, n); used != want || !whole {
					t.Errorf("in pieces of %d: %d of %d, %v", n, used, want, whole)
				}
			}
			for n := range data {
				if _, whole := agent.TarEnd(data[:n]); whole {
					t.Fatalf("it ends after %d bytes of %d", n, want)
				}
			}
		})
	}
}

// FuzzTarEnd holds where a tar ends against the standard library: a tar that it reads to its end
// ends there.
func FuzzTarEnd(f *testing.F) {
	for _, data := range tars(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		used, whole := agent.TarEnd(data)
		if used > len(data) {
			t.Fatalf("used %d of %d", used, len(data))
		}
		if pieces, same := agent.TarEndInPieces(data, 100); same != whole || whole && pieces != used {
			t.Fatalf("whole: %d, %v; in pieces: %d, %v", used, whole, pieces, same)
		}
		if want, ok := tarEnd(data); ok && (!whole || used != want) {
			t.Fatalf("ends at %d (%v), and for the standard library at %d", used, whole, want)
		}
	})
}
