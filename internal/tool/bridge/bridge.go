// Package bridge makes tools of the agents and scripts that a config.yaml names: each is run
// as docs/bridge.md says, on the host or in a sandbox, and what it prints is its answer.
package bridge
