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

// listens fails: the programs that listen need Linux.
func listens(int) (bool, error) { return false, errNoPath }

// isolate and dropPrivilege do nothing: they need Linux.
func isolate(*exec.Cmd) {}

func dropPrivilege(*exec.Cmd) {}

// runPath fails: it needs Linux.
func runPath(context.Context, float64, []string) error { return errNoPath }
