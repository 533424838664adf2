//go:build !linux

package main

func unmountNet(string) {}
