// Command attacks runs the attack tests: strangers, other users, hostile peers and hostile
// members, longer than the gate does. It prints the outcome of each group and, of a group that
// fails, what the tests said.
//
// Reading order: main.go (the groups and how they run). It never changes anything outside of the
// directories that the tests make.
package main
