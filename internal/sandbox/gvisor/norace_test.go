//go:build !race

package gvisor_test

const underRace = false
