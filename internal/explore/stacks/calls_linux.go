//go:build !amd64

package stacks

// olderCalls are system calls that newer processors do not have.
var olderCalls = map[int]string{}
