package plugin_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"airlock/internal/tool"
	"airlock/internal/tool/plugin"
)

const good = `name: probe
version: 1.10
description: Does what the test says.
executable: probe
actions:
  - name: go
    description: Goes.
    schema: {type: object}
`

// folder makes a folder of these files; a name that ends in an asterisk is executable.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("executables and links are otherwise here")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		mode := os.FileMode(0o644)
		if bare, executable := strings.CutSuffix(name, "*"); executable {
			name, mode = bare, 0o755
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestManifestsThatAreRefused(t *testing.T) {
	actions := func(n int) string {
		var b strings.Builder
		b.WriteString("actions:\n")
		for i := range n {
			fmt.Fprintf(&b, "- {name: a%d, description: d, schema: x.json}\n", i)
		}
		return b.String()
	}
	with := func(line string) string { return good + line + "\n" }
	swap := func(from, to string) string {
		if !strings.Contains(good, from) {
			t.Fatalf("the good manifest has no %q", from)
		}
		return strings.Replace(good, from, to, 1)
	}
	for _, tt := range []struct {
		name, manifest string
		at, says       string // ":LINE:COLUMN:" and words of the Problem
	}{
		{"nothing", "", "", "nothing in it"},
		{"a comment alone", "# probe\n", "", "nothing in it"},
		{"not YAML", "name: [probe\n", ":1:7:", "not YAML"},
		{"a list", "- name: probe\n", ":1:", "must be an object"},
		{"a name in place of an object", "probe\n", ":1:1:", "must be an object"},
		{"two documents", good + "---\n" + good, ":10:", "second document"},
		{"a member that is misspelt", with("time_out: 5s"), ":9:1:", "did you mean timeout?"},
		{"a member that is unknown", with("shell: /bin/sh"), ":9:1:", "there are name, version"},
		{"a member of an action that is misspelt", swap("schema:", "shcema:"), ":8:5:", "did you mean schema?"},
		{"a member that comes twice", with("name: other"), ":9:", "already defined"},
		{"no name", swap("name: probe\n", ""), ":1:1:", `has no "name"`},
		{"an empty name", swap("name: probe", "name:"), ":1:", "name: must be text, and this is nothing"},
		{"a name in capitals", swap("name: probe", "name: Probe"), ":1:7:", "words of a-z"},
		{"a name with control characters", swap("name: probe", `name: "pro\x1b[2Jbe"`), ":1:7:", `pro\x1b[2Jbe`},
		{"a name that leads elsewhere", swap("name: probe", "name: ../probe"), ":1:7:", "no name"},
		{"a name that is not the file's", swap("name: probe", "name: prove"), ":1:7:", `found as "probe"`},
		{"a number for a name", swap("name: probe", "name: 7"), ":1:7:", "put it in quotes"},
		{"a description of two lines", swap("Does what the test says.", `"a\nb"`), ":3:14:", "more than one line"},
		{"a description that reorders what stands beside it", swap("Does what the test says.", "\"a\\u202eb\""), ":3:14:", `\u202e`},
		{"a description without end", swap("Does what the test says.", strings.Repeat("x", 2000)), ":3:14:", "more than 1000 characters"},
		{"an executable elsewhere", swap("executable: probe", "executable: ../../bin/sh"), ":4:13:", "beside the manifest"},
		{"an executable with an absolute path", swap("executable: probe", "executable: /bin/sh"), ":4:13:", "beside the manifest"},
		{"an executable of the search path", swap("executable: probe", "executable: sh"), ":4:13:", "no such file beside the manifest"},
		{"an executable that is a shell line", swap("executable: probe", "executable: probe; id"), ":4:13:", "not the name of a file"},
		{"an executable that is a folder", swap("executable: probe", "executable: folder"), ":4:13:", "not a regular file"},
		{"an executable that is a link", swap("executable: probe", "executable: link"), ":4:13:", "not a regular file"},
		{"an executable that is not executable", swap("executable: probe", "executable: x.json"), ":4:13:", "chmod +x"},
		{"an executable that all can write to", swap("executable: probe", "executable: open"), ":4:13:", "chmod go-w"},
		{"no actions", "name: probe\nversion: v\ndescription: d\nexecutable: probe\n", ":1:1:", `has no "actions"`},
		{"an empty list of actions", "name: probe\nversion: v\ndescription: d\nexecutable: probe\nactions: []\n", ":5:10:", "one action at least"},
		{"ten thousand actions", "name: probe\nversion: v\ndescription: d\nexecutable: probe\n" + actions(10_000), "", "KiB"},
		{"a hundred actions", "name: probe\nversion: v\ndescription: d\nexecutable: probe\n" + actions(100), ":6:", "more than 64"},
		{"two actions of one name", good + "  - {name: go, description: d, schema: {type: object}}\n", ":9:12:", "two actions"},
		{"a schema that is no object's", swap("{type: object}", "{type: string}"), ":6:", "must describe an object"},
		{"a schema that is no schema", swap("{type: object}", "{type: object, properties: 7}"), ":6:", "schema"},
		{"a schema that asks another machine", swap("{type: object}", `{type: object, properties: {a: {$ref: "http://127.0.0.1/x"}}}`), ":6:", "only references within"},
		{"a schema that reads a file", swap("{type: object}", `{type: object, properties: {a: {$ref: "file:///etc/passwd"}}}`), ":6:", "only references within"},
		{"a schema elsewhere", swap("{type: object}", "../x.json"), ":8:13:", "beside the manifest"},
		{"a schema's file that is not there", swap("{type: object}", "y.json"), ":8:13:", "no such file"},
		{"a schema's file that is not JSON", swap("{type: object}", "probe"), ":8:13:", "not JSON"},
		{"a schema's file that is a link", swap("{type: object}", "link"), ":8:13:", "not a regular file"},
		{"a path that the schema does not have", good + "    paths: [path]\n", ":6:", "path"},
		{"a command that the schema does not have", good + "    command: line\n", ":6:", "line"},
		{"a risk that there is not", good + "    risk: none\n", ":9:11:", "there are read-only"},
		{"a risk that is misspelt", good + "    risk: read_only\n", ":9:11:", "did you mean read-only?"},
		{"a time without a unit", with("timeout: 60"), ":9:10:", "such as 60s"},
		{"a time that is too long", with("timeout: 61m"), ":9:10:", "between 1ms and 1h"},
		{"a time that is negative", with("timeout: -1s"), ":9:10:", "between"},
		{"an output that is too large", with("max_output: 1000MiB"), ":9:13:", "between 1 KiB and 8 MiB"},
		{"an output that overflows", with("max_output: 99999999999999999999MiB"), ":9:13:", "between"},
		{"a need that there is not", with("needs: [root]"), ":9:9:", "there are network"},
		{"a need that no sandbox has", with("needs: [network, services]"), ":9:8:", "say run: host"},
		{"a place that there is not", with("run: kernel"), ":9:6:", "there are sandbox, host"},
		{"a variable of Airlock's", with("env: [AIRLOCK_TOOL]"), ":9:7:", "are Airlock's"},
		{"a variable that is none", with("env: [A=b]"), ":9:7:", "not the name of a variable"},
		{"an anchor", swap("{type: object}", "&a {type: object}"), ":8:13:", "anchors"},
		{"a tag", swap("{type: object}", "!!map {type: object}"), ":8:13:", "tags"},
		{"a bomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n", ":1:4:", "anchors"},
		{"very many brackets", strings.Repeat("[", 10_000), ":1:33:", "nested more than 32 deep"},
		{"very many dashes", strings.Repeat("- ", 10_000), ":1:", "nested more than 32 deep"},
		{"a NUL", "name: a\x00b\n", ":1:8:", "control character (U+0000)"},
		{"an escape", "name: a\n# \x1b[2J\n", ":2:3:", "control character (U+001B)"},
		{"bytes that are no text", "name: a\xff\n", ":1:8:", "not UTF-8"},
		{"a number of YAML's that JSON has not", swap("{type: object}", "{type: object, default: .inf}"), ":8:", "not taken here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, map[string]string{
				"probe.yaml": tt.manifest, "probe*": "#!/bin/sh\n", "x.json": `{"type":"object"}`, "open*": "", "folder/x": "",
				"other.yaml": strings.ReplaceAll(good, "probe", "other"), "other*": "#!/bin/sh\n",
			})
			if err := errors.Join(os.Symlink("/bin/sh", filepath.Join(dir, "link")), os.Chmod(filepath.Join(dir, "open"), 0o777)); err != nil {
				t.Fatal(err)
			}
			tools, problems := plugin.Load([]string{dir}, nil)
			if len(tools) != 1 || tools[0].Info().Name != "other" {
				t.Errorf("Load gave %d tools, want the other one alone", len(tools))
			}
			if len(problems) != 1 {
				t.Fatalf("problems = %v, want one", problems)
			}
			text := problems[0].Error()
			wantAll(t, text, filepath.Join(dir, "probe.yaml")+":", tt.at, tt.says)
			for _, r := range text {
				if r < ' ' || r == '\u202e' {
					t.Errorf("the problem has %U: %q", r, text)
				}
			}
		})
	}
}

