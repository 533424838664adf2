package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"
)

// A Hash is a SHA-256 sum. A row's covers all of its members and the hash before it.
type Hash [sha256.Size]byte

// String is the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText gives String's text.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// A Row is one entry of the record.
type Row struct {
	Seq  int64           `json:"seq"`  // from 1, without gaps
	Time time.Time       `json:"time"` // UTC, as the clock of the machine had it
	Kind string          `json:"kind"` // "call", "verdict", "run", …
	ID   string          `json:"id"`   // of the run, plan or change set that the row belongs to
	User string          `json:"user"` // the account's name, as the environment has it
	UID  int64           `json:"uid"`  // -1 where the system has none
	PID  int64           `json:"pid"`  // of the airlock that wrote it
	Data json.RawMessage `json:"data"` // redacted and bounded; valid JSON
	Prev Hash            `json:"prev"` // of the row before; of the first row, zero
	Hash Hash            `json:"hash"`
}

// timeForm has as many digits always, so that times sort as texts.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// stored is a row as it is stored and hashed.
type stored struct {
	seq              int64
	time, kind, id   string
	user             string
	uid, pid         int64
	data             string
	prev, hash       Hash
	badPrev, badHash bool // what was stored is no hash at all
}

// domain stands before everything that is hashed, so that no other use of SHA-256 gives a
// row's hash.
const domain = "airlock record 1\x00"

// sum is the hash that the row must have. Each member is preceded by its length, so
// that no two rows give the same bytes.
func (s *stored) sum() Hash {
	size := len(domain) + 3*8 + 5*8 + len(s.time) + len(s.kind) + len(s.id) + len(s.user) + len(s.data) + len(s.prev)
	b := make([]byte, 0, size)
	b = append(b, domain...)
	for _, n := range [...]int64{s.seq, s.uid, s.pid} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range [...]string{s.time, s.kind, s.id, s.user, s.data} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = append(b, s.prev[:]...)
	return sha256.Sum256(b)
}

// row is the stored row for a reader. What somebody has written over is shown as well as
// can be.
func (s *stored) row() Row {
	at, err := time.Parse(timeForm, s.time)
	if err != nil {
		at = time.Time{}
	}
	data := json.RawMessage(s.data)
	if !json.Valid(data) {
		data, _ = json.Marshal(s.data)
	}
	return Row{s.seq, at, s.kind, s.id, s.user, s.uid, s.pid, data, s.prev, s.hash}
}

// columns are a row's, in the order in which scan reads them.
const columns = "seq, time, kind, id, user, uid, pid, data, prev, hash"

// scan reads a row that a query over columns gave. Anybody may have written it.
func (s *stored) scan(scan func(dest ...any) error) error {
	var prev, hash []byte
	err := scan(&s.seq, &s.time, &s.kind, &s.id, &s.user, &s.uid, &s.pid, &s.data, &prev, &hash)
	s.prev, s.badPrev = asHash(prev)
	s.hash, s.badHash = asHash(hash)
	return err
}

func asHash(b []byte) (h Hash, bad bool) {
	if len(b) != len(h) {
		return h, true
	}
	return Hash(b), false
}
