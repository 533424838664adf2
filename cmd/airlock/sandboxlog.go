package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"airlock/internal/sandbox"
)

const maxEngineLog = 64 << 10 // bytes of its end that are shown

// engineLog reads what the engine wrote of a sandbox that lasts.
func engineLog(state string) func(context.Context, string) (string, error) {
	return func(_ context.Context, id string) (string, error) {
		if !sandbox.ValidID(id) {
			return "", os.ErrNotExist
		}
		f, err := os.Open(filepath.Join(state, "run", id, "log"))
		if err != nil {
			return "", err
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil {
			return "", err
		} else if st.Size() > maxEngineLog {
			if _, err := f.Seek(-maxEngineLog, io.SeekEnd); err != nil {
				return "", err
			}
		}
		text, err := io.ReadAll(io.LimitReader(f, maxEngineLog))
		return string(text), err
	}
}