func wantAll(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q has no %q", text, want)
		}
	}
}

func TestWhatAManifestSaysIsWhatTheGateIsTold(t *testing.T) {
	for _, tt := range []struct {
		name, lines, action string
		risk                tool.Risk
		place               tool.Place
	}{
		{"a claim is shown in the sandbox", "", "risk: read-only", tool.RiskReadOnly, tool.AnyPlace},
		{"no claim is unknown", "", "", tool.RiskUnknown, tool.AnyPlace},
		{"who needs the network uses it", "needs: [network]", "risk: read-only", tool.RiskNetwork, tool.AnyPlace},
		{"who names hosts speaks to them", "", "risk: read-only\n    hosts: [h]", tool.RiskNetwork, tool.AnyPlace},
		{"a claim that is worse stays", "needs: [network]", "risk: writes-outside", tool.RiskWritesOutside, tool.AnyPlace},
		{"on the host a harmless claim is worth nothing", "run: host", "risk: read-only", tool.RiskUnknown, tool.HostOnly},
		{"on the host a worse claim counts", "run: host", "risk: destructive", tool.RiskDestructive, tool.HostOnly},
		{"the host's own needs are handed on", "run: host\nneeds: [services, packages, hardware, processes, network]", "risk: service", tool.RiskUnknown, tool.HostOnly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, "{type: object}", "{type: object, properties: {h: {type: string}}}", 1)
			if tt.action != "" {
				text += "    " + tt.action + "\n"
			}
			dir := folder(t, map[string]string{"probe.yaml": text + tt.lines + "\n", "probe*": ""})
			tools, problems := plugin.Load([]string{dir}, nil)
			if len(tools) != 1 {
				t.Fatalf("Load: %v", problems)
			}
			a := tools[0].Info().Actions[0]
			if a.Risk != tt.risk || a.Place != tt.place {
				t.Errorf("risk %q, place %q, want %q, %q", a.Risk, a.Place, tt.risk, tt.place)
			}
			if n := strings.Count(tt.lines, ",") + 1; strings.Contains(tt.lines, "needs") && len(a.Needs) != n {
				t.Errorf("needs %v, want %d", a.Needs, n)
			}
		})
	}
}

