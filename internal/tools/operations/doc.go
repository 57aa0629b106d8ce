// Command operations writes the engine's table of work requests in C, for the library that
// posts them without calling the engine: capi/libibverbs/operations.h.
//
// Usage:
//
//	go run ./internal/tools/operations [-root DIR]
//
// Reading order: main.go is all of it.
package main

//go:generate go run . -root ../../..
