package qp

import "github.com/softhca/softhca/ib"

// chunkSize is how many packets one request of a READ asks for. A READ longer than
// that is asked for in several, so that its responses fit the receive buffer; each
// has its own PSNs, as several READs would. A rest of no more than half a chunk goes
// with the last of them, since each takes a place of the depth.
type chunkSize uint32

// newChunkSize returns a quarter of a window of so many bytes. It depends on the
// path MTU, which a connection keeps.
func newChunkSize(windowBytes, mtu int) chunkSize {
	return max(1, chunkSize(windowBytes)/4/chunkSize(packetCost(uint32(mtu))))
}

// requests returns how many requests a READ, or an atomic, becomes.
func (c chunkSize) requests(w *begunWR) uint32 {
	rest := c / 2
	return uint32(max(1, (chunkSize(w.last.Distance(w.first))+c-rest)/c))
}

// at returns the first and the last PSN of the request that p is in.
func (c chunkSize) at(w *begunWR, p ib.PSN) (first, last ib.PSN) {
	size := uint32(c)
	if w.last.Distance(w.first) < size {
		return w.first, w.last
	}
	n := c.requests(w)
	i := min(p.Distance(w.first)/size, n-1)
	if first = w.first.Add(i * size); i == n-1 {
		return first, w.last
	}
	return first, first.Add(size - 1)
}
