package changes

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"
)

// ErrJournal is of a journal that is damaged in its middle, where a crash cannot have
// torn it. Nothing is guessed from such a one: its backup folder still holds everything.
var ErrJournal = errors.New("the journal is damaged")

// A journal is a text file of one record a line: the CRC-32C of the rest as eight
// hexadecimal digits, a space, and a JSON object. Records are numbered from 0. It is
// written ahead:
//
//	begin   what this entry is; the number of operations that follow
//	op      one operation, with what was there and what is to be there
//	ready   the plan is whole; only now is the first file touched
//	staged  all new content is on the disk under temporary names; the nodes' numbers
//	done    every name is switched and on the disk: from here it only goes forward
//	after   what an operation left, to tell later whether somebody changed it
//	closed  nothing remains to be done
//	abort   every name is switched back: what is left are temporary names to remove
//
// A crash tears the end off; what is before it counts. Where between "staged" and
// "done" a crash happened is not written down: it is seen from which node has which
// name, so no write is needed for each file.
type record struct {
	N    int    `json:"n"`
	Type string `json:"t"`

	Entry *entry   `json:"entry,omitempty"`
	Op    *op      `json:"op,omitempty"`
	Inos  []uint64 `json:"inos,omitempty"`
	I     int      `json:"i,omitempty"`
	Node  *Node    `json:"node,omitempty"`
}

// The types of record.
const (
	recBegin  = "begin"
	recOp     = "op"
	recReady  = "ready"
	recStaged = "staged"
	recDone   = "done"
	recAfter  = "after"
	recClosed = "closed"
	recAbort  = "abort"
)

// The kinds of entry. A redo is a commit whose source is what an undo displaced.
const (
	kindCommit = "commit"
	kindUndo   = "undo"
)

// An entry is one commit or undo of a set; they are numbered from 1.
type entry struct {
	Kind     string    `json:"kind"`
	Reverses int       `json:"reverses,omitempty"` // the entry that this one takes back
	Root     string    `json:"root"`
	Token    string    `json:"token"` // in every temporary name; not to be guessed
	Time     time.Time `json:"time"`
	Count    int       `json:"count"`
	Paths    []Path    `json:"paths,omitempty"` // what was asked for, to go on with after a crash
	Forced   bool      `json:"forced,omitempty"`
}

// What an operation does.
const (
	doReplace = "replace" // switch a name: to something new, from something, or both
	doRide    = "ride"    // part of a folder that a replace switches as a whole
	doMeta    = "meta"    // mode, owner, attributes and times in place
	doTouch   = "touch"   // a folder that other operations work in: its time, for undo
	doSame    = "same"    // nothing: the host already has it
)

// An op is one operation of an entry.
type op struct {
	Path   Path   `json:"path"`
	Do     string `json:"do"`
	Before *Node  `json:"before,omitempty"`
	After  *Node  `json:"after,omitempty"`
	Up     int    `json:"up"`             // the op of the folder that a ride is directly in; else -1
	From   string `json:"from,omitempty"` // After's content, see the from… constants
	Name   string `json:"name,omitempty"` // of what From says
	Alt    string `json:"alt,omitempty"`  // the copy of a file whose moved original may have changed
	Move   bool   `json:"move,omitempty"` // what is displaced is moved to the backup folder
	Copy   bool   `json:"copy,omitempty"` // its content is copied there first
	Aux    bool   `json:"aux,omitempty"`  // none of the set's changes
}

// Where an op's content comes from.
const (
	fromBlob   = "blob"   // the set's blob Name
	fromHost   = "host"   // the file that is replaced: only its mode and such change
	fromLink   = "link"   // a hard link to what op number Name stages
	fromBackup = "backup" // a copy: the file Name in the set's folder
	fromMoved  = "moved"  // the object itself, which is at Name in the set's folder
)

// A journal is what has been read of one.
type journal struct {
	num    int
	entry  entry
	ops    []op
	inos   []uint64
	after  map[int]*Node
	phase  string // the last record that says how far it came; "" when not even ready
	next   int    // number of the next record
	length int64  // bytes that count
}

// recordLimit bounds a line: sixteen attributes of the largest size, and a path.
const recordLimit = 16 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeRecord gives the line.
func encodeRecord(r *record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(body)+10 > recordLimit {
		return nil, fmt.Errorf("a record of %d bytes: at most %d can be read back", len(body), recordLimit-10)
	}
	line := fmt.Appendf(make([]byte, 0, len(body)+10), "%08x ", crc32.Checksum(body, castagnoli))
	line = append(line, body...)
	return append(line, '\n'), nil
}

