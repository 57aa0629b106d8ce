// Package userdir finds the directory in which the adapters of a user keep what they share: images
// of /sys and tables of objects. No other user can list or write it.
//
// Everything is in userdir_linux.go.
package userdir
