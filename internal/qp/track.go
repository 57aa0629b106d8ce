package qp

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/restrack"
)

// track is the row of an end in the adapter's table of objects. The end only writes to it.
type track struct {
	restrack.Handle[restrack.QPInfo, restrack.QPCounts]
	info restrack.QPInfo // as in the row
}

// beginTrack gives the endpoint a row.
func (e *endpoint) beginTrack(table *restrack.Table, info restrack.QPInfo) {
	e.track.info = info
	e.track.Handle = restrack.Add[restrack.QPInfo, restrack.QPCounts](table, restrack.KindQP, &info)
}

// endTrack takes the row back.
func (e *endpoint) endTrack() { e.track.Free() }

// identity returns what the table says about a new queue pair.
func identity(q *QP, c *Config) restrack.QPInfo {
	size := q.Cap()
	return restrack.QPInfo{
		Num: uint32(c.Num), Type: uint8(c.Type), PD: uint32(c.Via.PD), SendCQ: c.SendCQ.Number(), RecvCQ: c.RecvCQ.Number(),
		SRQ: c.SRQ.Number(), XRCD: c.XRCD.Number(), MaxSend: size.MaxSendWR, MaxRecv: size.MaxRecvWR,
	}
}

// describe writes what Modify may have changed: the peer, the path, the state and the PSNs.
func (e *End) describe() {
	e.ep.describe()
	e.report()
	e.reportReceived()
}

// describe writes the peer, the path and the state, which readers see change together.
func (e *endpoint) describe() {
	i := &e.track.info
	i.Peer, i.MTU, i.PKey = uint32(e.dest.peer(e.typ)), uint8(e.attr.PathMTU), uint16(e.pkey)
	i.SrcPort, i.Local, i.Remote = e.path.SrcPort, restrack.Addr(e.path.Src), restrack.Addr(e.path.Dst)
	i.State, i.Mig = uint8(e.State()), uint8(e.migration())
	e.track.Set(i)
}

// failed notes a completion with an error other than a flush.
func (e *endpoint) failed(s ib.WCStatus) {
	c := e.counts()
	c.Errors++
	c.LastError, c.ErrorAt = uint64(s), uint64(e.env.now)
}
