package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"airlock/internal/image"
)

func blobsIn(t *testing.T, s *image.Store) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func ids(t *testing.T, s *image.Store) []string {
	t.Helper()
	images, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, img := range images {
		out = append(out, img.ID)
	}
	return out
}

func TestWhatIsHeldStays(t *testing.T) {
	h := newHub(t, nil)
	shared := layerOf(t, file("a", "1"))
	h.push(t, "a:1", imageOf(t, shared, layerOf(t, file("b", "1"))))
	h.push(t, "a:2", imageOf(t, shared, layerOf(t, file("b", "2"))))
	s := newStore(t, nil)
	one := pull(t, s, h.ref("a:1"), &image.PullOptions{Owner: "box1"})
	two := pull(t, s, h.ref("a:2"), nil)
	if err := s.Hold(t.Context(), one.ID, "snap.1"); err != nil {
		t.Fatal(err)
	}
	err := s.Remove(t.Context(), h.ref("a:1"))
	wantError(t, err, image.ErrInUse, "box1", "snap.1")
	if holders, err := s.Holders(t.Context()); err != nil || !slices.Equal(holders, []string{"box1", "snap.1"}) {
		t.Errorf("Holders = %v, %v", holders, err)
	}
	pruned, err := s.Prune(t.Context())
	if err != nil || len(pruned.Images) != 1 || pruned.Images[0].ID != two.ID || pruned.Bytes == 0 {
		t.Fatalf("Prune = %+v, %v; want the second image", pruned, err)
	}
	if got := ids(t, s); !slices.Equal(got, []string{one.ID}) {
		t.Errorf("there are %v, want %s", got, one.ID)
	}
	if n := len(blobsIn(t, s)); n != 2 {
		t.Errorf("%d layers are left, want the two of the image that is held", n)
	}
	if _, err := os.Stat(two.RootDir); err == nil {
		t.Error("the files of the second are still there")
	}
	for _, owner := range []string{"box1", "snap.1", "nobody"} {
		if err := s.Release(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), one.ID[len("sha256:"):len("sha256:")+4]); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s); len(got) != 0 || len(blobsIn(t, s)) != 0 {
		t.Errorf("left are %v and %v", got, blobsIn(t, s))
	}
	_, err = s.Inspect(t.Context(), h.ref("a:1"))
	wantError(t, err, image.ErrNotFound)
	leftovers(t, s)
	if entries, _ := os.ReadDir(filepath.Join(s.Dir(), "refs")); len(entries) != 0 {
		t.Errorf("references are left: %v", entries)
	}
}

func TestOneOfSeveralNamesIsRemovedAlone(t *testing.T) {
	h := newHub(t, nil)
	img := imageOf(t, layerOf(t, file("a", "1")))
	h.push(t, "a:1", img)
	h.push(t, "a:2", img)
	s := newStore(t, nil)
	one := pull(t, s, h.ref("a:1"), &image.PullOptions{Owner: "box"})
	two := pull(t, s, h.ref("a:2"), nil)
	if one.ID != two.ID || one.RootDir != two.RootDir || len(two.Refs) != 2 {
		t.Fatalf("images are %+v and %+v", one, two)
	}
	if err := s.Remove(t.Context(), h.ref("a:1")); err != nil {
		t.Fatal(err)
	}
	if img, err := s.Inspect(t.Context(), one.ID); err != nil || !slices.Equal(img.Refs, []string{h.ref("a:2")}) {
		t.Errorf("Inspect = %+v, %v", img, err)
	}
	wantError(t, s.Remove(t.Context(), h.ref("a:2")), image.ErrInUse)
}

func TestNamesOfOwners(t *testing.T) {
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	s := newStore(t, nil)
	img := pull(t, s, h.ref("a:1"), nil)
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "a\x00", ".hidden", strings.Repeat("x", 200), "a b", "ä"} {
		if err := s.Hold(t.Context(), img.ID, bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
		if err := s.Release(t.Context(), bad); err != nil {
			t.Errorf("Release(%q): %v", bad, err)
		}
		if _, err := s.Pull(t.Context(), h.ref("a:1"), &image.PullOptions{Owner: bad}); bad != "" && err == nil {
			t.Errorf("%q was taken by Pull", bad)
		}
	}
	for _, bad := range []string{"", "sha256:", "sha256:../../x", "sha256:" + strings.Repeat("0", 64), img.ID + "0"} {
		if err := s.Hold(t.Context(), bad, "box"); !errors.Is(err, image.ErrNotFound) {
			t.Errorf("Hold(%q): %v, want ErrNotFound", bad, err)
		}
	}
	if holders, err := s.Holders(t.Context()); err != nil || len(holders) != 0 {
		t.Errorf("Holders = %v, %v", holders, err)
	}
}

func TestAPrefixOfTwoIsNone(t *testing.T) {
	h := newHub(t, nil)
	s := newStore(t, nil)
	seen := map[byte]string{}
	for i := range 17 { // of hexadecimal digits there are sixteen
		ref := h.ref("a:" + string(rune('a'+i)))
		h.push(t, "a:"+string(rune('a'+i)), imageFor(t, machineArch, v1.Config{User: ref}))
		img := pull(t, s, ref, nil)
		first := img.ID[len("sha256:")]
		if other := seen[first]; other != "" {
			_, err := s.Inspect(t.Context(), string(first))
			wantError(t, err, image.ErrAmbiguous, img.ID[len("sha256:"):][:12], other[len("sha256:"):][:12])
			return
		}
		seen[first] = img.ID
	}
}

