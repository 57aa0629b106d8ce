// Package remote is the protocol between the runner and the agent in a guest:
// one TCP connection per command, frames in both directions, and the result.
//
// Reading order: frame.go, transcript.go.
//
// The package opens no connection and starts no program.
package remote
