//go:build !race

package changes_test

const underRace = false
