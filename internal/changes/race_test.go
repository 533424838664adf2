//go:build race

package changes_test

// underRace: every child that a crash test starts is a process with the race detector,
// which takes many times as long.
const underRace = true
