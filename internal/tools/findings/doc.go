// Command findings writes the table of findings of "softhca run --check" in C, for the library
// that finds them, and as a page for people: capi/libibverbs/findings.h and docs/checks.md.
//
// Usage:
//
//	go run ./internal/tools/findings [-root DIR]
//
// Reading order: main.go, page.go.
package main

//go:generate go run . -root ../../..
