package material

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"airlock/internal/planner"
)

// maxPiped is how much of a pipe is read to find its end.
const maxPiped = 64 << 20

// halfPipe is how much is kept of a pipe's beginning, and of its end.
const halfPipe = MaxPipe / 2

// pipe reads what was piped in.
func (g *gatherer) pipe(ctx context.Context) error {
	if g.Pipe == nil {
		return nil
	}
	got, err := readPipe(ctx, g.Pipe)
	if err != nil {
		return fmt.Errorf("read what was piped in: %w", err)
	}
	if got.read == 0 {
		return nil // as programs leave their children's input that have nothing to say
	}
	if !got.text() {
		return errors.New("what was piped in is no text: pipe in what describes it, such as what file or hexdump say")
	}
	p := planner.Piece{Kind: planner.FromPipe, Name: "what was piped in"}
	p.Text, p.Note = got.kept(g.Redactor)
	if p.Note != "" {
		g.note("Of what was piped in, only a part is sent: %s.", p.Note)
	}
	g.add(p)
	return nil
}

// piped is what was read of a pipe: up to MaxPipe of it is in head, the last of what came
// after that in tail.
type piped struct {
	head, tail []byte
	read       int64
	more       bool // it was not read to its end
	binary     bool
}

// readPipe reads to the end, or as far as is read at most. A reader that does not return is
// left behind when ctx is done.
func readPipe(ctx context.Context, r io.Reader) (*piped, error) {
	type answer struct {
		got *piped
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		got, err := (&piped{}).from(ctxReader{ctx, r})
		answered <- answer{got, err}
	}()
	select {
	case a := <-answered:
		return a.got, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// headRoom and tailRoom are what is held of a pipe: more than is kept, so that a secret is
// found whole.
const (
	headRoom = MaxPipe + slack
	tailRoom = halfPipe + slack
)

func (p *piped) from(r io.Reader) (*piped, error) {
	buf := make([]byte, 64<<10)
	for p.read < maxPiped {
		n, err := r.Read(buf)
		data := buf[:n]
		p.read += int64(n)
		if bytes.IndexByte(data, 0) >= 0 {
			p.binary = true
			return p, nil
		}
		room := min(n, headRoom-len(p.head))
		p.head = append(p.head, data[:room]...)
		p.tail = append(p.tail, data[room:]...)
		if len(p.tail) > 4*tailRoom {
			p.tail = append(p.tail[:0], p.tail[len(p.tail)-tailRoom:]...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return p, nil
		case err != nil:
			return nil, err
		}
	}
	p.more = true
	return p, nil
}

// text reports whether what is held is text.
func (p *piped) text() bool {
	if p.binary {
		return false
	}
	if len(p.tail) == 0 {
		return isText(p.head, p.more)
	}
	return isText(p.head, true) && isText(p.end(), p.more)
}

// end is what is held of the end, when not all of it is in head, from a character's beginning.
func (p *piped) end() []byte {
	all := p.tail
	if len(all) < tailRoom { // then head ends where it begins
		all = append(append([]byte(nil), p.head[max(0, len(p.head)-(tailRoom-len(all))):]...), all...)
	}
	all = all[max(0, len(all)-tailRoom):]
	for i := 0; i < 3 && len(all) > 0 && all[0]&0xc0 == 0x80; i++ {
		all = all[1:]
	}
	return all
}

// kept is what is sent, without secrets, and a note of what is not.
func (p *piped) kept(redactor *Redactor) (text, note string) {
	head := redactor.Text(plainText(string(wholeRunes(p.head))))
	if len(p.tail) == 0 && !p.more && len(head) <= MaxPipe {
		return head, ""
	}
	first := firstBytes(head, halfPipe)
	last := lastBytes(redactor.Text(plainText(string(wholeRunes(p.end())))), halfPipe)
	note = fmt.Sprintf("the first %s and the last %s of %s", bytesOf(int64(len(first))), bytesOf(int64(len(last))), bytesOf(p.read))
	if p.more {
		note += ", beyond which it was not read"
	}
	return first + "\n[... what was here is left out ...]\n" + last, note
}
