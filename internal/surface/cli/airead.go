package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"airlock/internal/planner/material"
	"airlock/internal/tool"
)

const (
	readTool = "fs.read_file"
	readMost = 768 << 10 // bytes of a file; as base64 they fit an answer
)

// A fileRead is what a model asks of a file. A secret is known by what stands around it, so
// the file is read from its beginning and as it is, secrets are taken out of all of it, and the
// model is given its part of what is left: a place to begin at, a small portion or another
// encoding would each get a secret past who looks for it.
type fileRead struct {
	Path     string `json:"path"`
	MaxBytes int    `json:"max_bytes"`
	Offset   int    `json:"offset"`
	Encoding string `json:"encoding"`
}

// withoutEncoding is what is known of reading files, as it is offered to a model.
func withoutEncoding(info *tool.Info) error {
	act := &info.Actions[0]
	var schema map[string]any
	if err := json.Unmarshal(act.Schema, &schema); err != nil {
		return fmt.Errorf("%s: %w", info.Name, err)
	}
	members, _ := schema["properties"].(map[string]any)
	delete(members, "encoding")
	if most, ok := members["max_bytes"].(map[string]any); ok {
		most["maximum"], most["default"], most["description"] = readMost, readMost, "How many bytes of the text to give at most."
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return fmt.Errorf("%s: %w", info.Name, err)
	}
	info.Actions = []tool.Action{*act}
	info.Actions[0].Schema = text
	return nil
}

// readOf is what a call that has been found valid asks for, with the call that is made for it.
func readOf(call tool.Call) (*fileRead, tool.Call, error) {
	r := &fileRead{MaxBytes: readMost}
	if err := json.Unmarshal(call.Args, r); err != nil {
		return nil, call, err
	}
	args, err := json.Marshal(map[string]any{"path": r.Path, "max_bytes": readMost, "encoding": "base64"})
	call.Args = args
	return r, call, err
}

// part is the model's part of a file, secrets taken out by what the file's name says that it
// holds, and by that of the file it leads to.
func (r *fileRead) part(res tool.Result, dir string, redactor *material.Redactor) tool.Result {
	if !res.OK {
		return res
	}
	data, err := base64.StdEncoding.DecodeString(res.Stdout)
	if err != nil {
		return tool.Fail(tool.IOError, fmt.Sprintf("%s: %s: what was read is malformed", readTool, r.Path))
	}
	if nul := bytes.Count(data, []byte{0}); nul > len(data)/4 || nul > 0 && !utf8.Valid(data) {
		return tool.Fail(tool.InvalidArgs, fmt.Sprintf("%s: %s: is not text in UTF-8", readTool, r.Path))
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "\n") // as in /proc/PID/cmdline
	text = redactor.File(r.Path, text)
	path := r.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) != filepath.Base(r.Path) {
		text = redactor.File(real, text)
	}
	more, _ := res.Meta["truncated"].(bool)
	if more && r.Offset >= len(text) {
		return tool.Fail(tool.InvalidArgs, fmt.Sprintf("%s: %s: only a file's first %d bytes can be read here", readTool, r.Path, readMost))
	}
	begin := character(text, min(r.Offset, len(text)))
	end := character(text, begin+min(r.MaxBytes, len(text)-begin))
	res.Stdout = text[begin:end]
	res.Meta["bytes_read"], res.Meta["truncated"] = end-begin, more || end < len(text)
	delete(res.Meta, "encoding")
	return res
}

// character is the largest place up to i at which a character of s begins or s ends.
func character(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}
