// Package launch starts the keepers of sandboxes on Linux, one of them ahead of time.
//
// A keeper takes some milliseconds until it can be told what to do: a program of its size has much to set up. So does
// airlock itself. Where the command line says that a sandbox will be needed, its keeper is started before the packages
// that airlock consists of are, and both set up at once. Nothing is decided by that: a keeper without
// a plan does nothing, knows nothing, and ends with its driver.
package launch
