// Command check is the gate of the project, and all of it: "make check" and the
// continuous integration call nothing else. It needs Go, and on Linux the
// Debian packages of the step packages, which it installs as root. It prints each step when it begins and
// ends, with its duration, and every 30 seconds in between; at the first failed
// step it prints its output, starts no other, and exits with 1.
//
// Usage:
//
//	go run ./internal/tools/check [-only STEP[,STEP...]] [-fuzztime 10s] [-results FILE] [-list]
//
// Steps that -list prints after the gate's, such as fuzz, run only with -only.
//
// The step proofs reads the results that the step tests wrote last, so
// that it can be run again by itself.
//
// Reading order: main.go (flags, the loop), steps.go (the list of steps),
// tests.go (how the tests run), threads.go (which packages have threads), types.go (other
// platforms), sources.go (checks that need no tool of their own).
package main
