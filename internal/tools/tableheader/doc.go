// Command tableheader writes the layout of the table of an adapter's objects (internal/restrack) in
// C, for the preload library, which reads the tables of other processes: capi/preload/restrack.h.
//
// Usage:
//
//	go run ./internal/tools/tableheader [-root DIR]
//
// Reading order: main.go (the header), structs.go (a Go struct in C).
package main

//go:generate go run . -root ../../..
