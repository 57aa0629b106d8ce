// Package play plays protocol scripts for people: it prints what a script
// provokes and all that happens while it runs.
//
// It reads no file itself and opens no adapter on a network.
package play
