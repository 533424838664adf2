package changes

import (
	"errors"
	"os"
	"runtime"
)

func syncFile(name string) (err error) {
	// For writing: some systems refuse to sync what is open for reading alone.
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

// syncDir makes the names in dir last.
func syncDir(dir string) (err error) {
	if runtime.GOOS == "windows" { // has no such operation
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// filled writes data to f and leaves it at its beginning.
func filled(f *os.File, data []byte) (*os.File, error) {
	_, err := f.WriteAt(data, 0)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
