// Package nodes is what ucmatose, udaddy and mckey of rdmacm-utils have in
// common. Each connects a number of nodes at once: an ID with its queue pair,
// all on one event channel. Then each node sends or receives its messages, and
// at the end the test says what status it returns.
//
// Reading order: program.go (what is transferred, Run, the status), test.go (Test:
// the nodes of a run, its lines and its waits), node.go.
//
// The package decides nothing about the order of a test: the programs do. It
// opens no adapter.
package nodes
