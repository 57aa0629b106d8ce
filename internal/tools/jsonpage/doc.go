// Command jsonpage writes docs/json.md: what the commands of softhca print with
// --json, each object with its fields, their types, kinds and meanings. It reads the
// structures that are printed, with the comments of their fields, from the source, so
// the page cannot say anything else. A field without a comment, or one whose type is
// not that of its kind, is an error.
//
// That the commands print what the page says is tested in cmd/softhca.
//
// Usage:
//
//	go run ./internal/tools/jsonpage [-root DIR]
//
// Reading order: main.go, outputs.go (what is printed), kind.go (what values there
// are), source.go (structures of packages), object.go (their fields), message.go (those
// of the connection manager's messages), page.go.
package main

//go:generate go run . -root ../../..
