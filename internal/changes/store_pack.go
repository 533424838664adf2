package changes

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// Small contents share one file: a hundred thousand files of their own take a disk half
// a minute to make and as long to remove. The pack is the contents one after another.
// Its index has a record for each, sorted: digest, offset, size.
const (
	packMax     = 32 << 10
	packFile    = "pack"
	indexFile   = "index"
	digestSize  = sha256.Size
	indexRecord = digestSize + 8 + 8
)

// An extent is a content's place in the pack.
type extent struct {
	off, size int64
}

// A pack is the writing side.
type pack struct {
	file *os.File
	out  *bufio.Writer
	end  int64
	at   map[string]extent
}

// add appends a content; the first makes the file in folder.
func (p *pack) add(folder, name string, data []byte) error {
	if p.file == nil {
		f, err := os.OpenFile(filepath.Join(folder, packFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		p.file, p.out = f, bufio.NewWriterSize(f, 1<<18)
	}
	if _, err := p.out.Write(data); err != nil {
		return err
	}
	p.at[name] = extent{p.end, int64(len(data))}
	p.end += int64(len(data))
	return nil
}

func (p *pack) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// finish drops the contents that are not wanted, writes the index, and gives the names
// of what it wrote.
func (p *pack) finish(folder string, wanted func(name string) bool) (files []string, err error) {
	if p.file == nil {
		return nil, nil
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.out.Flush(); err != nil {
		return nil, err
	}
	var names []string
	for name := range p.at {
		if wanted(name) {
			names = append(names, name)
		}
	}
	file := filepath.Join(folder, packFile)
	if len(names) == 0 {
		return nil, os.Remove(file)
	}
	if len(names) < len(p.at) {
		if err := p.compact(folder, names); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	var index bytes.Buffer
	for _, name := range names {
		sum, err := hex.DecodeString(name)
		if err != nil {
			return nil, err
		}
		index.Write(sum)
		index.Write(binary.BigEndian.AppendUint64(nil, uint64(p.at[name].off)))  //nolint:gosec // never negative
		index.Write(binary.BigEndian.AppendUint64(nil, uint64(p.at[name].size))) //nolint:gosec // never negative
	}
	if err := os.WriteFile(filepath.Join(folder, indexFile), index.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return []string{file, filepath.Join(folder, indexFile)}, nil
}

// compact writes the pack anew with these contents alone, in the order they have.
func (p *pack) compact(folder string, names []string) (err error) {
	next := filepath.Join(folder, "new-"+packFile)
	f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<18)
	slices.SortFunc(names, func(a, b string) int { return int(p.at[a].off - p.at[b].off) })
	end := int64(0)
	for _, name := range names {
		e := p.at[name]
		if _, err := io.Copy(out, io.NewSectionReader(p.file, e.off, e.size)); err != nil {
			return err
		}
		p.at[name] = extent{end, e.size}
		end += e.size
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(folder, packFile))
}

// openPacked gives a content of the pack in folder as a file of its own, which has no
// name. The error is fs.ErrNotExist where it is not in the pack.
func openPacked(folder, blob string) (*os.File, error) {
	e, err := findPacked(filepath.Join(folder, indexFile), blob)
	if err != nil {
		return nil, err
	}
	if e.off < 0 || e.size < 0 || e.size > packMax {
		return nil, fmt.Errorf("content %s: its index entry is damaged", blob)
	}
	f, err := os.Open(filepath.Join(folder, packFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, e.size)
	if _, err := f.ReadAt(data, e.off); err != nil {
		return nil, fmt.Errorf("content %s: %w", blob, noEOF(err))
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != blob {
		return nil, fmt.Errorf("content %s: it is damaged", blob)
	}
	return nameless(folder, data)
}

// findPacked searches the index on the disk: loading it would cost more than the few
// reads, for each of many contents.
func findPacked(index, blob string) (extent, error) {
	f, err := os.Open(index)
	if err != nil {
		return extent{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return extent{}, err
	}
	var rec [indexRecord]byte
	n := int(info.Size() / indexRecord)
	i, found := sort.Find(n, func(i int) int {
		if err != nil {
			return 0
		}
		_, err = f.ReadAt(rec[:], int64(i)*indexRecord)
		return strings.Compare(blob, hex.EncodeToString(rec[:digestSize]))
	})
	if err == nil && found {
		_, err = f.ReadAt(rec[:], int64(i)*indexRecord)
	}
	if err != nil {
		return extent{}, fmt.Errorf("%s: %w", index, noEOF(err))
	}
	if !found {
		return extent{}, fs.ErrNotExist
	}
	return extent{
		off:  int64(binary.BigEndian.Uint64(rec[digestSize:])),   //nolint:gosec // checked by the caller
		size: int64(binary.BigEndian.Uint64(rec[digestSize+8:])), //nolint:gosec // checked by the caller
	}, nil
}
