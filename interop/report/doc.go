// Package report writes the results of the interop runner, in Markdown and in
// JSON.
//
// Reading order: report.go, markdown.go.
package report
