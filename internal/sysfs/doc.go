// Package sysfs makes the picture of an adapter that the kernel would show in
// /sys/class/infiniband and /dev/infiniband: a directory with the same files,
// which the preload library (capi/preload) shows to programs in the place of
// the real ones. Values that move are not in the files. A file says instead in
// which words of the board they stand (device.Board); the board is a file too,
// which the process that has the adapter open maps, and the preload library
// reads when a program opens the file. So they are true at that moment, cost
// nothing while nobody looks, and outlive a program that is killed.
//
// Reading order: description.go (what a picture is of), picture.go (the files),
// words.go (where what moves stands), board.go (the file of the board), place.go
// (where pictures are kept, who uses them, and which are removed).
//
// The package opens no adapter. Pictures are for Linux; elsewhere it only
// checks a Description.
package sysfs
