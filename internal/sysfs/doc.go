// Package sysfs makes the sysfs image of an adapter: a directory with the files
// that the kernel would show in /sys/class/infiniband and /dev/infiniband. The
// preload library (capi/preload) redirects programs to it.
//
// The image does not contain values that change, such as counters. Its file of
// such a value names words of the board (device.Board), a file that the process
// with the adapter maps into its memory. The preload library reads these words
// when a program opens the file. So the value is current, an update costs no
// system call, and the value survives a process that is killed.
//
// Reading order: description.go (the adapter), image.go (the files of an
// image), words.go (the words of values that change), board.go (the file of the
// board), place.go (which are in use, and which are removed).
//
// The package opens no adapter. Images are for Linux; elsewhere it only checks
// a Description.
package sysfs
