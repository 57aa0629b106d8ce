//go:build !linux

package main

import (
	"context"
	"errors"
	"os/exec"
)

var errNoPath = errors.New("network namespaces are Linux's")

// pathMissing returns why there can be no path on this machine.
func pathMissing() string { return "needs Linux: " + errNoPath.Error() }

// userMissing returns why a program cannot run as a user without privilege.
func userMissing() string { return pathMissing() }

// isolate and dropPrivilege do nothing: there is nothing to do it with.
func isolate(*exec.Cmd) {}

func dropPrivilege(*exec.Cmd) {}

// runPath fails.
func runPath(context.Context, float64, []string) error { return errNoPath }
