// Command softhca is the software RDMA adapter as a command: a demonstration,
// the adapters of this host, programs of others run over one, the table of queue
// pair states, ping-pong and performance tests that also talk to Linux's own
// programs, a decoder of captured packets, and protocol scripts played for people.
//
// Reading order: main.go, root.go (the command tree, the flags that all
// commands have, exit codes), then a file for each command. What a command
// does is in the packages below internal, which know nothing of flags.
//
// The exit code is 0 only if everything that was asked for succeeded, 1 if
// something failed, 2 if the command line was wrong; of run it is that of the
// program, or 125 to 127 if that could not be run.
package main
