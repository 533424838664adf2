package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"airlock/internal/rpc"
)

const inputChunk = 64 << 10 // bytes of stdin sent at a time

// inputState keeps a Process's input in order: one request at a time.
type inputState struct {
	mu     sync.Mutex
	closed bool
}

// errInputClosed is input after CloseInput.
var errInputClosed = errors.New("the command's input is closed")

// Input gives bytes to the command's stdin, for a Process whose params had Input and
// which has no Streams.Stdin. It returns when the command can take more, so it has no limit
// but ctx. Concurrent calls take turns.
func (p *Process) Input(ctx context.Context, data []byte) error {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	for len(data) > 0 {
		n := min(len(data), inputChunk)
		if err := p.inputLocked(ctx, data[:n], false); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// CloseInput closes the command's stdin: it reads end-of-file.
func (p *Process) CloseInput(ctx context.Context) error {
	p.input.mu.Lock()
	defer p.input.mu.Unlock()
	if p.input.closed {
		return nil
	}
	return p.inputLocked(ctx, nil, true)
}

// inputLocked makes one input request.
func (p *Process) inputLocked(ctx context.Context, data []byte, eof bool) error {
	known, err := p.c.need(ctx, MethodInput, CapInput)
	if err != nil {
		return err
	}
	if p.input.closed {
		return fmt.Errorf("%s: %w", MethodInput, errInputClosed)
	}
	params := InputParams{ID: p.id, EOF: eof}
	spec := rpc.Call{Method: MethodInput}
	if known.Has(CapRaw) && len(data) > 0 {
		spec.Raw = data
	} else {
		params.Data = data
	}
	spec.Params = params
	if _, err = p.c.do(ctx, spec); err == nil && eof {
		p.input.closed = true
	}
	return err
}

// feed starts the goroutine that reads stdin for the command. The function it returns is
// called after answered is closed; it waits for that goroutine unless it sits in a Read,
// and returns what went wrong with reading.
func (p *Process) feed(ctx context.Context, sent, answered <-chan struct{}, stdin io.Reader) (wait func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		mu      sync.Mutex
		over    bool // nobody wants more
		reading bool
		readErr error
		ended   = make(chan struct{})
	)
	enter := func(read bool) bool {
		mu.Lock()
		defer mu.Unlock()
		reading = read && !over
		return !over
	}
	go func() {
		defer close(ended)
		select {
		case <-sent:
		case <-answered:
			return
		}
		buf := make([]byte, inputChunk)
		for enter(true) {
			n, err := stdin.Read(buf)
			if !enter(false) {
				return
			}
			if n > 0 && p.Input(ctx, buf[:n]) != nil {
				return // the command has ended or closed its stdin
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					mu.Lock()
					readErr = err
					mu.Unlock()
				}
				if !p.follow.isLetGo() {
					_ = p.CloseInput(ctx)
				}
				return
			}
		}
	}()
	return func() error {
		cancel()
		mu.Lock()
		over = true
		stuck := reading
		mu.Unlock()
		if !stuck {
			<-ended
		}
		mu.Lock()
		defer mu.Unlock()
		return readErr
	}
}
