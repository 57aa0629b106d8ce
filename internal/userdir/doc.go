// Package userdir finds the directory in which the adapters of a user keep what they share: images
// of /sys and tables of objects. No other user has access to it.
//
// Everything is in userdir_linux.go.
package userdir
