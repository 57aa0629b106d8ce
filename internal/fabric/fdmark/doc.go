// Package fdmark marks the descriptors that an adapter opens, so that a program in C can be
// kept from closing them: servers close all descriptors that they do not know. The mark is
// the signal of the open file (F_SETSIG), which has no effect on files that send none. The
// kernel keeps it: duplicates carry it, and so do descriptors passed between processes.
//
// Everything is in mark_linux.go. The package keeps no list and closes nothing of its own
// accord: the preload library of capi asks for marks when the program closes descriptors.
package fdmark
