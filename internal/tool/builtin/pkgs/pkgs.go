// Package pkgs is the tools that are about the system's packages: pkg.manage, which
// installs, removes, updates, upgrades and searches them, and packages, which lists those
// that are installed. They work on any Machine with one of the package managers in the
// table of managers.go, whatever kind of place it is.
//
// A package's name reaches a manager as one argument of its own, behind "--" where the
// manager knows that, and only if it is a name by the manager's grammar: never an option,
// a file, an address or a pattern. There is no shell.
package pkgs

import (
	"encoding/json"
	"time"

	"airlock/internal/tool"
)

// Options are the tools' settings. The zero value of each field is its default.
type Options struct {
	// MaxTime bounds one run of a package manager; 0 is 30 minutes.
	MaxTime time.Duration
}

const defaultMaxTime = 30 * time.Minute

func (o *Options) maxTime() time.Duration {
	if o == nil || o.MaxTime <= 0 {
		return defaultMaxTime
	}
	return o.MaxTime
}

// Tools returns the tools of this package with their default settings.
func Tools() []tool.Tool { return []tool.Tool{NewManage(nil), NewList(nil)} }

// Members of a Result's Meta.
const (
	MetaManager   = "manager"            // the package manager's name, such as "apt"
	MetaInstalled = "packages_installed" // of the names asked for, those that are installed now
	MetaRemoved   = "packages_removed"   // all that were installed before and are not now
	MetaAdded     = "packages_added"     // all that were not installed before and are now
	MetaUpgraded  = "packages_upgraded"  // all whose version is another now
	MetaSimulated = "simulated"          // true: nothing was done
	MetaCount     = "count"              // of the packages that are listed
	MetaTotal     = "total"              // of those that there are
	MetaTruncated = "truncated"          // whether total is more than count
)

// A name begins with a letter, a digit or _: the rest of each manager's grammar is checked
// when it is known which one it is.
const namesSchema = `{"type": "array", "minItems": 1, "maxItems": 100, "description": "Names of packages, with a version where the package manager knows such names (nginx=1.24.0)",
	"items": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9_]"}}`

const yesSchema = `{"type": "boolean", "default": false, "description": "true: do it. false: say what would be done, and do nothing"}`

var manageInfo = tool.Info{
	Name:        "pkg.manage",
	Description: "Installs, removes, updates, upgrades and searches packages with the system's package manager (apt, dnf, yum, zypper, pacman, apk or brew).",
	Kind:        tool.Builtin,
	Actions: []tool.Action{
		changing("install", "Installs packages. Those that are installed already stay.",
			`{"type": "object", "properties": {"packages": `+namesSchema+`, "assume_yes": `+yesSchema+`}, "required": ["packages"], "additionalProperties": false}`),
		changing("remove", "Removes packages, and what cannot be without them; their settings stay where the package manager keeps them.",
			`{"type": "object", "properties": {"packages": `+namesSchema+`, "assume_yes": `+yesSchema+`}, "required": ["packages"], "additionalProperties": false}`),
		changing("update", "Fetches the newest lists of packages. No package changes.",
			`{"type": "object", "properties": {"assume_yes": `+yesSchema+`}, "additionalProperties": false}`),
		changing("upgrade", "Upgrades the packages named, or without names all of them, to the newest version in the lists.",
			`{"type": "object", "properties": {"packages": `+namesSchema+`, "assume_yes": `+yesSchema+`}, "additionalProperties": false}`),
		{
			Name:        "search",
			Description: "Searches the lists of packages. A line each: name, version, description, with tabs between.",
			Schema: json.RawMessage(`{"type": "object", "properties": {
				"query": {"type": "string", "minLength": 1, "maxLength": 200, "description": "One or a few words that names or descriptions have"},
				"max": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100, "description": "The most packages to list"}
			}, "required": ["query"], "additionalProperties": false}`),
			Risk: tool.RiskReadOnly,
		},
	},
}

func changing(name, description, schema string) tool.Action {
	return tool.Action{
		Name: name, Description: description, Schema: json.RawMessage(schema),
		Risk: tool.RiskPackage, Needs: []tool.Need{tool.NeedPackages},
	}
}

var listInfo = tool.Info{
	Name:        "packages",
	Description: "Lists the packages that are installed.",
	Kind:        tool.Builtin,
	Actions: []tool.Action{{
		Name:        "list",
		Description: "A line each, by name: name and version, with a tab between.",
		Schema: json.RawMessage(`{"type": "object", "properties": {
			"filter": {"type": "string", "minLength": 1, "maxLength": 256, "description": "Only names that match this pattern, in which * is any text and ? any character"},
			"max": {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1000, "description": "The most packages to list"}
		}, "additionalProperties": false}`),
		Risk:  tool.RiskReadOnly,
		Place: tool.HostOnly,
	}},
}
