// Package libraries knows the C libraries that unmodified programs are run on:
// where an installed command finds them, and how they are built from a source
// tree.
//
// Reading order: build.go (what is built from what), cache.go (builds that a
// command in a source tree makes for itself), find.go.
//
// The package needs a C compiler only when it builds.
package libraries
