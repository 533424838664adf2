//go:build linux

package guest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/internal/guest"
)

// An exchange is a request of docs/protocol.md and what comes back.
type exchange struct {
	line     int // of the request's block
	section  string
	request  string
	response string
}

// exchanges reads the examples of docs/protocol.md.
func exchanges(t *testing.T) []exchange {
	t.Helper()
	doc, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var (
		found   []exchange
		section string
		block   strings.Builder
		info    string
		n       int
	)
	for line := range strings.Lines(string(doc)) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && info == "":
			info = fence
			block.Reset()
			if strings.HasSuffix(info, " request") {
				found = append(found, exchange{line: n, section: section})
			}
		case isFence:
			last := len(found) - 1
			switch {
			case strings.HasSuffix(info, " request"):
				found[last].request = block.String()
			case strings.HasSuffix(info, " response") && last >= 0 && found[last].response == "":
				found[last].response = block.String()
			default:
				t.Fatalf("line %d: a block %q that is no example", n, info)
			}
			info = ""
		case info != "":
			block.WriteString(line)
		case strings.HasPrefix(line, "#"):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return found
}

// TestTheProtocolDocumentsExamples sends every example of docs/protocol.md to a guest
// agent, those of one section on one connection.
func TestTheProtocolDocumentsExamples(t *testing.T) {
	all := exchanges(t)
	if len(all) < 25 {
		t.Fatalf("docs/protocol.md has %d examples", len(all))
	}
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].section == all[0].section {
			n++
		}
		t.Run(all[0].section, func(t *testing.T) { runSection(t, all[:n]) })
		all = all[n:]
	}
}

func runSection(t *testing.T, section []exchange) {
	g, err := guest.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- g.Serve(t.Context(), far) }()
	defer func() {
		_ = near.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		_ = g.Close()
	}()
	_ = near.SetDeadline(time.Now().Add(patience))
	in, dir := bufio.NewReader(near), t.TempDir()
	for _, x := range section {
		request := strings.ReplaceAll(x.request, "/tmp/airlock-example", dir)
		response := strings.ReplaceAll(x.response, "/tmp/airlock-example", dir)
		written := make(chan error, 1)
		go func() {
			_, err := io.WriteString(near, asSent(request))
			written <- err
		}()
		if err := expect(in, response); err != nil {
			t.Errorf("docs/protocol.md:%d: %v\nrequest: %s", x.line, err, request)
		}
		if err := <-written; err != nil {
			t.Fatalf("docs/protocol.md:%d: send: %v", x.line, err)
		}
	}
}

// asSent is a request's block as it is sent: the payload without the block's last newline.
func asSent(block string) string {
	line, rest, _ := strings.Cut(block, "\n")
	var frame struct{ Raw int }
	_ = json.Unmarshal([]byte(line), &frame)
	return line + "\n" + rest[:min(frame.Raw, len(rest))]
}

// expect reads what block says: lines of JSON, each over one or more lines and perhaps
// with a payload, or a line of text.
func expect(in *bufio.Reader, block string) error {
	if !strings.HasPrefix(block, "{") {
		got, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("response: %q, want %q: %w", got, block, err)
		}
		if got != block {
			return fmt.Errorf("response: %q, want %q", got, block)
		}
		return nil
	}
	rest := []byte(block)
	for len(bytes.TrimSpace(rest)) > 0 {
		dec := json.NewDecoder(bytes.NewReader(rest))
		var want map[string]any
		if err := dec.Decode(&want); err != nil {
			return fmt.Errorf("the example's response: %w", err)
		}
		rest = bytes.TrimPrefix(rest[dec.InputOffset():], []byte("\n"))
		line, err := in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("response: %w", err)
		}
		var got map[string]any
		if err := json.Unmarshal(line, &got); err != nil {
			return fmt.Errorf("response %s: %w", line, err)
		}
		if !matches(want, got) {
			return fmt.Errorf("response:\n%s, want\n%v", line, want)
		}
		n, _ := want["raw"].(float64)
		payload := make([]byte, int(n))
		if _, err := io.ReadFull(in, payload); err != nil || !bytes.HasPrefix(rest, payload) {
			return fmt.Errorf("payload: %q, %w, want %q", payload, err, rest)
		}
		rest = rest[len(payload):]
	}
	return nil
}

// matches compares values; "…" is any. A duration of 0 ms may be left out.
func matches(want, got any) bool {
	if want == "…" {
		return true
	}
	if w, isArray := want.([]any); isArray {
		g, isArray := got.([]any)
		return isArray && slices.EqualFunc(w, g, matches)
	}
	w, isObject := want.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(want, got)
	}
	g, isObject := got.(map[string]any)
	if !isObject {
		return false
	}
	for name := range g {
		if _, known := w[name]; !known {
			return false
		}
	}
	for name, v := range w {
		other, has := g[name]
		if !has && name == "duration_ms" {
			continue
		}
		if !has || !matches(v, other) {
			return false
		}
	}
	return true
}
