// Package fdmark marks the descriptors that an adapter opens. Servers close all descriptors
// that they do not know; the preload library of capi leaves marked ones open. The mark is the
// signal of the open file (F_SETSIG), which has no effect on files that send none. The kernel
// keeps it: duplicates carry it, and so do descriptors passed between processes.
//
// Everything is in mark_linux.go. The package keeps no list of descriptors.
package fdmark
