package image_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"airlock/internal/image"
)

// big is an image of one layer of about a megabyte, and that layer.
func big(t *testing.T) (v1.Image, v1.Layer, []byte) {
	t.Helper()
	l := layerOf(t, file("a", noise(1_000_000, 3)))
	r, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return imageOf(t, l), l, data
}

// cut answers with the first n bytes of what is left of data, and then breaks the connection.
func cut(w http.ResponseWriter, r *http.Request, data []byte, n int, ranges bool) {
	from, status := 0, http.StatusOK
	if h := r.Header.Get("Range"); h != "" && ranges {
		_, _ = fmt.Sscanf(h, "bytes=%d-", &from)
		status = http.StatusPartialContent
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)-from))
	w.WriteHeader(status)
	_, _ = w.Write(data[from:min(from+n, len(data))])
	_ = http.NewResponseController(w.(*counting).ResponseWriter).Flush()
	if from+n < len(data) {
		panic(http.ErrAbortHandler)
	}
}

func TestABrokenDownloadGoesOnWhereItWas(t *testing.T) {
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "a:1", img)
	path := blobPath("a", digestOf(t, l))
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			cut(w, r, data, 300_000, true)
		}
		return r.URL.Path == path
	})
	s := newStore(t, nil)
	pull(t, s, h.ref("a:1"), nil)
	if sent := h.bytes(path); sent != len(data) {
		t.Errorf("%d bytes were sent of a layer of %d", sent, len(data))
	}
	if n := h.asked(path); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
	leftovers(t, s)
}

func TestTheNextPullGoesOnWhereOneWasGivenUp(t *testing.T) {
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "a:1", img)
	path := blobPath("a", digestOf(t, l))
	s := newStore(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:400_000])
		_ = http.NewResponseController(w.(*counting).ResponseWriter).Flush()
		<-r.Context().Done()
		return true
	})
	part := filepath.Join(s.Dir(), "partial", strings.Replace(digestOf(t, l).String(), ":", "-", 1)+".partial")
	go func() {
		for {
			if info, err := os.Stat(part); err == nil && info.Size() >= 400_000 {
				break
			}
			time.Sleep(time.Millisecond) // until the file has come so far
		}
		cancel()
	}()
	_, err := s.Pull(ctx, h.ref("a:1"), nil)
	wantError(t, err, context.Canceled)
	leftovers(t, s, "partial")
	h.answer(nil)
	pull(t, s, h.ref("a:1"), nil)
	if sent := h.bytes(path); sent != len(data)-400_000 {
		t.Errorf("%d bytes were sent, want the missing %d", sent, len(data)-400_000)
	}
	leftovers(t, s)
}

func TestRegistriesThatDoNotDoAsAsked(t *testing.T) {
	img, l, data := big(t)
	path := blobPath("a", digestOf(t, l))
	half := len(data) / 2
	tests := []struct {
		name   string
		answer func(n int64, w http.ResponseWriter, r *http.Request)
		most   int // bytes that may be sent
	}{
		{"one without ranges sends all again", func(n int64, w http.ResponseWriter, r *http.Request) {
			size := half
			if n > 1 {
				size = len(data)
			}
			cut(w, r, data, size, false)
		}, len(data) + half},
		{"one that refuses ranges is asked without", func(n int64, w http.ResponseWriter, r *http.Request) {
			switch {
			case n == 1:
				cut(w, r, data, half, true)
			case r.Header.Get("Range") != "":
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			default:
				cut(w, r, data, len(data), false)
			}
		}, len(data) + half},
		{"one that sends another range is not believed", func(n int64, w http.ResponseWriter, r *http.Request) {
			switch {
			case n == 1:
				cut(w, r, data, half, true)
			case r.Header.Get("Range") != "":
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(data)-1, len(data)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(data[5:])
			default:
				cut(w, r, data, len(data), false)
			}
		}, 3 * len(data)},
		{"one that is garbled on the way goes on where it was", func(n int64, w http.ResponseWriter, r *http.Request) {
			if n > 1 {
				cut(w, r, data, len(data), true)
				return
			}
			conn, _, err := http.NewResponseController(w.(*counting).ResponseWriter).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nno number\r\n", half, data[:half])
		}, len(data) - half},
		{"one that has no time is asked again", func(n int64, w http.ResponseWriter, r *http.Request) {
			if n < 4 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			cut(w, r, data, len(data), true)
		}, len(data)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHub(t, nil)
			h.push(t, "a:1", img)
			var n atomic.Int64
			h.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == path {
					test.answer(n.Add(1), w, r)
				}
				return r.URL.Path == path
			})
			s := newStore(t, nil)
			pull(t, s, h.ref("a:1"), nil)
			if sent := h.bytes(path); sent > test.most {
				t.Errorf("%d bytes were sent, want at most %d", sent, test.most)
			}
			leftovers(t, s)
		})
	}
}

