// Package file keeps the table of an adapter (internal/restrack) in a file, so that other processes
// can map it while the adapter runs, and still after its process was killed, and finds the tables
// of other processes.
//
// Only the user of the adapter, and root, can read a table, except in a directory that the
// administrator names in SOFTHCA_TABLES. A reader does not trust a table: its owner may change or
// truncate the file at any time.
//
// Reading order: file.go (what it is on every system), create_linux.go (the writer's side),
// find_linux.go (directories and the state of a table's process), open_linux.go (the reader's side).
package file
