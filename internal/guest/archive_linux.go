package guest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
	"airlock/internal/unpack"
)

const (
	partingTime = 10 * time.Second // for a client to take the end of a stream, and close
	maxReason   = 2000             // bytes of why a tar ended early
)

// takeArchive counts a pack or an unpack. giveArchive counts it out, and gives its memory back soon.
func (a *Agent) takeArchive() error {
	select {
	case a.tunnels.archives <- struct{}{}:
		return nil
	default:
		return rpc.Errorf(rpc.CodeBusy, "%d archives are under way already, and that is the limit", maxArchives)
	}
}

func (a *Agent) giveArchive() {
	<-a.tunnels.archives
	a.rest.later()
}

// pack sends a tar of a path. That the path is there is known before the answer.
func (s *session) pack(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.PackParams
		Path *string `json:"path"`
	}
	if err := pathOf(req, &p, &p.Path); err != nil {
		return nil, err
	}
	look := unix.Lstat
	if p.Follow || strings.HasSuffix(*p.Path, "/.") {
		look = unix.Stat
	}
	var st unix.Stat_t
	if err := retry(func() error { return look(*p.Path, &st) }); err != nil {
		return nil, pathError("pack", *p.Path, err)
	}
	switch kind := kindOf(uint32(st.Mode)); kind {
	case "socket", "device":
		return nil, pathError("pack", *p.Path, errors.New("is a "+kind+", which a tar does not carry"))
	}
	if err := s.a.takeArchive(); err != nil {
		return nil, err
	}
	return &rpc.Stream{Result: agent.Empty{}, Serve: func(ctx context.Context, conn *rpc.Conn) {
		defer s.a.giveArchive()
		_, err := unpack.Pack(ctx, conn, *p.Path, &unpack.PackOptions{Follow: p.Follow, Notes: agent.PackNotes})
		if err != nil {
			s.a.log.DebugContext(ctx, "pack ended early", "error", err)
		}
		if conn.CloseWrite() == nil {
			part(conn)
		}
	}}, nil
}

// unpack takes a tar into a folder.
func (s *session) unpack(_ context.Context, _ rpc.Peer, req *rpc.Request) (any, error) {
	var p struct {
		agent.UnpackParams
		Path *string `json:"path"`
	}
	if err := pathOf(req, &p, &p.Path); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err := retry(func() error { return unix.Stat(*p.Path, &st) })
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		return nil, pathError("unpack into", *p.Path, err)
	}
	if err := s.a.takeArchive(); err != nil {
		return nil, err
	}
	opts := &unpack.Options{SetID: true, Xattrs: true, KeepRoot: true}
	switch {
	case p.Owner && os.Geteuid() == 0:
		opts.Owners = unpack.OwnersTry
	case s.a.owner != nil:
		opts.Owners, opts.UID, opts.GID = unpack.OwnersOne, int(s.a.owner.uid), int(s.a.owner.gid)
	}
	if p.Clear {
		opts.Replace = unpack.ReplaceEmpty
	}
	return &rpc.Stream{Result: agent.Empty{}, Serve: func(ctx context.Context, conn *rpc.Conn) {
		defer s.a.giveArchive()
		res, err := unpack.Into(ctx, *p.Path, conn, opts)
		answer := agent.UnpackResult{Entries: res.Entries, Bytes: res.Bytes}
		if err != nil {
			answer.Error, _ = lossy([]byte(err.Error()), maxReason)
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return // of a struct of numbers and text there is no such error
		}
		if _, err := conn.Write(append(line, '\n')); err == nil {
			part(conn)
		}
	}}, nil
}

// part waits until the client closes: closing before, with bytes of its own unread, may lose what was written.
func part(conn *rpc.Conn) {
	defer time.AfterFunc(partingTime, func() { conn.Close() }).Stop()
	_, _ = io.Copy(io.Discard, conn)
}
