// Command bench measures the adapter end to end, beside the ceiling: the
// program bench/baseline, which moves the same segments over UDP without
// RDMA. Both run in turns, as two processes over loopback, in several rounds;
// only the ratio of two neighbours counts, since machines differ and are
// never quiet.
//
// Usage:
//
//	go run ./bench [-rounds 3] [-seconds 2] [-only NAME] [-before PROGRAM] [-no-targets] [-results DIR]
//
// With -before, an older build of softhca is measured in the same rounds.
//
// It prints a table and writes bench/results/DATE-MACHINE.json. The exit code
// is 1 if a target is missed or a measurement fails.
//
// Programs that sleep are measured with softhca pingpong --events.
//
// Reading order: cases.go (what is measured, and the targets), main.go,
// programs.go (building and running both sides), series.go (medians and
// spread), report.go, machine.go.
package main
