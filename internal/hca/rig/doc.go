// Package rig is what tests of queue pairs and adapters stand on: adapters in
// virtual time with the usual objects. A Rig joins two of them; the peer of a
// Solo is the test, which makes every packet that the adapter gets and looks at
// every packet that it sends; a Flight is one message on its way.
//
// Reading order: rig.go, solo.go, signature.go, flight.go.
//
// Nothing here waits or does I/O; only tests import it.
package rig
