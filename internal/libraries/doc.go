// Package libraries finds the C libraries on which unmodified programs run, and
// builds them from a source tree.
//
// Reading order: build.go (how the libraries are built), cache.go (builds by a
// command in a source tree), find.go.
//
// The package needs a C compiler only when it builds.
package libraries
