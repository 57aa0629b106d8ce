// Command softhca is the software RDMA adapter as a command: a demonstration,
// the adapters of this host, programs of others run over one, the table of queue
// pair states, ping-pong and performance tests that also talk to Linux's own
// programs, a decoder of captured packets, and protocol scripts played for people.
//
// Reading order: main.go, root.go (the command tree, the flags that all
// commands have, exit codes), then a file for each command. The packages below
// internal do the work of the commands and do not use flags.
//
// The exit code is 0 only if the whole command succeeded, 1 if something failed,
// 2 if the command line was wrong. The exit code of run is that of the program,
// or 125 to 127 if the program could not be run.
package main
