//go:build linux

package guest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/agent"
	"airlock/internal/guest"
	"airlock/internal/rpc"
)

// patience is how long a test waits for what ought to come: machines are slow at times.
const patience = 2 * time.Minute

// A wire is a client that speaks the protocol byte by byte, so that the tests hold the
// agent to the protocol and not to a library.
type wire struct {
	t    testing.TB
	conn io.ReadWriteCloser
	done chan struct{} // closed when nothing more comes

	writing sync.Mutex

	mu      sync.Mutex
	last    uint64
	replies map[uint64]reply
	output  map[uint64]map[string][]byte // what came before the reply
	changed chan struct{}
	paused  chan struct{} // not nil: nothing is read until it is closed
}

type reply struct {
	ID     uint64          `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpc.Error      `json:"error"`
	Raw    *int            `json:"raw"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`

	payload []byte
	printed map[string]string // output notifications before it
}

// connect serves a new agent to a new client, until the test ends.
func connect(t testing.TB, opts *guest.Options) *wire {
	t.Helper()
	a, err := guest.New(opts)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return attach(t, a)
}

// attach makes one more connection to a.
func attach(t testing.TB, a *guest.Agent) *wire {
	t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- a.Serve(context.Background(), far) }()
	w := speak(t, near)
	t.Cleanup(func() {
		w.close()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve did not return after the client went away")
		}
	})
	return w
}

// speak makes a client of one end of a connection.
func speak(t testing.TB, conn io.ReadWriteCloser) *wire {
	w := &wire{
		t: t, conn: conn, done: make(chan struct{}),
		replies: map[uint64]reply{}, output: map[uint64]map[string][]byte{}, changed: make(chan struct{}),
	}
	go w.read()
	return w
}

func (w *wire) close() {
	w.resume()
	w.conn.Close()
	<-w.done
}

// pause stops reading, as a slow client does. What was begun is read to its end.
func (w *wire) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = make(chan struct{})
}

func (w *wire) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused != nil {
		close(w.paused)
		w.paused = nil
	}
}

func (w *wire) read() {
	defer close(w.done)
	in := bufio.NewReader(w.conn)
	for {
		w.mu.Lock()
		paused := w.paused
		w.mu.Unlock()
		if paused != nil {
			<-paused
		}
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			w.t.Errorf("the agent sent %.200q: %v", line, err)
			return
		}
		if r.Raw != nil {
			r.payload = make([]byte, *r.Raw)
			if _, err := io.ReadFull(in, r.payload); err != nil {
				return
			}
		}
		w.take(r)
	}
}

func (w *wire) take(r reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Method == agent.NotifyOutput {
		var p agent.OutputParams
		if err := json.Unmarshal(r.Params, &p); err != nil {
			w.t.Errorf("output: %v", err)
		}
		if w.output[p.ID] == nil {
			w.output[p.ID] = map[string][]byte{}
		}
		w.output[p.ID][p.Stream] = append(append(w.output[p.ID][p.Stream], p.Data...), r.payload...)
	} else {
		r.printed = map[string]string{}
		for stream, data := range w.output[r.ID] {
			r.printed[stream] = string(data)
		}
		w.replies[r.ID] = r
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// send sends a request and returns its id. params may be JSON in a string.
func (w *wire) send(method string, params any, raw []byte) uint64 {
	w.t.Helper()
	w.mu.Lock()
	w.last++
	id := w.last
	w.mu.Unlock()
	text, ok := params.(string)
	if !ok {
		data, err := json.Marshal(params)
		if err != nil {
			w.t.Fatalf("marshal: %v", err)
		}
		text = string(data)
	}
	var b strings.Builder
	name, _ := json.Marshal(method)
	head := map[string]any{"jsonrpc": "2.0", "id": id, "params": json.RawMessage(text)}
	if raw != nil {
		head["raw"] = len(raw)
	}
	head["method"] = json.RawMessage(name)
	line, err := json.Marshal(head)
	if err != nil {
		w.t.Fatalf("marshal %s: %v", method, err)
	}
	b.Write(line)
	b.WriteByte('\n')
	b.Write(raw)
	w.writing.Lock()
	defer w.writing.Unlock()
	if _, err := io.WriteString(w.conn, b.String()); err != nil {
		w.t.Fatalf("send %s: %v", method, err)
	}
	return id
}

var errNoReply = errors.New("no reply came")

// until waits for what cond looks for; cond is called with mu held.
func (w *wire) until(what string, cond func() bool) {
	w.t.Helper()
	timeout := time.After(patience)
	for {
		w.mu.Lock()
		ok, changed := cond(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-w.done:
			w.t.Fatalf("the connection ended before %s", what)
		case <-timeout:
			w.t.Fatalf("waited in vain for %s: %v", what, errNoReply)
		}
	}
}

func (w *wire) wait(id uint64) reply {
	w.t.Helper()
	var r reply
	w.until("the reply", func() (ok bool) { r, ok = w.replies[id]; return ok })
	return r
}

// prints waits until request id has printed text.
func (w *wire) prints(id uint64, stream, text string) {
	w.t.Helper()
	w.until("output "+text, func() bool { return bytes.Contains(w.output[id][stream], []byte(text)) })
}

func (w *wire) call(method string, params any) reply {
	w.t.Helper()
	return w.wait(w.send(method, params, nil))
}

// must is a call that has to succeed; its result goes into res.
func (w *wire) must(method string, params, res any) {
	w.t.Helper()
	into(w.t, method, w.call(method, params), res)
}

func into(t testing.TB, method string, r reply, res any) {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("%s: err = %v, want none", method, r.Error)
	}
	if err := json.Unmarshal(r.Result, res); err != nil {
		t.Fatalf("%s: result %.200s: %v", method, r.Result, err)
	}
}

// exec runs a command to its end.
func (w *wire) exec(params any) agent.ExecResult {
	w.t.Helper()
	var res agent.ExecResult
	w.must(agent.MethodExec, params, &res)
	return res
}

// result is the outcome of an exec that was sent.
func (w *wire) result(id uint64) agent.ExecResult {
	w.t.Helper()
	var res agent.ExecResult
	into(w.t, "exec", w.wait(id), &res)
	return res
}

// hello agrees on payloads.
func (w *wire) hello() {
	w.t.Helper()
	w.must(agent.MethodHello, agent.HelloParams{Protocol: agent.ProtocolVersion, Raw: true}, &agent.HelloResult{})
}

// eventually waits for something outside the connection.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
