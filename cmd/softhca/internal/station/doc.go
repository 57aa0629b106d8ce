// Package station gives a command that connects through the connection
// manager what it stands on: names turned into addresses, the adapter that has
// the right one, its connection manager, and waits that end: for events, for
// completions, and for either.
//
// Reading order: station.go (Opener, Station), lookup.go (host names, service
// names, the source by route), queue.go, event.go.
//
// The package knows no flags and prints nothing.
package station
