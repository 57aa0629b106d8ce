// Package netns gives the interop runner its own network, process and mount
// namespaces, which end with its process, with a tap interface and a directory
// for files.
//
// Reading order: enter.go (outside), network.go (inside).
//
// Names in it cannot collide with another run's, and nothing stays behind: the
// kernel kills all processes of a process namespace when its first process
// ends, for whatever reason, and then removes the network.
package netns
