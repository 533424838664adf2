//go:build !race

package main_test

const underRace = false
