// Package nodes is the common part of ucmatose, udaddy and mckey of rdmacm-utils.
// Each program connects a number of nodes at once: IDs with their queue pairs, all on
// one event channel. Then each node sends or receives its messages, and at the end
// the test prints its status.
//
// Reading order: program.go (the load, Run, the status), test.go (Test: the nodes of a
// run, its lines and its waits), node.go.
//
// The programs decide the order of a test. The package opens no adapter.
package nodes
