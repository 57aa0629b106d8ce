// Package trace defines records of an adapter's activity: packets, state
// changes, completions, events, retries. A record is a fixed-size value; how it
// is shown (text, JSON, a ladder) is up to the reader.
//
// The package stores no records: a tracer copies what it needs.
package trace
