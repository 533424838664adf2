//go:build !cgo

package gvisor

// builtWithCgo says whether this program may need a dynamic linker.
const builtWithCgo = false
