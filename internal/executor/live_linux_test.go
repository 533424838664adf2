package executor_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/changes"
	"airlock/internal/executor"
	"airlock/internal/sandbox"
)

// A lasting is a sandbox that lasts as far as its changes go: its upper layer is what a
// test says, and it counts how often it was frozen and let go on.
type lasting struct {
	sandbox.Lasting // what else there is of it is not asked for

	id             string
	started        time.Time
	upper          func(ctx context.Context, w io.Writer) error
	frozen, thawed int
}

func (l *lasting) ID() string         { return l.id }
func (l *lasting) Started() time.Time { return l.started }

func (l *lasting) Upper(ctx context.Context, w io.Writer) error {
	l.frozen++
	defer func() { l.thawed++ }()
	return l.upper(ctx, w)
}

// serve writes the layer that holds these files below dir.
func serve(t *testing.T, dir string, files map[string]string) func(context.Context, io.Writer) error {
	t.Helper()
	return func(_ context.Context, w io.Writer) error {
		_, err := w.Write(layerOf(t, dir, files))
		return err
	}
}

func layerOf(t testing.TB, dir string, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	write := func(h tar.Header, content string) {
		h.Uid, h.Gid, h.Size, h.ModTime = os.Getuid(), os.Getgid(), int64(len(content)), time.Unix(1_600_000_000, 0)
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, content); err != nil {
			t.Fatal(err)
		}
	}
	name := "."
	write(tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, "")
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		name += "/" + part
		info, err := os.Stat(name[1:])
		if err != nil {
			t.Fatal(err)
		}
		mode := int64(info.Mode().Perm())
		if info.Mode()&os.ModeSticky != 0 {
			mode |= 0o1000
		}
		write(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, "")
	}
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		write(tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + n, Mode: 0o644}, files[n])
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// A lair is a host's folder with a lasting sandbox over it.
type lair struct {
	t      testing.TB
	dir    string
	store  *changes.Store
	runner *executor.Runner
	box    *lasting
	of     *executor.Lived
}

