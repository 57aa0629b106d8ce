// Package explore runs a program again and again, each time with one thing going wrong, and judges how the program ends.
//
// A first run records what can fail (internal/fault/sites): calls, work requests and packets. Each fault is a rule of
// internal/fault that is limited to one process. A run under a fault is compared with the first run: it may end well, end
// with an error, crash, hang, or break a rule of the verbs that it did not break before.
//
// Reading order: faults.go plans the faults; run.go and run_linux.go run the program once, and jobs_linux.go does it in a
// network of its own; hung_linux.go examines a program that hangs (package stacks); verdict.go judges a run; series.go
// makes all runs; explore.go brings these together. report.go has the report, junit.go writes it as JUnit does, earlier.go
// continues and compares earlier ones, oracle_linux.go runs the user's command.
package explore
