package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Bounds of what is kept.
const (
	maxEntries = 1000
	slack      = 200      // entries beyond, before the file is written anew
	lookEvery  = 50       // entries: between two looks at how many there are
	maxEntry   = 16 << 10 // bytes of an entry; longer ones last for this session
	maxKept    = 1 << 20  // bytes of all entries together
	maxFile    = 8 << 20  // what is larger is not ours
)

// How long is waited for other sessions to have written.
const (
	lockWait  = 2 * time.Second
	lockRetry = 5 * time.Millisecond
)

// A history is the requests of this session and those before it. Its file has one JSON
// string a line; sessions append to it, under a lock, and read it when they begin.
type history struct {
	file    string
	entries []string
	added   int           // since the file was looked at
	wait    time.Duration // for other sessions to have written
}

func openHistory(file string) (*history, error) {
	h := &history{file: file, wait: lockWait}
	if file == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		h.file = ""
		return h, fmt.Errorf("the history of requests: %w", err)
	}
	entries, err := load(file)
	if err != nil {
		h.file = ""
		return h, fmt.Errorf("the history of requests: %w", err)
	}
	h.entries = last(entries)
	return h, nil
}

// last is what is kept of the entries: the newest.
func last(entries []string) []string {
	first, size := len(entries), 0
	for first > 0 && len(entries)-first < maxEntries {
		if size += len(entries[first-1]); size > maxKept {
			break
		}
		first--
	}
	return entries[first:]
}

// load reads the entries of a file. Lines that are none are left out.
func load(file string) ([]string, error) {
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of at most %d MiB; move it away", file, maxFile>>20)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return decode(data), nil
}

// decode reads the lines of a history.
func decode(data []byte) []string {
	var entries []string
	for line := range bytes.Lines(data) {
		var text string
		if len(line) <= 8*maxEntry && json.Unmarshal(line, &text) == nil && strings.TrimSpace(text) != "" && len(text) <= maxEntry {
			entries = append(entries, clean(text))
		}
	}
	return entries
}

// encode is an entry as a line.
func encode(text string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people look into it
	err := enc.Encode(text)
	return b.Bytes(), err
}

// add puts an entry behind the others, unless it repeats the last one.
func (h *history) add(ctx context.Context, text string) error {
	text = clean(strings.TrimSpace(text))
	if text == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == text {
		return nil
	}
	h.entries = last(append(h.entries, text))
	if h.file == "" || len(text) > maxEntry {
		return nil
	}
	if err := h.write(ctx, text); err != nil {
		return fmt.Errorf("the history of requests: %w", err)
	}
	return nil
}

func (h *history) write(ctx context.Context, text string) error {
	lock := flock.New(h.file+".lock", flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, h.wait)
	defer cancel()
	if ok, err := lock.TryLockContext(ctx, lockRetry); !ok {
		return fmt.Errorf("another session holds it: %w", err)
	}
	defer lock.Close()
	line, err := encode(text)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	// A line that a crash cut off must not take this one with it.
	size := int64(0)
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		size = info.Size()
		end := make([]byte, 1)
		if _, err := f.ReadAt(end, info.Size()-1); err == nil && end[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if h.added++; h.added < lookEvery && (size <= maxFile/2 || h.added < lookEvery/10) {
		return nil
	}
	h.added = 0
	return h.trimLocked()
}

// trimLocked writes the file anew where it has grown too long.
func (h *history) trimLocked() error {
	entries, err := load(h.file)
	if err != nil {
		return err
	}
	size := 0
	for _, text := range entries {
		size += len(text)
	}
	if len(entries) <= maxEntries+slack && size <= maxKept+maxKept/4 {
		return nil
	}
	var data []byte
	for _, text := range last(entries) {
		line, err := encode(text)
		if err != nil {
			return err
		}
		data = append(data, line...)
	}
	f, err := os.CreateTemp(filepath.Dir(h.file), ".history-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), h.file)
}
