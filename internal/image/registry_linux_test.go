package image_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"airlock/internal/image"
	"airlock/internal/image/imagetest"
)

// realRegistry starts Debian's docker-registry with TLS, which lets ann in alone, and gives its address.
func realRegistry(t *testing.T, n *internet) string {
	t.Helper()
	tools(t, "docker-registry")
	addr, end, err := imagetest.Serve(t.Context(), t.TempDir(), n.cert, n.key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return addr
}

// toRegistry has skopeo push to it.
func toRegistry(t *testing.T, n *internet, args ...string) {
	t.Helper()
	certs := t.TempDir()
	write(t, filepath.Join(certs, "ca.crt"), string(n.cert))
	skopeo(t, append([]string{"--dest-creds", "ann:secret", "--dest-cert-dir", certs}, args...)...)
}

func TestARealRegistry(t *testing.T) {
	tools(t, "umoci", "skopeo")
	n := newInternet(t)
	host := realRegistry(t, n)
	lay := layoutOf(t)
	run(t, "umoci", "config", "--image", lay+":base", "--tag", "other", "--architecture", "s390x")
	addIndex(t, lay, "all", "v2", "other")
	toRegistry(t, n, "oci:"+lay+":v2", "docker://"+host+"/x/two:oci")
	toRegistry(t, n, "--format", "v2s2", "oci:"+lay+":v2", "docker://"+host+"/x/two:docker")
	toRegistry(t, n, "--dest-compress-format", "zstd", "oci:"+lay+":v2", "docker://"+host+"/x/zstd:1")
	toRegistry(t, n, "--all", "oci:"+lay+":all", "docker://"+host+"/x/all:1")
	toRegistry(t, n, "oci:"+lay+":other", "docker://"+host+"/x/other:1")

	home(t, login(host, "secret"))
	digest := ""
	for _, name := range []string{"x/two:oci", "x/two:docker", "x/zstd:1", "x/all:1"} {
		s := n.store(t, n.roots)
		img := pull(t, s, host+"/"+name, nil)
		wantTree(t, img.RootDir, v2Tree()...)
		leftovers(t, s)
		digest = img.Digest
	}
	pull(t, n.store(t, n.roots), host+"/x/all@"+digest, nil)
	for name, says := range map[string]string{
		"x/two:none": "does not have it",
		"x/none:1":   "does not have it",
		"x/other:1":  "it is for \"linux/s390x\"",
		"x/two@sha256:" + strings.Repeat("0", 64): "does not have it",
	} {
		_, err := n.store(t, n.roots).Pull(t.Context(), host+"/"+name, nil)
		wantError(t, err, nil, says)
	}
	home(t, login(host, "wrong"))
	_, err := n.store(t, n.roots).Pull(t.Context(), host+"/x/two:oci", nil)
	wantError(t, err, nil, "in spite of the credentials", "docker login "+host)
	home(t, "")
	_, err = n.store(t, n.roots).Pull(t.Context(), host+"/x/two:oci", nil)
	wantError(t, err, nil, "there are no credentials for it", "docker login "+host)
}

// A wire leads to a registry, and breaks each connection after some bytes.
type wire struct {
	addr  string
	bytes atomic.Int64 // that came from the registry
	cuts  atomic.Int64
}

// wireTo makes one. most: bytes of a connection; 0: any number.
func wireTo(t *testing.T, to string, most int64) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { w.lead(near, to, most) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		work.Wait()
	})
	return w
}

func (w *wire) Write(p []byte) (int, error) {
	w.bytes.Add(int64(len(p)))
	return len(p), nil
}

func (w *wire) lead(near net.Conn, to string, most int64) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		near.Close()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, near) // until either is closed
		far.Close()
		_, _ = io.Copy(io.Discard, near) // what is closed with something unread takes back what it sent
	}()
	from := io.Reader(far)
	if most > 0 {
		from = io.LimitReader(far, most)
	}
	sent, err := io.Copy(near, io.TeeReader(from, w)) // counted before they arrive
	if err == nil && sent == most {
		w.cuts.Add(1)
	}
	far.Close()
	_ = near.(*net.TCPConn).CloseWrite()
	<-done // until the other side has found out
	near.Close()
}

func TestARealRegistryWhoseConnectionsBreak(t *testing.T) {
	tools(t, "umoci", "skopeo")
	n := newInternet(t)
	host := realRegistry(t, n)
	toRegistry(t, n, "oci:"+layoutOf(t)+":v2", "docker://"+host+"/x/two:1")
	w := wireTo(t, host, 700_000) // of some two million
	home(t, login(w.addr, "secret"))
	s := n.store(t, n.roots)
	wantTree(t, pull(t, s, w.addr+"/x/two:1", nil).RootDir, v2Tree()...)
	if w.cuts.Load() < 2 {
		t.Errorf("the connection broke %d times, want at least two", w.cuts.Load())
	}
	// What was under way when a connection broke is sent again. Begun anew each time, it would never have come.
	if sent := w.bytes.Load(); sent > 4_000_000 {
		t.Errorf("%d bytes came of an image of 2 million", sent)
	}
	leftovers(t, s)
}

func TestAStreamThatIsResetIsNotTheEnd(t *testing.T) {
	home(t, "")
	h := newHub(t, nil)
	img, l, data := big(t)
	h.push(t, "x/a:1", img)
	n := newInternet(t)
	var resets atomic.Int64
	n.host(t, "hub.example.com", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("%s was asked for with %s", r.URL, r.Proto)
		}
		if strings.Contains(r.URL.Path, "/manifests/") && resets.CompareAndSwap(0, 1) {
			panic(http.ErrAbortHandler) // before anything was said
		}
		if strings.Contains(r.URL.Path, digestOf(t, l).Hex) {
			from := 0
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
				w.WriteHeader(http.StatusPartialContent)
			}
			_, _ = w.Write(data[from:min(from+400_000, len(data))])
			if from+400_000 < len(data) {
				_ = http.NewResponseController(w).Flush()
				resets.Add(1)
				panic(http.ErrAbortHandler) // in the middle
			}
			return
		}
		h.Config.Handler.ServeHTTP(w, r)
	})
	s := n.store(t, n.roots)
	pull(t, s, "hub.example.com/x/a:1", nil)
	if resets.Load() != 3 {
		t.Errorf("%d streams were reset, want 3", resets.Load())
	}
	leftovers(t, s)
}

func TestARealRegistryIsAskedOnceByPullsAtOnce(t *testing.T) {
	tools(t, "umoci", "skopeo")
	n := newInternet(t)
	host := realRegistry(t, n)
	toRegistry(t, n, "oci:"+layoutOf(t)+":v2", "docker://"+host+"/x/two:1")
	w := wireTo(t, host, 0)
	home(t, login(w.addr, "secret"))
	dir := filepath.Join(fastDir(t), "images")
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: n.roots}}
	var work sync.WaitGroup
	for range 2 {
		s := storeAt(t, dir, &image.Options{Transport: tr}) // as another process would open it
		work.Go(func() {
			if img, err := s.Pull(t.Context(), w.addr+"/x/two:1", &image.PullOptions{Policy: image.Always}); err != nil {
				t.Errorf("Pull: %v", err)
			} else {
				wantTree(t, img.RootDir, v2Tree()...)
			}
		})
	}
	work.Wait()
	tr.CloseIdleConnections()
	if sent := w.bytes.Load(); sent > 2_200_000 {
		t.Errorf("%d bytes came of an image of 2 million", sent)
	}
	leftovers(t, storeAt(t, dir, nil))
}
