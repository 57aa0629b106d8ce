// Package report writes what became of the cases of the interop runner, for
// people in Markdown and for machines in JSON.
//
// Reading order: report.go, markdown.go.
package report
