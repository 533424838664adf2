package guest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"airlock/agent"
	"airlock/internal/rpc"
)

const (
	envelope = 512      // more than a response needs around its content
	growth   = 64 << 10 // that a file may have grown by since it was opened
	unsized  = 8 << 20  // read at once from a file that does not know its size
)

// held is how much memory an answer with n bytes of content takes until it has left.
func held(n int64, encoding string) int64 {
	switch encoding {
	case agent.EncodingRaw:
		return n
	case agent.EncodingBase64:
		return n + 3*n // the bytes, their base64, and the line with it
	}
	return 3 * n
}

var errNotText = errors.New(`is not UTF-8: ask for it with encoding "base64"`)

type readParams struct {
	agent.ReadFileParams
	Path *string `json:"path"`
}

func (p *readParams) check(raw bool) error {
	if err := checkPath("path", p.Path); err != nil {
		return err
	}
	switch {
	case p.Offset < 0:
		return invalid("offset is negative")
	case p.Limit < 0:
		return invalid("limit is negative")
	case p.Limit > agent.MaxChunk:
		return invalid("limit is above %d", agent.MaxChunk)
	}
	return checkEncoding(p.Encoding, raw)
}

func checkEncoding(encoding string, raw bool) error {
	switch encoding {
	case agent.EncodingUTF8, agent.EncodingBase64:
		return nil
	case agent.EncodingRaw:
		if !raw {
			return invalid(`encoding "raw" needs a hello with raw first`)
		}
		return nil
	}
	return invalid(`encoding: %q is none of "", "base64" and "raw"`, clip(encoding))
}

func (p *readParams) ranged() bool { return p.Offset > 0 || p.Limit > 0 }

// readFile answers read_file. A ranged read of text ends with a whole character, so it
// may return up to three bytes less than asked; the next offset is what has come so far.
func (s *session) readFile(ctx context.Context, peer rpc.Peer, req *rpc.Request) (any, error) {
	var p readParams
	if err := decode(req, &p); err != nil {
		return nil, err
	}
	if err := p.check(peer.RawAllowed()); err != nil {
		return nil, err
	}
	fd, st, err := openRegular(*p.Path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, pathError("read", *p.Path, err)
	}
	defer unix.Close(fd)
	var reply any
	if p.ranged() {
		reply, err = s.readRange(ctx, req, fd, &st, &p)
	} else {
		reply, err = s.readWhole(ctx, req, fd, &st, &p)
	}
	if err != nil {
		return nil, pathError("read", *p.Path, err)
	}
	return reply, nil
}

func (s *session) readRange(ctx context.Context, req *rpc.Request, fd int, st *unix.Stat_t, p *readParams) (any, error) {
	limit := p.Limit
	if limit == 0 {
		limit = agent.MaxChunk
	}
	if err := s.reserve(ctx, req, held(limit, p.Encoding)); err != nil {
		return nil, err
	}
	data, more, err := readUpTo(fd, p.Offset, limit, min(max(st.Size-p.Offset, 0), limit))
	if err != nil {
		return nil, err
	}
	if p.Encoding == agent.EncodingUTF8 && more {
		n, ok := wholeChars(data)
		if !ok {
			return nil, errNotText
		}
		if n == 0 {
			return nil, fmt.Errorf("a limit of %d bytes is less than the next character", limit)
		}
		data = data[:n]
	}
	res := agent.ReadFileResult{EOF: !more, Size: st.Size}
	return s.fileReply(res, data, p.Encoding)
}

// readWhole reads all of a file. Its size is only a hint: the files of /proc have none,
// and others grow meanwhile.
func (s *session) readWhole(ctx context.Context, req *rpc.Request, fd int, st *unix.Stat_t, p *readParams) (any, error) {
	frame := s.a.maxFrame
	if p.Encoding == agent.EncodingBase64 {
		frame = frame / 4 * 3
	}
	if p.Encoding != agent.EncodingRaw {
		frame -= envelope
	}
	if st.Size > frame {
		return nil, s.tooLarge(st.Size)
	}
	// A file that grows, or that has no size, may go this far and no farther.
	most := min(frame, st.Size+growth)
	if st.Size == 0 {
		most = min(frame, unsized)
	}
	if err := s.reserve(ctx, req, held(most, p.Encoding)); err != nil {
		return nil, err
	}
	data, more, err := readUpTo(fd, -1, most, st.Size)
	if err != nil {
		return nil, err
	}
	if more && most < frame {
		return nil, fmt.Errorf("goes on after %d bytes, more than its size says: read ranges with offset and limit", most)
	}
	if more {
		return nil, s.tooLarge(most + 1)
	}
	return s.fileReply(agent.ReadFileResult{}, data, p.Encoding)
}

func (s *session) tooLarge(size int64) error {
	return fmt.Errorf("%d bytes do not fit into one answer (%d bytes with their encoding): read ranges with offset and limit", size, s.a.maxFrame)
}

// fileReply puts data into an answer, which must fit a frame.
func (s *session) fileReply(res agent.ReadFileResult, data []byte, encoding string) (any, error) {
	switch encoding {
	case agent.EncodingRaw:
		return rpc.Reply{Result: res, Raw: data}, nil
	case agent.EncodingBase64:
		res.Content = base64.StdEncoding.EncodeToString(data)
		return res, nil
	}
	if !utf8.Valid(data) {
		return nil, errNotText
	}
	if jsonLen(data)+envelope > s.a.maxFrame {
		return nil, s.tooLarge(int64(len(data)))
	}
	res.Content = string(data)
	return res, nil
}
