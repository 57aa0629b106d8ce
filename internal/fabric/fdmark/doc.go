// Package fdmark marks the descriptors that an adapter opens, so that a program in C can be
// kept from closing them: servers close all descriptors that they do not know. The mark is
// the signal of the open file (F_SETSIG), which has no effect on files that send none. The
// kernel keeps it: copies have it, and so have descriptors that another process passes.
//
// Everything is in mark_linux.go. The package keeps no list and closes nothing of its own
// accord: the preload library of capi asks for marks when the program closes descriptors.
package fdmark
