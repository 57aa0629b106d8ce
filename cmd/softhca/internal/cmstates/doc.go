// Package cmstates shows the machines of the connection manager: what each
// message, call and timer does in each state (C6).
//
// Reading order: cmstates.go (the states, the table and JSON), dot.go (the
// graph).
//
// The package has no machine of its own: it reads the one that the adapter executes.
package cmstates
