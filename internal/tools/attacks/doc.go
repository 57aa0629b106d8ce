// Command attacks runs the attack tests: strangers, other users, hostile peers and hostile
// members, longer than the gate does. It prints the outcome of each group and the test output
// of a group that fails.
//
// Reading order: main.go (the groups and how they run). It never changes anything outside the
// tests' own directories.
package main
