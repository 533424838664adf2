//go:build race

package main_test

// underRace: what the detector watches here is the program's side of a sandbox, which one pass of the tests shows. The
// second, as an ordinary user, runs without it.
const underRace = true
