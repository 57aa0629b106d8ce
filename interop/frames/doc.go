// Package frames watches the wire between our adapter and a guest: it takes
// each RoCE packet from the tap interface, and checks its ICRC bit by bit, in
// code that shares nothing with the adapter's.
//
// Reading order: frame.go (a frame), icrc.go, pcap.go, tap.go, then checks over
// many frames: cm.go, answers.go, again.go, count.go.
//
// The package sends only its own mark, and changes no packet.
package frames