func TestADamagedPartIsFetchedAnew(t *testing.T) {
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "a:1", img)
	for name, part := range map[string][]byte{
		"zeroes instead of what was written": make([]byte, 1000),
		"more than there is":                 make([]byte, len(data)+10),
		"all of it, wrong":                   make([]byte, len(data)),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			file := filepath.Join(s.Dir(), "partial", strings.Replace(digestOf(t, l).String(), ":", "-", 1)+".partial")
			if err := os.WriteFile(file, part, 0o600); err != nil {
				t.Fatal(err)
			}
			pull(t, s, h.ref("a:1"), nil)
			leftovers(t, s)
		})
	}
}

func TestADamagedBlobIsFetchedAnew(t *testing.T) {
	h := newHub(t, nil)
	below := layerOf(t, file("a", noise(1000, 4)))
	h.push(t, "a:1", imageOf(t, below, layerOf(t, file("b", "1"))))
	h.push(t, "a:2", imageOf(t, below, layerOf(t, file("b", "2"))))
	s := newStore(t, nil)
	pull(t, s, h.ref("a:1"), nil)
	blob := filepath.Join(s.Dir(), "blobs", strings.Replace(digestOf(t, below).String(), ":", "-", 1))
	data, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(blob, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), h.ref("a:2"), nil); err == nil {
		t.Fatal("a damaged layer was taken")
	}
	leftovers(t, s, "partial") // of the layer above
	wantTree(t, pull(t, s, h.ref("a:2"), nil).RootDir, "a="+noise(1000, 4), "b=2")
}

func TestLayersComeSeveralAtOnceButNotAll(t *testing.T) {
	h := newHub(t, nil)
	var layers []v1.Layer
	for i := range 8 {
		layers = append(layers, layerOf(t, file(fmt.Sprint("f", i), noise(1000, uint64(i)))))
	}
	img := imageOf(t, layers...)
	h.push(t, "a:1", img)
	config, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	var now, most atomic.Int64
	three := make(chan struct{})
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || strings.Contains(r.URL.Path, config.Hex) {
			return false
		}
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 {
			select {
			case <-three:
			default:
				close(three)
			}
		}
		select {
		case <-three:
		case <-r.Context().Done():
		}
		return false
	})
	pull(t, newStore(t, nil), h.ref("a:1"), nil)
	if most.Load() != 3 {
		t.Errorf("%d layers at once, want 3", most.Load())
	}
}

func TestPullsAtOnceShareTheWork(t *testing.T) {
	h := newHub(t, nil)
	shared := layerOf(t, file("a", noise(500_000, 5)))
	refs := []string{"a:1", "a:1", "a:1", "a:2", "a:3"}
	for i, tag := range []string{"a:1", "a:2", "a:3"} {
		h.push(t, tag, imageOf(t, shared, layerOf(t, file("b", fmt.Sprint(i)))))
	}
	h.answer(nil)
	dir := filepath.Join(fastDir(t), "images")
	var work sync.WaitGroup
	for i, ref := range refs {
		s := storeAt(t, dir, nil) // as another process would open it
		work.Go(func() {
			if _, err := s.Pull(t.Context(), h.ref(ref), &image.PullOptions{Owner: fmt.Sprint("box", i)}); err != nil {
				t.Errorf("Pull(%s): %v", ref, err)
			}
		})
	}
	work.Wait()
	if n := h.asked("GET " + blobPath("a", digestOf(t, shared))); n != 1 {
		t.Errorf("the layer was fetched %d times", n)
	}
	s := storeAt(t, dir, nil)
	images, err := s.List(t.Context())
	if err != nil || len(images) != 3 {
		t.Errorf("List = %d images, %v; want 3", len(images), err)
	}
	leftovers(t, s)
}

func TestARegistryThatGoesSilentIsAskedAgain(t *testing.T) {
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "a:1", img)
	path := blobPath("a", digestOf(t, l))
	var n atomic.Int64
	h.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		if n.Add(1) > 1 {
			cut(w, r, data, len(data), true)
			return true
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:400_000])
		_ = http.NewResponseController(w.(*counting).ResponseWriter).Flush()
		<-r.Context().Done() // the other side gives up
		return true
	})
	pull(t, newStore(t, &image.Options{Stall: 500 * time.Millisecond}), h.ref("a:1"), nil)
	if n.Load() < 2 { // more, where the machine stood still meanwhile
		t.Errorf("%d requests, want 2", n.Load())
	}
}

func TestAPullThatIsGivenUpLeavesNothing(t *testing.T) {
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", noise(100_000, 1)), file("b", noise(600_000, 2)))))
	s := newStore(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.Pull(ctx, h.ref("a:1"), &image.PullOptions{Progress: func(image.Progress) {
		if found, _ := filepath.Glob(filepath.Join(s.Dir(), "temp", "*", "fs", "*")); len(found) > 0 {
			cancel()
		}
		time.Sleep(100 * time.Millisecond) // so that the next step is told, too
	}})
	wantError(t, err, context.Canceled)
	leftovers(t, s)
	pull(t, s, h.ref("a:1"), nil)
}
