//go:build !linux

package main

// keepMemory does nothing here: there are no sandboxes.
func keepMemory() {}