func TestLeftoversAreSweptUp(t *testing.T) {
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	s := newStore(t, nil)
	img := pull(t, s, h.ref("a:1"), &image.PullOptions{Owner: "box"})
	none := strings.Repeat("0", 64)
	put := func(name string, age time.Duration) string {
		path := filepath.Join(s.Dir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-age)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := []string{
		put("temp/"+none+"/fs/a", 0), put("roots/"+none+"/fs/a", 0), put("blobs/sha256-"+none, 0), put("trash/x/fs/a", 0),
		put("partial/sha256-"+none+".partial", 25*time.Hour), put("images/.new-1", 0), put("locks/root-"+none, 0), put("locks/sha256-"+none, 0),
	}
	stays := []string{put("partial/sha256-"+strings.Repeat("1", 64)+".partial", 23*time.Hour), img.RootDir + "/a"}
	swept, err := s.Sweep(t.Context())
	if err != nil || len(swept.Images) != 0 || strings.Join(swept.Others, ", ") != "2 unfinished or ownerless root file systems, 1 layer of no image, 1 unfinished download" || swept.Bytes != 2 {
		t.Errorf("Sweep = %+v, %v", swept, err)
	}
	for _, path := range gone {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stays {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if again, err := s.Sweep(t.Context()); err != nil || len(again.Others) != 0 {
		t.Errorf("Sweep again = %+v, %v", again, err)
	}
}

func TestAPullRemovesWhatKilledOnesLeft(t *testing.T) {
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	s := newStore(t, nil)
	for _, name := range []string{"temp/" + strings.Repeat("0", 64) + "/fs/a", "trash/x/fs/a"} {
		path := filepath.Join(s.Dir(), name)
		if err := errors.Join(os.MkdirAll(path, 0o700), os.Chmod(filepath.Dir(path), 0)); err != nil {
			t.Fatal(err)
		}
	}
	pull(t, s, h.ref("a:1"), nil)
	leftovers(t, s)
}

func TestAnImageWhoseFilesAreGoneIsPulledAgain(t *testing.T) {
	h := newHub(t, nil)
	h.push(t, "a:1", imageOf(t, layerOf(t, file("a", "1"))))
	s := newStore(t, nil)
	img := pull(t, s, h.ref("a:1"), nil)
	for name, destroy := range map[string]func() error{
		"the root":           func() error { return os.RemoveAll(filepath.Dir(img.RootDir)) },
		"the record":         func() error { return os.Remove(recordOf(s, img)) },
		"a damaged record":   func() error { return os.WriteFile(recordOf(s, img), []byte("{"), 0o600) },
		"another's record":   func() error { return os.WriteFile(recordOf(s, img), []byte(`{"version":1,"id":"x"}`), 0o600) },
		"a later version's":  func() error { return os.WriteFile(recordOf(s, img), []byte(`{"version":9}`), 0o600) },
		"an empty reference": func() error { return emptyAll(filepath.Join(s.Dir(), "refs")) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := destroy(); err != nil {
				t.Fatal(err)
			}
			wantTree(t, pull(t, s, h.ref("a:1"), nil).RootDir, "a=1")
		})
	}
}

func recordOf(s *image.Store, img *image.Image) string {
	return filepath.Join(s.Dir(), "images", img.ID[len("sha256:"):]+".json")
}

func emptyAll(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Truncate(filepath.Join(dir, e.Name()), 0))
	}
	return err
}

func TestPullsAndPrunesAtOnce(t *testing.T) {
	h := newHub(t, nil)
	shared := layerOf(t, file("a", noise(50_000, 1)))
	tags := []string{"a:base", "a:1", "a:2"}
	h.push(t, tags[0], imageOf(t, shared))
	h.push(t, tags[1], imageOf(t, shared, layerOf(t, file("b", "1"))))
	h.push(t, tags[2], imageOf(t, shared, layerOf(t, file("b", "2"))))
	dir := filepath.Join(fastDir(t), "images")
	var work, prune sync.WaitGroup
	stop := make(chan struct{})
	prune.Go(func() {
		s := storeAt(t, dir, nil)
		for {
			if _, err := s.Prune(t.Context()); err != nil {
				t.Errorf("Prune: %v", err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i, tag := range tags {
		work.Go(func() {
			s := storeAt(t, dir, nil)
			owner := "box" + string(rune('a'+i))
			for range 8 {
				img, err := s.Pull(t.Context(), h.ref(tag), &image.PullOptions{Owner: owner})
				if err != nil {
					t.Errorf("Pull(%s): %v", tag, err)
					return
				}
				if data, err := os.ReadFile(filepath.Join(img.RootDir, "a")); err != nil || len(data) != 50_000 {
					t.Errorf("%s is held, and has %d bytes: %v", tag, len(data), err)
				}
				if err := s.Release(t.Context(), owner); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	prune.Wait()
	s := storeAt(t, dir, nil)
	if _, err := s.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	leftovers(t, s)
	if entries, _ := os.ReadDir(filepath.Join(dir, "roots")); len(entries) > 0 || len(blobsIn(t, s)) > 0 {
		t.Errorf("left are %v and %v", entries, blobsIn(t, s))
	}
}
