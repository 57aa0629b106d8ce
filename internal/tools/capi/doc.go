// Command capi builds the C libraries for running unmodified programs into a
// directory:
//
//	go run ./internal/tools/capi DIRECTORY
//
// Reading order: main.go is all of it. What is built from what is in
// internal/libraries.
package main
