package changes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	chunkSize = 128 << 10
	holeSize  = 4 << 10 // the smallest run of zeros worth a hole

	// Above so many files one sync of the whole file system is cheaper than one each.
	syncEachMax = 64
)

var zeros [holeSize]byte

// WriteBlob stores the size bytes that r gives and returns their name, which is their
// SHA-256 in hex. Long runs of zeros become holes. What no Change refers to is dropped
// by Finish. An error, a short r among them, spoils the whole set.
func (w *Writer) WriteBlob(r io.Reader, size int64) (blob string, err error) {
	if err := w.usable(); err != nil {
		return "", err
	}
	if w.buf == nil {
		w.buf, w.hash = make([]byte, chunkSize), sha256.New()
	}
	w.hash.Reset()
	switch {
	case size < 0:
		err = fmt.Errorf("size %d", size)
	case size <= chunkSize:
		blob, err = w.writeSmall(r, int(size))
	default:
		blob, err = w.writeLarge(r, size)
	}
	if err != nil {
		w.failed = fmt.Errorf("content: %w", err)
		return "", w.failed
	}
	return blob, nil
}

// sum is the name of what was hashed, and whether the set has it already.
func (w *Writer) sum() (name string, known bool) {
	name = hex.EncodeToString(w.hash.Sum(nil))
	_, known = w.blobs[name]
	if !known {
		w.blobs[name] = false // no change refers to it yet
	}
	return name, known
}

func (w *Writer) writeSmall(r io.Reader, size int) (string, error) {
	data := w.buf[:size]
	if _, err := io.ReadFull(r, data); err != nil {
		return "", noEOF(err)
	}
	w.hash.Write(data)
	name, known := w.sum()
	if known {
		return name, nil
	}
	if err := w.begin(); err != nil {
		return "", err
	}
	if size <= packMax {
		return name, w.pack.add(filepath.Join(w.draft, blobFolder), name, data)
	}
	return name, os.WriteFile(filepath.Join(w.draft, blobFolder, name), data, 0o600)
}

func (w *Writer) writeLarge(r io.Reader, size int64) (name string, err error) {
	if err := w.begin(); err != nil {
		return "", err
	}
	folder := filepath.Join(w.draft, blobFolder)
	f, err := os.CreateTemp(folder, "new-")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
	}()
	for off := int64(0); off < size; {
		data := w.buf[:min(chunkSize, size-off)]
		if _, err := io.ReadFull(r, data); err != nil {
			return "", noEOF(err)
		}
		w.hash.Write(data)
		if err := writeAroundHoles(f, data, off); err != nil {
			return "", err
		}
		off += int64(len(data))
	}
	if err := f.Truncate(size); err != nil {
		return "", err
	}
	name, known := w.sum()
	if known {
		return name, os.Remove(f.Name())
	}
	return name, os.Rename(f.Name(), filepath.Join(folder, name))
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeAroundHoles writes data at off, but not its blocks of zeros.
func writeAroundHoles(f *os.File, data []byte, off int64) error {
	start := 0 // of the run not yet written
	flush := func(end int) error {
		if end <= start {
			return nil
		}
		_, err := f.WriteAt(data[start:end], off+int64(start))
		return err
	}
	for i := 0; i < len(data); i += holeSize {
		end := min(i+holeSize, len(data))
		if !bytes.Equal(data[i:end], zeros[:end-i]) {
			continue
		}
		if err := flush(i); err != nil {
			return err
		}
		start = end
	}
	return flush(len(data))
}

// finishBlobs drops what no change refers to, and gives the names of the files that
// hold the rest.
func (w *Writer) finishBlobs() (files []string, err error) {
	folder := filepath.Join(w.draft, blobFolder)
	for name, wanted := range w.blobs {
		if _, packed := w.pack.at[name]; packed {
			continue
		}
		name = filepath.Join(folder, name)
		if wanted {
			files = append(files, name)
		} else if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	packed, err := w.pack.finish(folder, func(name string) bool { return w.blobs[name] })
	return append(files, packed...), err
}
