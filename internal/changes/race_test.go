//go:build race

package changes_test

// underRace: a process takes many times as long to start, and two that race for the same
// folder many times as long to get anywhere.
const underRace = true