func TestWhereManifestsAre(t *testing.T) {
	named := func(name string) string { return strings.ReplaceAll(good, "probe", name) }
	dir := folder(t, map[string]string{
		"b.yaml": named("b"), "b*": "", "a/plugin.yaml": named("a"), "a/a*": "", "a/more/plugin.yaml": "not looked at",
		"README.md": "", "lib/x.py": "", ".hidden.yaml": "", ".git/plugin.yaml": "",
		"c.yml": named("c"), "real/plugin.yaml": named("real"), "real/real*": "",
	})
	if err := os.Symlink("real", filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	tools, problems := plugin.Load([]string{dir, dir + "/."}, nil)
	var names []string
	for _, tl := range tools {
		info := tl.Info()
		names = append(names, info.Name)
		if info.Kind != tool.Plugin || !strings.Contains(info.Source, dir) || !strings.Contains(info.Source, "1.10") {
			t.Errorf("%s: kind %q, source %q", info.Name, info.Kind, info.Source)
		}
	}
	if got := strings.Join(names, " "); got != "a b real" {
		t.Errorf("plugins = %q, want a, b and real", got)
	}
	if len(problems) != 2 {
		t.Fatalf("problems = %v, want two", problems)
	}
	wantAll(t, problems[0].Error(), "c.yml", "rename it")
	wantAll(t, problems[1].Error(), "linked", "symbolic link")

	if tools, problems := plugin.Load([]string{filepath.Join(dir, "a")}, nil); len(tools) != 1 || len(problems) != 0 {
		t.Errorf("the folder of one plugin: %d tools, %v", len(tools), problems)
	}
}

func TestNobodyTakesAnothersName(t *testing.T) {
	files := map[string]string{"probe.yaml": good, "probe*": ""}
	one, two := folder(t, files), folder(t, files)
	tools, problems := plugin.Load([]string{one, two}, nil)
	if len(tools) != 1 || !strings.Contains(tools[0].Info().Source, one) {
		t.Errorf("the first did not stay: %d tools", len(tools))
	}
	if len(problems) != 1 {
		t.Fatalf("problems = %v, want one", problems)
	}
	wantAll(t, problems[0].Error(), two, ":1:7:", one, "another name")

	tools, problems = plugin.Load([]string{one}, &plugin.Options{Taken: []string{"probe"}})
	if len(tools) != 0 || len(problems) != 1 {
		t.Fatalf("a built-in's name: %d tools, problems %v", len(tools), problems)
	}
	wantAll(t, problems[0].Error(), `there is a tool "probe" already`)

	for _, taken := range []string{"probe.read", "probe.a.b"} {
		tools, problems = plugin.Load([]string{one}, &plugin.Options{Taken: []string{taken}})
		if len(tools) != 0 || len(problems) != 1 {
			t.Fatalf("the family of %s: %d tools, problems %v", taken, len(tools), problems)
		}
		wantAll(t, problems[0].Error(), ":1:7:", "another word")
	}
	if tools, problems = plugin.Load([]string{one}, &plugin.Options{Taken: []string{"pro.be", "probes"}}); len(tools) != 1 {
		t.Errorf("names that are only alike: %v", problems)
	}
}

func TestFoldersThatAreRefused(t *testing.T) {
	files := map[string]string{"probe.yaml": good, "probe*": ""}
	t.Run("one that is absent", func(t *testing.T) {
		dir := filepath.Join(folder(t, files), "no")
		_, problems := plugin.Load([]string{dir}, nil)
		if len(problems) != 1 || !errors.Is(&problems[0], fs.ErrNotExist) {
			t.Errorf("problems = %v, want that it is not there", problems)
		}
		if _, problems := plugin.Load([]string{dir}, &plugin.Options{Optional: []string{dir}}); len(problems) != 0 {
			t.Errorf("an optional one: %v", problems)
		}
	})
	t.Run("one that cannot be read", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("the superuser can read every folder")
		}
		dir, other := folder(t, files), folder(t, map[string]string{"x.yaml": strings.ReplaceAll(good, "probe", "x"), "x*": ""})
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
		tools, problems := plugin.Load([]string{dir, other}, nil)
		if len(tools) != 1 || len(problems) != 1 || !errors.Is(&problems[0], fs.ErrPermission) {
			t.Errorf("%d tools, problems %v", len(tools), problems)
		}
	})
	t.Run("a link to itself", func(t *testing.T) {
		loop := filepath.Join(t.TempDir(), "loop")
		if err := os.Symlink("loop", loop); err != nil {
			t.Fatal(err)
		}
		tools, problems := plugin.Load([]string{loop, folder(t, files)}, nil)
		if len(tools) != 1 || len(problems) != 1 {
			t.Errorf("%d tools, problems %v", len(tools), problems)
		}
	})
	t.Run("a file in its place", func(t *testing.T) {
		_, problems := plugin.Load([]string{filepath.Join(folder(t, files), "probe")}, nil)
		if len(problems) != 1 {
			t.Errorf("problems = %v, want one", problems)
		}
	})
	for name, mode := range map[string]os.FileMode{"one that all can write to": 0o777, "one that all can write to, with the sticky bit": 0o777 | os.ModeSticky} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, files)
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			tools, problems := plugin.Load([]string{dir}, nil)
			if len(tools) != 0 || len(problems) != 1 {
				t.Fatalf("%d tools, problems %v", len(tools), problems)
			}
			wantAll(t, problems[0].Error(), "chmod go-w")
		})
	}
	t.Run("one of very many files", func(t *testing.T) {
		many := map[string]string{}
		for i := range 1200 {
			many[fmt.Sprint(i)] = ""
		}
		_, problems := plugin.Load([]string{folder(t, many)}, nil)
		if len(problems) != 1 {
			t.Errorf("problems = %v, want one", problems)
		}
	})
	t.Run("one with a name that would draw on the terminal", func(t *testing.T) {
		dir := filepath.Join(folder(t, files), "a\x1b[2J")
		_, problems := plugin.Load([]string{dir}, nil)
		if len(problems) != 1 || strings.Contains(problems[0].Error(), "\x1b") {
			t.Errorf("problems = %v", problems)
		}
	})
}

func TestAnotherUsersFilesAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can give files away")
	}
	for _, name := range []string{"probe", "probe.yaml", "."} {
		dir := folder(t, map[string]string{"probe.yaml": good, "probe*": ""})
		if err := os.Chown(filepath.Join(dir, name), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		tools, problems := plugin.Load([]string{dir}, nil)
		if len(tools) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Text, "another user") {
			t.Errorf("%s of another user: %d tools, problems %v", name, len(tools), problems)
		}
	}
}

func TestManifestsThatAreTaken(t *testing.T) {
	for name, manifest := range map[string]string{
		"a schema in a file":                 strings.Replace(good, "{type: object}", "args.json", 1) + "    paths: [at]\n",
		"a size in bytes":                    good + "max_output: 2048\n",
		"a size with its unit":               good + "max_output: 8 MiB\n",
		"an executable in this folder":       strings.Replace(good, "executable: probe", "executable: ./probe", 1),
		"variables":                          good + "env: [HTTP_PROXY, _x1]\n",
		"a description in a block":           strings.Replace(good, "Does what the test says.", ">\n  Does what\n  the test says.", 1),
		"Windows' ends of lines":             strings.ReplaceAll(good, "\n", "\r\n"),
		"JSON":                               `{"name":"probe","version":"1","description":"d","executable":"probe","actions":[{"name":"go","description":"d","schema":{"type":"object","properties":{"n":{"enum":[null,1,-2.5,true,"x",[]]}}}}]}`,
		"definitions that the schema refers": strings.Replace(good, "{type: object}", `{type: object, properties: {a: {$ref: "#/definitions/a"}}, definitions: {a: {type: string}}}`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"probe.yaml": manifest, "probe*": "", "args.json": `{"type":"object","properties":{"at":{"type":"string"}}}`})
			tools, problems := plugin.Load([]string{dir}, nil)
			if len(tools) != 1 || len(problems) != 0 {
				t.Fatalf("%d tools, problems %v", len(tools), problems)
			}
			if _, err := tool.NewRegistry(tools...); err != nil {
				t.Errorf("the registry does not take it: %v", err)
			}
		})
	}
}
