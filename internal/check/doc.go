// Package check makes reports of the records of checked processes: of the bugs that the library
// in C finds in a program under "softhca run --check".
//
// Each process writes a file of records, an object of JSON on each line. Read reads the files of
// a directory, finds the functions and source lines of the stacks, merges what is equal, and hides
// what the user has suppressed. A Report is written as text, JSON, JUnit or SARIF.
//
// The program may have written anything into the files, and a killed process may have cut its
// file off. So everything that is read has a bound, and no text is printed as it is.
//
// Reading order: record.go (the files), read.go, report.go, suppress.go, text.go, junit.go,
// sarif.go. Package findings has the table of what can be found, package symbols finds functions.
package check
