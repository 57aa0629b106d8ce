// Package rig is the test fixture for queue pairs and adapters: adapters in
// virtual time with the usual objects. A Rig connects two of them. The peer of
// a Solo is the test, which builds every packet for the adapter and checks
// every packet from it. A Flight follows one message.
//
// Reading order: rig.go, solo.go, signature.go, flight.go.
//
// Nothing here waits or does I/O; only tests import it.
package rig
