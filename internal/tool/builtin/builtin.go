// Package builtin holds the tools that come with the program: cmd.run, fs.read_file,
// fs.write_file, fs.list_dir and sysinfo. All but sysinfo work through a Machine's guest
// agent alone, so that the same code serves the host and a sandbox. It must not know who
// calls them, the gate, or any driver.
package builtin

import (
	"embed"
	"encoding/json"
	"fmt"

	"airlock/internal/tool"
)

// Tools makes the built-in tools.
func Tools() []tool.Tool {
	return []tool.Tool{Run(), ReadFile(), WriteFile(), ListDir(), Sysinfo()}
}

//go:embed schemas/*.json
var schemas embed.FS

// schemaOf is the schema of an action. Which there are is known when the program is built.
func schemaOf(toolName, action string) json.RawMessage {
	text, err := schemas.ReadFile("schemas/" + toolName + "." + action + ".json")
	if err != nil {
		panic(err)
	}
	return text
}

// decode reads arguments that the registry has checked into p.
func decode(call tool.Call, p any) *tool.Result {
	if err := json.Unmarshal(call.Args, p); err != nil {
		return new(tool.Fail(tool.InvalidArgs, fmt.Sprintf("%s %s: args: %v", call.Tool, call.Action, err)))
	}
	return nil
}
