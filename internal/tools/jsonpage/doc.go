// Command jsonpage writes docs/json.md: the output of the commands of softhca with
// --json, each object with its fields, their types, kinds and meanings. It reads the
// structures that are printed, with the comments of their fields, from the source, so
// the page always agrees with it. A field without a comment, or one whose type is not
// that of its kind, is an error.
//
// Tests in cmd/softhca compare the commands' output with the page.
//
// Usage:
//
//	go run ./internal/tools/jsonpage [-root DIR]
//
// Reading order: main.go, outputs.go (the objects), kind.go (the kinds of values),
// source.go (structures of packages), object.go (their fields), message.go (those of
// the connection manager's messages), page.go.
package main

//go:generate go run . -root ../../..
