// Package eventlog writes the records of an adapter to a structured log, one line for each event.
//
// A line of a queue pair names the connection as conn=ADDRESS/QPN-ADDRESS/QPN, the smaller end
// first: both ends of a connection log the same text, so one search finds the lines of both.
//
// Events that come too often are left out and counted; see limit.go.
package eventlog
