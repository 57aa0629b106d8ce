// Package sandbox runs a test of sockets in a network of its own: Linux user
// and network namespaces in which the test has privileges, and in which no
// other process uses port 4791.
//
// Reading order: sandbox_linux.go, tap_linux.go, place_linux.go.
//
// The package is for tests only.
package sandbox
