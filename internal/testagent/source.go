package testagent

import _ "embed"

// source is the program for the peer's host.
//
//go:embed agent.c
var source string

// Source returns the C source of the program, which compiles with
// "gcc -O2 -o agent agent.c -libverbs".
func Source() string { return source }
