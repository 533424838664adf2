package guest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	fileMode = 0o644
	modeBits = 0o7777
	permBits = 0o777
)

type writeParams struct {
	agent.WriteFileParams
	Path    *string `json:"path"`
	Content *string `json:"content"`
}

func (p *writeParams) check(raw bool) error {
	if err := checkPath("path", p.Path); err != nil {
		return err
	}
	if err := checkMode(p.Mode); err != nil {
		return err
	}
	if p.WriteFileParams.Offset != nil && *p.WriteFileParams.Offset < 0 {
		return invalid("offset is negative")
	}
	if err := checkEncoding(p.Encoding, raw); err != nil {
		return err
	}
	if p.Content == nil && p.Encoding != agent.EncodingRaw {
		return missing("content")
	}
	return nil
}

func checkMode(mode *uint32) error {
	if mode != nil && *mode > modeBits {
		return invalid("mode: %#o is more than %#o", *mode, modeBits)
	}
	return nil
}

// content is what to write.
func (p *writeParams) content(req *rpc.Request) ([]byte, error) {
	switch {
	case p.Encoding == agent.EncodingRaw && req.Raw == nil:
		return nil, invalid(`encoding is "raw" and the frame has no payload`)
	case p.Encoding == agent.EncodingRaw && p.Content != nil && *p.Content != "":
		return nil, invalid(`encoding is "raw" and content is not empty`)
	case p.Encoding == agent.EncodingRaw:
		return req.Raw, nil
	case req.Raw != nil:
		return nil, invalid(`the frame has a payload and encoding is not "raw"`)
	case p.Encoding == agent.EncodingBase64:
		data, err := base64.StdEncoding.DecodeString(*p.Content)
		if err != nil {
			return nil, invalid("content: %v", err)
		}
		return data, nil
	}
	return []byte(*p.Content), nil
}

func (s *session) writeFile(_ context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p writeParams
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if err := p.check(peer.RawAllowed()); err != nil {
		return nil, err
	}
	data, err := p.content(req)
	if err != nil {
		return nil, err
	}
	if err := s.a.writeRegular(*p.Path, data, p.Mode, p.WriteFileParams.Offset); err != nil {
		return nil, pathError("write", *p.Path, err)
	}
	return agent.Success{Success: true}, nil
}

// writeRegular writes data into a file in place: links to it and its owner stay. A file
// that is made has its mode from the start, so that nobody opens a secret meanwhile.
func (a *Agent) writeRegular(path string, data []byte, mode *uint32, offset *int64) (err error) {
	create := uint32(fileMode)
	if mode != nil {
		create = *mode & permBits
	}
	made := unix.Access(path, unix.F_OK) == unix.ENOENT
	fd, _, err := openRegular(path, unix.O_WRONLY|unix.O_CREAT, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if made && a.owner != nil {
		if err := unix.Fchown(fd, int(a.owner.uid), int(a.owner.gid)); err != nil {
			return fmt.Errorf("give it to its user: %w", err)
		}
	}
	if mode != nil {
		if err := unix.Fchmod(fd, create); err != nil {
			return err
		}
	}
	at := int64(0)
	if offset != nil {
		at = *offset
	} else if err := retry(func() error { return unix.Ftruncate(fd, 0) }); err != nil {
		return err
	}
	for len(data) > 0 {
		var n int
		err := retry(func() (err error) {
			n, err = unix.Pwrite(fd, data, at)
			return err
		})
		if err != nil {
			return err
		}
		data, at = data[n:], at+int64(n)
	}
	if mode != nil && *mode&^permBits != 0 {
		return unix.Fchmod(fd, *mode) // last: a write takes the set-id bits away
	}
	return nil
}
