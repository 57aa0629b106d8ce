package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/flow"
)

// chunkSize is the number of response packets that one READ request asks for. A
// longer READ is split into several requests, each with its own PSNs, so that the
// responses fit the receive buffer. A remainder of at most half a chunk is added to
// the last request, since each request uses one entry of the peer's READ depth.
type chunkSize uint32

// newChunkSize returns a quarter of a window of windowBytes, in packets of the
// path MTU, which is fixed for a connection.
func newChunkSize(windowBytes, mtu int) chunkSize {
	return max(1, chunkSize(windowBytes)/4/chunkSize(flow.PacketCost(uint32(mtu))))
}

// requests returns the number of requests that a READ or an atomic needs.
func (c chunkSize) requests(w *begunWR) uint32 {
	if c.one(w) {
		return 1
	}
	rest := c / 2
	return uint32(max(1, (chunkSize(w.last.Distance(w.first))+c-rest)/c))
}

// one reports whether w needs one request for certain. Most do, so this comes before the
// divisions.
func (c chunkSize) one(w *begunWR) bool { return w.last.Distance(w.first) < uint32(c) }

// at returns the first and the last PSN of the request that covers p.
func (c chunkSize) at(w *begunWR, p ib.PSN) (first, last ib.PSN) {
	if c.one(w) {
		return w.first, w.last
	}
	size, n := uint32(c), c.requests(w)
	i := min(p.Distance(w.first)/size, n-1)
	if first = w.first.Add(i * size); i == n-1 {
		return first, w.last
	}
	return first, first.Add(size - 1)
}
