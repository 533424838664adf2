package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	dirBatch  = 1024
	dirMode   = 0o755
	entrySize = 64 // more than an entry's JSON needs besides its name
)

// pathOf reads params that are a path and perhaps more.
func pathOf(req *rpc.Request, p any, path **string) error {
	if err := decode(req, p); err != nil {
		return err
	}
	return checkPath("path", *path)
}

// listDir answers list_dir. A name that is not UTF-8 is shown with U+FFFD and cannot be
// used to open the file; a symbolic link is not followed, so it is no folder.
func (s *session) listDir(ctx context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		Path *string `json:"path"`
	}
	if err := pathOf(req, &p, &p.Path); err != nil {
		return nil, err
	}
	entries, err := s.readDir(ctx, req, *p.Path)
	if err != nil {
		return nil, pathError("list", *p.Path, err)
	}
	slices.SortFunc(entries, func(a, b agent.FileEntry) int { return strings.Compare(a.Name, b.Name) })
	return agent.ListDirResult{Entries: entries}, nil
}

// readDir reads a folder, unless its entries are more than an answer can carry.
func (s *session) readDir(ctx context.Context, req *rpc.Request, path string) ([]agent.FileEntry, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	entries := []agent.FileEntry{}
	var size, counted int64
	for ctx.Err() == nil {
		names, err := dir.Readdirnames(dirBatch)
		if size > counted { // what the last batch took; the first is not worth a count
			if err := s.reserve(ctx, req, held(size-counted, agent.EncodingUTF8)); err != nil {
				return nil, err
			}
			counted = size
		}
		for _, name := range names {
			var st unix.Stat_t
			if retry(func() error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }) != nil {
				continue // it vanished meanwhile
			}
			shown, _ := lossy([]byte(name), len(name)*len(replacement))
			entry := agent.FileEntry{Name: shown, IsDir: st.Mode&unix.S_IFMT == unix.S_IFDIR}
			if !entry.IsDir {
				entry.Size = uint64(max(st.Size, 0))
			}
			if size += jsonLen(shown) + entrySize; size > s.a.maxFrame-envelope {
				return nil, fmt.Errorf("more than %d entries, which do not fit into one answer", len(entries))
			}
			entries = append(entries, entry)
		}
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return nil, cause(err)
		}
	}
	return nil, ctx.Err()
}

func (s *session) stat(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.StatParams
		Path *string `json:"path"`
	}
	if err := pathOf(req, &p, &p.Path); err != nil {
		return nil, err
	}
	look := unix.Lstat
	if p.Follow {
		look = unix.Stat
	}
	var st unix.Stat_t
	if err := retry(func() error { return look(*p.Path, &st) }); err != nil {
		return nil, pathError("stat", *p.Path, err)
	}
	name, _ := lossy([]byte(filepath.Base(*p.Path)), unix.PathMax*len(replacement))
	info := agent.FileInfo{
		Name: name, Type: kindOf(st.Mode), Size: st.Size, Mode: uint32(st.Mode) & modeBits,
		UID: st.Uid, GID: st.Gid, MTime: jsonTime(time.Unix(st.Mtim.Unix())),
	}
	if info.Type == "symlink" {
		target, err := os.Readlink(*p.Path)
		if err != nil {
			return nil, fmt.Errorf("stat %s: %w", clip(*p.Path), errors.Unwrap(err))
		}
		info.Target, _ = lossy([]byte(target), unix.PathMax*len(replacement))
	}
	return info, nil
}

// jsonTime is t within the years that JSON's form of a time has: a file can carry any.
func jsonTime(t time.Time) time.Time {
	t = t.UTC()
	switch year := t.Year(); {
	case year < 1:
		return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	case year > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}

// mkdir answers mkdir. With parents a folder that exists already is a success, and keeps
// its mode.
func (s *session) mkdir(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.MkdirParams
		Path *string `json:"path"`
	}
	if err := pathOf(req, &p, &p.Path); err != nil {
		return nil, err
	}
	if err := checkMode(p.Mode); err != nil {
		return nil, err
	}
	if err := s.a.makeDir(trimSlashes(*p.Path), p.Mode, p.Parents); err != nil {
		return nil, pathError("mkdir", *p.Path, err)
	}
	return agent.Success{Success: true}, nil
}

func (a *Agent) makeDir(path string, mode *uint32, parents bool) error {
	create := uint32(dirMode)
	if mode != nil {
		create = *mode & permBits
	}
	err := unix.Mkdir(path, create)
	if err == unix.ENOENT && parents && filepath.Dir(path) != path {
		if err := a.makeDir(trimSlashes(filepath.Dir(path)), nil, true); err != nil {
			return err
		}
		err = unix.Mkdir(path, create)
	}
	var st unix.Stat_t
	if err == unix.EEXIST && parents && unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err == nil && a.owner != nil {
		err = unix.Lchown(path, int(a.owner.uid), int(a.owner.gid))
	}
	if err != nil || mode == nil {
		return err
	}
	return unix.Chmod(path, *mode) // exactly that, whatever the umask
}

func (s *session) rename(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		From *string `json:"from"`
		To   *string `json:"to"`
	}
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if err := checkPath("from", p.From); err != nil {
		return nil, err
	}
	if err := checkPath("to", p.To); err != nil {
		return nil, err
	}
	if err := retry(func() error { return unix.Rename(*p.From, *p.To) }); err != nil {
		return nil, fmt.Errorf("rename %s to %s: %w", clip(*p.From), clip(*p.To), err)
	}
	return agent.Success{Success: true}, nil
}

// remove answers remove. A symbolic link is removed, never what it points to.
func (s *session) remove(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.RemoveParams
		Path *string `json:"path"`
	}
	if err := pathOf(req, &p, &p.Path); err != nil {
		return nil, err
	}
	if err := removePath(*p.Path, p.Recursive); err != nil {
		return nil, pathError("remove", *p.Path, below(*p.Path, err))
	}
	return agent.Success{Success: true}, nil
}

func removePath(path string, recursive bool) error {
	path = trimSlashes(path)
	switch filepath.Base(path) {
	case "/", ".", "..":
		return errors.New("is no name in a folder, and is not removed")
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if recursive {
		return os.RemoveAll(path)
	}
	return os.Remove(path)
}

// trimSlashes takes the slashes off the end, with which the kernel would follow a link.
func trimSlashes(path string) string {
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed
	}
	return "/"
}

// below is cause, with the name of the entry that a recursive operation failed at.
func below(path string, err error) error {
	var at *os.PathError
	if errors.As(err, &at) && at.Path != trimSlashes(path) {
		return fmt.Errorf("%s: %w", clip(at.Path), at.Err)
	}
	return cause(err)
}

// cause is the system's own error, without the words of package os: the client's path
// is said once.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
