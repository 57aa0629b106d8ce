// Package pcapfile reads the RoCEv2 packets of a capture file, pcap or pcapng,
// for any common link layer, and what an adapter of softhca has written about itself between them.
//
// Reading order: reader.go (files and records), blocks.go (which parts of a
// pcapng file are read), frame.go (from a link-layer frame to the UDP payload), entry.go (the
// lines of an adapter's log), join.go (several captures in the order of time), writer.go.
//
// The package never looks into the UDP payload, never follows IP fragments and never trusts a
// length in the file: memory is bounded by one record and the bound on a section's interface
// descriptions, and damaged input gives an error or a skipped record.
package pcapfile