func newLair(t *testing.T) *lair {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lair{t: t, dir: filepath.Join(base, "work")}
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if l.store, err = changes.OpenStore(filepath.Join(base, "sets")); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(base, "work", "home")
	l.runner = &executor.Runner{
		Store: func() (*changes.Store, error) { return l.store, nil },
		Homes: []string{home}, State: []string{filepath.Join(base, "sets")},
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
	l.box = &lasting{id: sandbox.NewID(), started: time.Now()}
	l.of = &executor.Lived{ID: l.box.id, WorkDir: l.dir, Command: []string{"airlock", "sandbox"}, Hidden: []string{filepath.Join(l.dir, "secret")}}
	return l
}

func (l *lair) write(files map[string]string) { l.box.upper = serve(l.t.(*testing.T), l.dir, files) }

// changed reads the sandbox and names the changes of the work, with what refuses them.
func (l *lair) changed() []string {
	l.t.Helper()
	set, err := l.runner.Living(l.t.Context(), l.box, l.of)
	if err != nil {
		l.t.Fatalf("Living: %v", err)
	}
	return names(set, l.dir)
}

func names(set *changes.Set, dir string) []string {
	list := []string{}
	for _, c := range set.Changes {
		text := string(c.Kind) + " " + strings.TrimPrefix(string(c.Path), dir+"/")
		if c.Refused != "" {
			text += " refused"
		}
		list = append(list, text)
	}
	return list
}

func (l *lair) want(want ...string) {
	l.t.Helper()
	if got := l.changed(); !slices.Equal(got, want) {
		l.t.Errorf("changes: %q, want %q", got, want)
	}
}

func TestALivingSandboxIsReadAgainAndAgain(t *testing.T) {
	l := newLair(t)
	l.write(map[string]string{"a": "1"})
	l.want("added a")
	l.write(map[string]string{"a": "1", "b": "2"})
	l.want("added a", "added b")
	if _, err := l.store.Commit(t.Context(), l.box.id, &changes.CommitOptions{Paths: []changes.Path{changes.Path(l.dir + "/a")}}); err != nil {
		t.Fatal(err)
	}
	l.want("added b")
	if data, err := os.ReadFile(filepath.Join(l.dir, "a")); err != nil || string(data) != "1" {
		t.Errorf("on the host: %q, %v", data, err)
	}
	if l.box.frozen != 3 || l.box.thawed != 3 {
		t.Errorf("frozen %d times, let go %d times", l.box.frozen, l.box.thawed)
	}
	set, err := l.store.Load(l.box.id)
	if err != nil || !set.Live || !set.Started.Equal(l.box.started) {
		t.Errorf("the set: %+v, %v", set, err)
	}
}

func TestASandboxGoesOnWhateverComesOfReadingIt(t *testing.T) {
	broken := errors.New("the engine has hiccups")
	for _, c := range []struct {
		name  string
		upper func(l *lair, cancel func()) func(context.Context, io.Writer) error
		err   error
	}{
		{"an error of the engine after half of it", func(l *lair, _ func()) func(context.Context, io.Writer) error {
			return func(_ context.Context, w io.Writer) error {
				data := layerOf(t, l.dir, map[string]string{"a": strings.Repeat("x", 100_000)})
				if _, err := w.Write(data[:len(data)/2]); err != nil {
					return err
				}
				return broken
			}
		}, broken},
		{"an error of the engine after all of it", func(l *lair, _ func()) func(context.Context, io.Writer) error {
			return func(ctx context.Context, w io.Writer) error {
				return errors.Join(serve(t, l.dir, map[string]string{"a": "2"})(ctx, w), broken)
			}
		}, broken},
		{"an interrupt while it is read", func(l *lair, cancel func()) func(context.Context, io.Writer) error {
			return func(ctx context.Context, w io.Writer) error {
				data := layerOf(t, l.dir, map[string]string{"a": strings.Repeat("x", 100_000)})
				if _, err := w.Write(data[:len(data)/2]); err != nil {
					return err
				}
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}
		}, context.Canceled},
		{"a stream that has no end", func(*lair, func()) func(context.Context, io.Writer) error {
			return func(_ context.Context, w io.Writer) error {
				for {
					if _, err := w.Write(bytes.Repeat([]byte("garbage "), 4096)); err != nil {
						return err
					}
				}
			}
		}, changes.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLair(t)
			l.write(map[string]string{"a": "1"})
			l.want("added a")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.box.upper = c.upper(l, cancel)
			if _, err := l.runner.Living(ctx, l.box, l.of); !errors.Is(err, c.err) {
				t.Errorf("Living: %v, want %v", err, c.err)
			}
			if l.box.frozen != l.box.thawed {
				t.Errorf("frozen %d times, let go %d times", l.box.frozen, l.box.thawed)
			}
			// What was known of it is what is known of it, and nobody is locked out.
			set, err := l.store.Load(l.box.id)
			if err != nil || !slices.Equal(names(set, l.dir), []string{"added a"}) {
				t.Errorf("the set: %v, %v", set, err)
			}
			l.write(map[string]string{"b": "1"})
			l.want("added b")
		})
	}
}

