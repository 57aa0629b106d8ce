// Package rules holds the rules of the code base that a machine can check:
// which package may import which, what the engine must not use, sizes,
// names and documentation. Its own test applies every rule to the module,
// and shows for every rule a source that it rejects.
//
// Reading order: levels.go (the table of packages), module.go (what is
// read), then the rules: imports.go, engine.go, state.go, writes.go, sizes.go,
// words.go, public.go, tests.go, bounds.go, csource.go (of C); rules.go lists them. nil.go is for the tests of
// public packages.
//
// The package reads sources of every operating system, whatever the build
// tags, and never runs a tool.
package rules
