// Package mad is the bytes of management datagrams: the 256 bytes that travel
// between the QP1s of two ports, every message of the communication manager
// in them, and the addressing of the RDMA IP connection manager service. It
// decodes, encodes and describes; it has no connections, no timers and no
// transactions.
//
// Decoding copies: nothing keeps a reference to a datagram. It never fails
// and never panics, whatever the bytes are: reserved bits are ignored, and a
// value that no one defined is kept as the number it is. Encoding sends
// reserved bits as zero and drops the bits of a value that exceed its field.
// Nothing allocates but the functions that make text or errors, nothing
// blocks, and every function is safe for concurrent use on different values.
package mad

// For readers of the source: mad.go (the datagram), header.go with method.go and
// status.go (its first 24 bytes), req.go with path.go, then the other messages,
// each with its enumerations: mra.go, rej.go with rejreason.go, rep.go, rtu.go,
// dreq.go, drep.go, lap.go, apr.go, sidrreq.go, sidrrep.go; layout.go has what
// the layouts share. serviceid.go and ipheader.go are the IP addressing,
// timeout.go the 5-bit codes of time, classport.go what every class answers,
// summary.go and describe.go a line of text for people.
