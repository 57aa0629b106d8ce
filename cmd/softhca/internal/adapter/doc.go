// Package adapter gives a program its adapter: it looks up names, opens the adapter
// with the right address and its connection manager, creates the program's objects,
// and waits for a completion or an event.
//
// Reading order: adapter.go (Opener, Adapter), lookup.go (host names, service
// names, the source by route), resources.go (objects and their end, states of
// queue pairs), event.go (waits, failures).
//
// The package uses no flags and prints nothing.
package adapter
