// Package sites counts what the processes of a run do that can fail on demand: calls of verbs and work requests.
// softhca explore makes each of them fail once.
//
// Each process has a file in the directory of the run, with counters in memory that it shares with the file. So the
// counts are there however the process ends. Files are read as data from strangers: a program may write anything.
//
// Reading order: log.go is the file and its layout, open_linux.go creates one, read.go reads all.
package sites