func TestWhatMustStayInStaysInAsLongAsTheSandboxLives(t *testing.T) {
	l := newLair(t)
	if err := os.Mkdir(filepath.Join(l.dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.write(map[string]string{"a": "1", "secret": "2", "home/.netrc": "mine"})
	l.box.upper = func(_ context.Context, w io.Writer) error {
		data := layerOf(t, filepath.Join(l.dir, "home"), map[string]string{".netrc": "mine"})
		_, err := w.Write(data)
		return err
	}
	l.want("added home/.netrc refused")
	l.write(map[string]string{"a": "1", "secret": "2"})
	l.want("added a", "added secret refused")
	// Airlock's own are not even told: the engine makes the way to the guest agent there.
	own := l.runner.State[0]
	l.box.upper = serve(t, own, map[string]string{"agent": "x"})
	l.want()
}

func TestOneWithItsOwnFilesHasNoChangesOfTheHost(t *testing.T) {
	l := newLair(t)
	l.of.Image = "alpine:3.20"
	l.write(map[string]string{"a": "1"})
	if _, err := l.runner.Living(t.Context(), l.box, l.of); !errors.Is(err, executor.ErrOwnFiles) {
		t.Errorf("Living: %v", err)
	}
	if l.box.frozen != 0 {
		t.Error("it was frozen for nothing")
	}
	if list, err := l.store.List(); err != nil || len(list) != 0 {
		t.Errorf("the store: %v, %v", list, err)
	}
}

func TestWhatAnExpiredSandboxLeftIsKept(t *testing.T) {
	l := newLair(t)
	name := filepath.Join(t.TempDir(), "left.tar")
	if err := os.WriteFile(name, layerOf(t, l.dir, map[string]string{"a": "1", "b": "2"}), 0o600); err != nil {
		t.Fatal(err)
	}
	l.of.Started = l.box.started
	l.write(map[string]string{"a": "1"})
	l.changed()
	if _, err := l.store.Commit(t.Context(), l.box.id, nil); err != nil {
		t.Fatal(err)
	}
	set, err := l.runner.Expired(t.Context(), name, l.of)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(set, l.dir); !slices.Equal(got, []string{"added b"}) || set.Live || set.State != changes.Kept {
		t.Errorf("the set: %q, %+v", got, set.Header)
	}
	// Once more, as after a crash.
	if set, err = l.runner.Expired(t.Context(), name, l.of); err != nil || len(set.Changes) != 1 {
		t.Errorf("again: %v, %v", set, err)
	}
	if err := os.Truncate(name, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := l.runner.Expired(t.Context(), name, l.of); !errors.Is(err, changes.ErrMalformed) {
		t.Errorf("a tar that was cut off: %v", err)
	}
	if _, err := l.runner.Expired(t.Context(), name+".gone", l.of); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that is gone: %v", err)
	}
}

func TestForksAndSnapshotsKnowWhatWasLetOut(t *testing.T) {
	l := newLair(t)
	l.write(map[string]string{"a": "1"})
	l.changed()
	if _, err := l.store.Commit(t.Context(), l.box.id, nil); err != nil {
		t.Fatal(err)
	}
	saved := t.TempDir()
	if err := l.runner.Saved(t.Context(), l.box.id, saved); err != nil {
		t.Fatal(err)
	}
	fork, restored := sandbox.NewID(), sandbox.NewID()
	if err := l.runner.Forked(t.Context(), l.box.id, fork); err != nil {
		t.Fatal(err)
	}
	// The parent begins anew: that is none of their business.
	if err := l.runner.Anew(t.Context(), l.box.id); err != nil {
		t.Fatal(err)
	}
	if err := l.runner.Restored(t.Context(), saved, restored); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{fork, restored} {
		if set, err := l.store.Load(id); err != nil || set.Created.IsZero() {
			t.Errorf("before it is read: %+v, %v", set, err)
		}
		l.box.id = id
		l.write(map[string]string{"a": "2"})
		l.want("modified a")
		l.write(nil)
		l.want("deleted a")
	}
	if err := l.runner.Ended(t.Context(), fork); err != nil {
		t.Fatal(err)
	}
	if set, err := l.store.Load(fork); err != nil || set.Live {
		t.Errorf("one that ended: %+v, %v", set, err)
	}
	if err := l.runner.Restored(t.Context(), t.TempDir(), sandbox.NewID()); err != nil {
		t.Errorf("from a snapshot of what had let nothing out: %v", err)
	}
}

func BenchmarkALivingSandboxWithTenThousandFiles(b *testing.B) {
	dir := b.TempDir()
	store, err := changes.OpenStore(filepath.Join(dir, "sets"))
	if err != nil {
		b.Fatal(err)
	}
	r := &executor.Runner{Store: func() (*changes.Store, error) { return store, nil }}
	files := map[string]string{}
	for i := range 10_000 {
		files[fmt.Sprintf("f%05d", i)] = strings.Repeat("some text\n", 100) + fmt.Sprint(i)
	}
	data := layerOf(b, dir, files)
	var frozen time.Duration
	box := &lasting{id: sandbox.NewID(), started: time.Now(), upper: func(_ context.Context, w io.Writer) error {
		start := time.Now()
		_, err := w.Write(data)
		frozen += time.Since(start)
		return err
	}}
	n := 0
	for b.Loop() {
		if _, err := r.Living(b.Context(), box, &executor.Lived{WorkDir: dir}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(frozen.Milliseconds())/float64(n), "frozen-ms/op")
}
