// Package printable makes text from outside safe to print: text of a peer, a file, a
// capture, an environment variable or another process, and errors that quote such text.
//
// Everything is in printable.go. A terminal, a browser and a log get no control character
// from outside: no escape sequence, no line end that begins a forged line, no character that
// reverses the direction of the text. The package never prints anything itself.
package printable
