package gvisor

import (
	"archive/tar"
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// prepareLasting adds to the plan what a sandbox that lasts needs.
func (b *box) prepareLasting(p *plan) error {
	if b.saved != nil {
		b.started = b.saved.Started
	}
	l := b.lasting
	l.About = about{ID: b.spec.ID, Dir: b.dir, Identity: b.Identity(), Agents: b.agents, Started: b.started, Image: b.spec.Root != ""}
	p.Lasting = l
	return os.WriteFile(filepath.Join(b.dir, lastingMark), nil, 0o600)
}

// networkFiles are what programs in an image that have the host's network need of the host.
var networkFiles = []string{"/etc/resolv.conf", "/etc/hosts"}

// writeNetworkFiles writes them as the upper layer to start from, where the network is the host's.
func (b *box) writeNetworkFiles() (bool, error) {
	if !b.spec.HostNetwork {
		return false, nil
	}
	f, err := os.OpenFile(filepath.Join(b.dir, "hidden.tar"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf := bufio.NewWriter(f)
	w := tar.NewWriter(buf)
	folder := func(name string) error {
		return w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeDir, Format: tar.FormatPAX, Mode: 0o755, ModTime: time.Now()})
	}
	err = errors.Join(folder("./"), folder("./etc/"))
	for _, name := range networkFiles {
		data, readErr := os.ReadFile(name)
		if readErr != nil {
			continue // then the image's own is used
		}
		h := &tar.Header{Name: "." + name, Typeflag: tar.TypeReg, Format: tar.FormatPAX, Mode: 0o644, Size: int64(len(data)), ModTime: time.Now()}
		if err == nil {
			err = w.WriteHeader(h)
		}
		if err == nil {
			_, err = w.Write(data)
		}
	}
	return true, errors.Join(err, w.Close(), buf.Flush(), f.Close())
}
