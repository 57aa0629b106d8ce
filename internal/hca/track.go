package hca

import (
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/restrack"
)

// tracker gives the objects of the control plane their rows in the table of objects, if there is
// one, and numbers them. Queue pairs and completion queues have rows of their own.
type tracker struct {
	table *restrack.Table // nil for none
	last  [restrack.NumKinds]uint32
}

// number returns the number of a new object.
func (t *tracker) number(k restrack.Kind) uint32 {
	t.last[k]++
	return t.last[k]
}

// pd gives a protection domain its row.
func (t *tracker) pd(p *PD) {
	if t.table != nil {
		p.track = restrack.Add[restrack.PDInfo, restrack.PDCounts](t.table, restrack.KindPD, &restrack.PDInfo{Num: uint32(p.ID)})
	}
}

// use counts objects in a protection domain.
func (p *PD) use(n int) {
	p.users += n
	if p.track.Row != nil {
		p.track.Counts.Users = uint64(p.users)
	}
}

// region gives a region its row, or changes it.
func (t *tracker) region(r *memory.Region, form uint8) {
	if t.table == nil {
		return
	}
	i := &r.TrackInfo
	*i = restrack.MRInfo{Num: i.Num, PD: uint32(r.PD()), Access: uint32(r.Access()), Form: form, Length: r.Len()}
	if r.Track.Row != nil {
		r.Retrack()
		return
	}
	i.Num = t.number(restrack.KindMR)
	r.Track = restrack.Add[restrack.MRInfo, restrack.NoCounts](t.table, restrack.KindMR, i)
}

// formOf returns the form of a region that is not of device memory.
func formOf(f memory.Form) uint8 {
	switch f {
	case memory.FormImplicit:
		return restrack.FormImplicit
	case memory.FormNull:
		return restrack.FormNull
	default:
		return restrack.FormRegion
	}
}

// window gives a memory window its row.
func (t *tracker) window(p *PD, w *memory.Window) {
	if t.table != nil {
		w.TrackInfo = restrack.MRInfo{Num: t.number(restrack.KindMR), PD: uint32(p.ID), Form: restrack.FormWindow}
		w.Track = restrack.Add[restrack.MRInfo, restrack.NoCounts](t.table, restrack.KindMR, &w.TrackInfo)
	}
}

// srq gives a shared receive queue its row.
func (t *tracker) srq(s *qp.SRQ) {
	wr, sge := s.Cap()
	s.TrackInfo = restrack.SRQInfo{Num: t.number(restrack.KindSRQ), PD: uint32(s.PD()), MaxWR: wr, MaxSGE: sge}
	if t.table != nil {
		s.Track = restrack.Add[restrack.SRQInfo, restrack.NoCounts](t.table, restrack.KindSRQ, &s.TrackInfo)
	}
}

// srqChanged writes what changed of a shared receive queue: its size, or its XRC domain.
func (t *tracker) srqChanged(s *qp.SRQ, cq *qp.CQ) {
	i := &s.TrackInfo
	i.MaxWR, i.MaxSGE = s.Cap()
	if d := s.XRCD(); d != nil {
		i.XRC, i.XRCD, i.Number = 1, d.Num, uint32(s.Num())
	}
	if cq != nil {
		i.CQ = cq.Number()
	}
	if s.Track.Row != nil {
		s.Track.Set(i)
	}
}

// xrcd gives an XRC domain its row.
func (t *tracker) xrcd(d *qp.XRCD) {
	d.Num = t.number(restrack.KindXRCD)
	if t.table != nil {
		d.Track = restrack.Add[restrack.XRCDInfo, restrack.NoCounts](t.table, restrack.KindXRCD, &restrack.XRCDInfo{Num: d.Num})
	}
}
