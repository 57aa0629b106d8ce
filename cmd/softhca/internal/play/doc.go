// Package play plays protocol scripts: it prints the statuses and events that a
// script provokes, and everything that happens while it runs.
//
// It reads no file itself and opens no adapter on a network.
package play
