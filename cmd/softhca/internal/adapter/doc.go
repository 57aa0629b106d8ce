// Package adapter gives a program its adapter and what stands on it: names
// turned into addresses, the adapter that has the right one, its connection
// manager, the objects that the program makes, and waits that end: for events,
// for completions, and for either.
//
// Reading order: adapter.go (Opener, Adapter), lookup.go (host names, service
// names, the source by route), resources.go (objects and their end, states of
// queue pairs), event.go (waits), conn.go (a connection).
//
// The package knows no flags and prints nothing.
package adapter
