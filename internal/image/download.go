package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fetch gets a layer into the store's blobs, unless it is there, and keeps it from being removed until close.
func (r *remote) fetch(ctx context.Context, i int, report func(State, int64)) error {
	l := r.m.layers[i]
	name := fileName(l.digest.String())
	path := r.store.path(blobFolder, name)
	for {
		unlock, err := r.store.lock(ctx, name, true)
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil && info.Size() == l.size {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.held = append(r.held, unlock)
			return nil
		}
		unlock()
		if err := r.fetchAlone(ctx, l, report); err != nil {
			return err
		}
	}
}

// fetchAlone downloads a layer, or finds that another command just did.
func (r *remote) fetchAlone(ctx context.Context, l layer, report func(State, int64)) error {
	name := fileName(l.digest.String())
	path := r.store.path(blobFolder, name)
	unlock, err := r.store.lock(ctx, name, false)
	if err != nil {
		return err
	}
	defer unlock()
	info, err := os.Lstat(path)
	if err == nil && info.Size() == l.size {
		return nil
	}
	if err == nil { // the disk lost some of it
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	d := &download{remote: r, layer: l, report: report}
	part := r.store.path(partFolder, name+partSuffix)
	if err := d.run(ctx, part); err != nil {
		if full(err) || errors.Is(err, ErrCorrupt) { // in the way of what makes room, or of no use
			_ = os.Remove(part)
		}
		return r.explain(err)
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(r.store.path(blobFolder))
}

func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// A download is one of a layer, over as many connections as it takes.
type download struct {
	remote *remote
	layer  layer
	report func(State, int64)

	file *os.File
	sum  hash.Hash
	have int64 // bytes in file, and in sum
	old  int64 // of these, from another process
}

func (d *download) run(ctx context.Context, part string) (err error) {
	d.file, err = os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.file.Close()) }()
	if err := d.resume(); err != nil {
		return err
	}
	for {
		if err := d.rest(ctx); err != nil {
			return err
		}
		d.report(Verifying, d.have)
		got := hex.EncodeToString(d.sum.Sum(nil))
		if got == d.layer.digest.Hex {
			return d.file.Sync()
		}
		wasOld := d.old > 0
		if err := d.anew(); err != nil {
			return err
		}
		// What another process left may be damaged, by a crash of the machine for one.
		if !wasOld {
			return wrongDigest(d.layer.digest, got, "as it came")
		}
	}
}

// resume takes over what is in the file.
func (d *download) resume() error {
	if err := d.anew(); err != nil {
		return err
	}
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > d.layer.size {
		return d.file.Truncate(0)
	}
	if info.Size() > 0 {
		d.report(Verifying, 0)
	}
	n, err := io.Copy(d.sum, io.NewSectionReader(d.file, 0, info.Size()))
	d.have, d.old = n, n
	return err
}

// anew forgets what there is.
func (d *download) anew() (err error) {
	if d.have > 0 || d.old > 0 {
		if err := d.file.Truncate(0); err != nil {
			return err
		}
	}
	d.have, d.old = 0, 0
	d.sum, err = v1.Hasher(d.layer.digest.Algorithm)
	return err
}

// rest gets what is missing, again and again while that brings something.
func (d *download) rest(ctx context.Context) error {
	idle := 0
	for n := 1; d.have < d.layer.size; n++ {
		before := d.have
		err := d.once(ctx)
		if err == nil || ctx.Err() != nil {
			if err != nil {
				err = context.Cause(ctx)
			}
			return err
		}
		if d.have > before {
			idle = 0
		}
		idle++
		if !transient(err) && !unreached(err) || idle == attempts || n == restarts {
			return fmt.Errorf("after %d of %d bytes: %w", d.have, d.layer.size, err)
		}
		if err := d.remote.store.pause(ctx, idle, err); err != nil {
			return err
		}
	}
	return nil
}

// once asks for what is missing.
func (d *download) once(ctx context.Context) error {
	d.report(Downloading, d.have)
	header := http.Header{}
	if d.have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-%d", d.have, d.layer.size-1))
	}
	resp, err := d.remote.get(ctx, d.remote.url("blobs", d.layer.digest.String()), d.layer.size+1, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := statusOf(resp, http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable); err != nil {
		return err
	}
	goesOn := resp.StatusCode == http.StatusPartialContent && rangeStart(resp) == d.have
	if d.have > 0 && !goesOn { // the registry knows no ranges
		if err := d.anew(); err != nil {
			return err
		}
	}
	if resp.StatusCode != http.StatusOK && !goesOn {
		return io.ErrUnexpectedEOF // and the next time without a range
	}
	return d.read(resp.Body)
}

func rangeStart(resp *http.Response) int64 {
	var from, to int64
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d", &from, &to); err != nil {
		return -1
	}
	return from
}

// read appends to the file what comes.
func (d *download) read(body io.Reader) error {
	buf := make([]byte, 128<<10)
	for {
		n, err := body.Read(buf)
		if int64(n) > d.layer.size-d.have {
			return fmt.Errorf("%w: it is longer than the %d bytes that the manifest says", ErrCorrupt, d.layer.size)
		}
		if n > 0 {
			if _, err := d.file.WriteAt(buf[:n], d.have); err != nil {
				return err
			}
			d.sum.Write(buf[:n])
			d.have += int64(n)
			d.report(Downloading, d.have)
		}
		if err == io.EOF && d.have < d.layer.size {
			return io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return &brokenError{err}
		}
		if err == io.EOF {
			return nil
		}
	}
}
