// Package frames watches the wire between our adapter and a guest: it takes
// each RoCE packet from the tap interface, and checks its ICRC bit by bit, in
// code that shares nothing with the adapter's.
//
// Reading order: frame.go (what a frame is), icrc.go, pcap.go, tap.go, then what
// frames tell together: cm.go, answers.go, again.go, count.go.
//
// The package sends nothing but its own mark, and changes nothing.
package frames
