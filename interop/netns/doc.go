// Package netns gives the interop runner a place of its own: network, process
// and mount namespaces that end with its process, in the network a tap
// interface, and among the mounts a place for files.
//
// Reading order: enter.go (outside), network.go (inside).
//
// Nothing in it has a name that another run could meet, and nothing stays: the
// kernel ends all processes of a process namespace when its first process
// ends, however that happens, and with them goes the network.
package netns