// decodeLine takes a line without its end.
func decodeLine(line []byte) (*record, error) {
	if len(line) < 10 || line[8] != ' ' {
		return nil, io.ErrUnexpectedEOF
	}
	if string(line[:8]) != fmt.Sprintf("%08x", crc32.Checksum(line[9:], castagnoli)) {
		return nil, errors.New("its checksum is not that of its content")
	}
	var r record
	if err := json.Unmarshal(line[9:], &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// decodeRecord is decodeLine for the line that has to be record n.
func decodeRecord(line []byte, n int) (*record, error) {
	r, err := decodeLine(line)
	if err == nil && r.N != n {
		err = fmt.Errorf("it is numbered %d", r.N)
	}
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", n, err)
	}
	return r, nil
}

// readJournal reads up to the end or to a torn tail. It never fails for a tail.
func readJournal(from io.Reader) (*journal, error) {
	j := &journal{after: make(map[int]*Node)}
	in := bufio.NewReaderSize(from, 1<<16)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return j, nil // what has no end of line was torn
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrJournal, err)
		}
		r, err := decodeRecord(line, j.next)
		if err == nil {
			err = j.apply(r)
		}
		if err != nil {
			return j, tailOnly(in, err)
		}
		j.next++
		j.length += int64(len(line)) + 1
	}
}

// tailOnly forgives a bad record when no good one follows it.
func tailOnly(in *bufio.Reader, bad error) error {
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrJournal, err)
		}
		var r record
		if len(line) > 9 && json.Unmarshal(line[9:], &r) == nil && r.Type != "" {
			return fmt.Errorf("%w: %w", ErrJournal, bad)
		}
	}
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > recordLimit {
			return nil, fmt.Errorf("a record is longer than %d bytes", recordLimit)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), err
		}
	}
}

// apply takes one more record, in the order in which they may come.
func (j *journal) apply(r *record) error {
	bad := fmt.Errorf("record %d: %q cannot stand here", r.N, r.Type)
	switch r.Type {
	case recBegin:
		if r.N != 0 || r.Entry == nil || r.Entry.Count < 0 || r.Entry.Kind != kindCommit && r.Entry.Kind != kindUndo {
			return bad
		}
		j.entry = *r.Entry
	case recOp:
		if r.N == 0 || r.Op == nil || j.phase != "" || len(j.ops) >= j.entry.Count || !r.Op.sound(j.ops) {
			return bad
		}
		j.ops = append(j.ops, *r.Op)
	case recReady:
		if r.N == 0 || j.phase != "" || len(j.ops) != j.entry.Count {
			return bad
		}
		j.phase = recReady
	case recStaged:
		if j.phase != recReady || len(r.Inos) != len(j.ops) {
			return bad
		}
		j.inos, j.phase = r.Inos, recStaged
	case recDone:
		if j.phase != recStaged {
			return bad
		}
		j.phase = recDone
	case recAfter:
		if j.phase != recDone || r.I < 0 || r.I >= len(j.ops) {
			return bad
		}
		j.after[r.I] = r.Node
	case recClosed:
		if j.phase != recDone {
			return bad
		}
		j.phase = recClosed
	case recAbort:
		if j.phase != recReady && j.phase != recStaged {
			return bad
		}
		j.phase = recAbort
	default:
		return bad
	}
	return nil
}

// sound reports whether the op can stand after those in earlier.
func (o *op) sound(earlier []op) bool {
	if !o.Path.Valid() || o.Path == "/" && (o.Do == doReplace || o.Do == doRide) {
		return false
	}
	switch o.Do {
	case doRide:
		return o.Up >= 0 && o.Up < len(earlier) && earlier[o.Up].Path == o.Path.Parent() &&
			(earlier[o.Up].Do == doReplace || earlier[o.Up].Do == doRide)
	case doMeta:
		return o.Up == -1 && o.Before != nil && o.After != nil
	case doReplace:
		return o.Up == -1 && (o.Before != nil || o.After != nil)
	case doTouch, doSame:
		return o.Up == -1
	}
	return false
}

// A journalWriter appends records. Nothing counts before Sync has returned.
type journalWriter struct {
	file *os.File
	buf  *bufio.Writer
	next int
}

func newJournalWriter(f *os.File, next int) *journalWriter {
	return &journalWriter{file: f, buf: bufio.NewWriterSize(f, 1<<16), next: next}
}

func (w *journalWriter) add(r *record) error {
	r.N = w.next
	line, err := encodeRecord(r)
	if err == nil {
		_, err = w.buf.Write(line)
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	w.next++
	return nil
}

// sync brings what was added to the disk.
func (w *journalWriter) sync() error {
	err := w.buf.Flush()
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (w *journalWriter) close() error { return w.file.Close() }
