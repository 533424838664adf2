package unpack

import "time"

// A stat is what is known of a name.
type stat struct {
	kind     uint32 // one of those below
	perm     uint32 // with the set-id and sticky bits
	dev, ino uint64 // 0 where the system has none
	links    uint64
	rdev     uint64
	uid, gid int
	size     int64
	blocks   int64 // of 512 bytes
	mtime    time.Time
}

// Kinds of names, with the numbers of S_IFMT.
const (
	kindFIFO   = 0o010000
	kindFolder = 0o040000
	kindBlock  = 0o060000
	kindFile   = 0o100000
	kindLink   = 0o120000
	kindSocket = 0o140000
	kindChar   = 0o020000
)

func (s *stat) isFolder() bool { return s.kind == kindFolder }

// isSpecial reports whether it is a way to something else than content: a device, a pipe or a socket.
func (s *stat) isSpecial() bool {
	return s.kind != kindFolder && s.kind != kindFile && s.kind != kindLink
}
func (s *stat) isLink() bool { return s.kind == kindLink }
