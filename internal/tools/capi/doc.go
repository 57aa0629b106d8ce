// Command capi builds the C libraries that unmodified programs are run on into a
// directory:
//
//	go run ./internal/tools/capi DIRECTORY
//
// Reading order: main.go is all of it. What is built from what is in
// internal/libraries.
package main
