// Package runs takes apart what a capture has as one packet and is a run of them,
// as the kernel leaves them where it segments what is sent, or joins what arrives. It
// reads no file and keeps nothing.
package runs
