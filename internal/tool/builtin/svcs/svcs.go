// Package svcs is the tools that are about the machine's services: svc.manage, which
// starts, stops and sets them up, and services, which lists them. They speak to the service
// manager that runs (systemd, OpenRC or launchd) through its own program.
//
// A service's name reaches that program as one argument, and only if it is a service's name
// by the manager's grammar: never an option, a path or a pattern, and never one of the units
// that turn the machine off. There is no shell.
package svcs

import (
	"encoding/json"
	"time"

	"airlock/internal/tool"
)

// Options are the tools' settings. The zero value of each field is its default.
type Options struct {
	// MaxTime bounds one call; 0 is 5 minutes.
	MaxTime time.Duration
}

const defaultMaxTime = 5 * time.Minute

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
	MetaManager   = "manager"         // "systemd", "openrc" or "launchd"
	MetaService   = "service"         // the name that the manager has for it, such as "nginx.service"
	MetaState     = "service_state"   // one of the State… constants
	MetaEnabled   = "service_enabled" // "enabled", "disabled", or another of the manager's words
	MetaCount     = "count"           // of the services that are listed
	MetaTotal     = "total"           // of those that there are
	MetaTruncated = "truncated"       // whether total is more than count
)

// What a service does.
const (
	StateRunning   = "running"
	StateStopped   = "stopped"
	StateFailed    = "failed"
	StateStarting  = "starting"
	StateStopping  = "stopping"
	StateReloading = "reloading"
	StateExited    = "exited" // it did its work and has no process; it counts as started
	StateUnknown   = "unknown"
)

const serviceSchema = `{"type": "object", "properties": {
	"service": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9_:\\\\]", "description": "The service's name, such as nginx or getty@tty1"}
}, "required": ["service"], "additionalProperties": false}`

var manageInfo = tool.Info{
	Name:        "svc.manage",
	Description: "Starts, stops and sets up the machine's services (systemd, OpenRC or launchd).",
	Kind:        tool.Builtin,
	Actions: []tool.Action{
		changing("start", "Starts a service and waits until it has started."),
		changing("stop", "Stops a service and waits until it has stopped."),
		changing("restart", "Stops a service, if it runs, and starts it."),
		changing("reload", "Has a service read its settings again, without an end of its work."),
		{
			Name: "status", Description: "Says what a service does, with the last lines of its log.",
			Schema: json.RawMessage(serviceSchema), Risk: tool.RiskReadOnly, Needs: []tool.Need{tool.NeedServices}, Place: tool.HostOnly,
		},
		changing("enable", "Has a service started whenever the machine starts. It is not started now."),
		changing("disable", "Has a service no longer started whenever the machine starts. It is not stopped now."),
	},
}

func changing(name, description string) tool.Action {
	return tool.Action{
		Name: name, Description: description, Schema: json.RawMessage(serviceSchema),
		Risk: tool.RiskService, Needs: []tool.Need{tool.NeedServices}, Place: tool.HostOnly,
	}
}

var listInfo = tool.Info{
	Name:        "services",
	Description: "Lists the machine's services.",
	Kind:        tool.Builtin,
	Actions: []tool.Action{{
		Name:        "list",
		Description: "A line each, by name: name, state, whether it is enabled, and description, with tabs between.",
		Schema: json.RawMessage(`{"type": "object", "properties": {
			"state": {"enum": ["running", "stopped", "failed", "all"], "default": "running", "description": "Only services in this state"},
			"filter": {"type": "string", "minLength": 1, "maxLength": 256, "description": "Only names that match this pattern, in which * is any text and ? any character"},
			"max": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 500, "description": "The most services to list"}
		}, "additionalProperties": false}`),
		Risk: tool.RiskReadOnly, Needs: []tool.Need{tool.NeedServices}, Place: tool.HostOnly,
	}},
}
