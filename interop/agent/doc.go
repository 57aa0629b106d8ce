//go:build linux

// Command agent is the first process of a guest of the interop runner: it sets
// up the machine and then runs the runner's commands.
//
// Reading order: main.go, boot.go, serve.go.
//
// It is for the guest only: unless it is the first process or started by that,
// it does nothing.
package main
