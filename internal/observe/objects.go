package observe

import (
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/restrack"
)

// Port contains the counters of an adapter's port.
type Port = fabric.Stats

// QP is a queue pair, or an EE context (Type EEC).
type QP struct {
	Num     ib.QPN
	Type    ib.QPType
	State   ib.QPState
	Mig     ib.MigState
	Peer    ib.QPN // of an EE context, the EECN of its peer; 0 unless connected
	Local   netip.Addr
	Remote  netip.Addr
	SrcPort uint16 // UDP source port
	MTU     ib.MTU // path MTU; 0 before RTR
	PKey    ib.PKey

	// Numbers of other objects; 0 is none.
	PD, SendCQ, RecvCQ, SRQ, XRCD uint32
	CM                            uint32 // communication ID of its connection

	MaxSend, MaxRecv uint32 // work requests
	restrack.QPCounts
	LastStatus ib.WCStatus // of the last completion with an error other than a flush
	LastAt     time.Time   // of that completion; zero: there was none
}

// CQ is a completion queue.
type CQ struct {
	Num, Depth uint32
	Waiting    uint32 // completions that wait to be polled
	restrack.CQCounts
}

// MR is a region or a memory window.
type MR struct {
	restrack.MRInfo
	Rights ib.Access
}

// PD is a protection domain.
type PD struct {
	Num   uint32
	Users uint64
}

// SRQ is a shared receive queue.
type SRQ struct{ restrack.SRQInfo }

// CMID is a connection, a lookup or a listener of the connection manager.
type CMID struct {
	Num, RemoteID uint32
	State         cm.State
	Listener      bool
	Type          ib.QPType
	QPN           ib.QPN
	RemoteQPN     ib.QPN
	ServiceID     uint64
	Local, Remote netip.AddrPort // port 0: the service is not one of RDMA_CM
}

// XRCD is an XRC domain.
type XRCD struct{ Num uint32 }

// list copies the objects of a table.
func (a *Adapter) list(v *restrack.View, p *restrack.Process) {
	a.QPs = make([]QP, 0, v.Rows(restrack.KindQP))
	for o := range v.QPs() {
		a.QPs = append(a.QPs, qpOf(&o, p))
	}
	for o := range v.CQs() {
		a.CQs = append(a.CQs, CQ{o.Info.Num, o.Info.Depth, min(o.Counts.Waiting(), o.Info.Depth), o.Counts})
	}
	for o := range v.MRs() {
		a.MRs = append(a.MRs, MR{o.Info, ib.Access(o.Info.Access)})
	}
	for o := range v.PDs() {
		a.PDs = append(a.PDs, PD{o.Info.Num, o.Counts.Users})
	}
	for o := range v.SRQs() {
		a.SRQs = append(a.SRQs, SRQ{o.Info})
	}
	of := make(map[ib.QPN]uint32) // the connections of queue pairs
	for o := range v.CMIDs() {
		c := cmidOf(&o.Info)
		a.CMIDs = append(a.CMIDs, c)
		of[c.QPN] = c.Num
	}
	for i := range a.QPs {
		if a.QPs[i].Num != ib.QPNGSI {
			a.QPs[i].CM = of[a.QPs[i].Num]
		}
	}
	for o := range v.XRCDs() {
		a.XRCDs = append(a.XRCDs, XRCD{o.Info.Num})
	}
	a.Missing = make(map[string]uint64)
	for k := restrack.KindNone + 1; k < restrack.NumKinds; k++ {
		if n := v.Missing(k); n != 0 {
			a.Missing[k.String()] = n
		}
	}
}

func qpOf(o *restrack.Object[restrack.QPInfo, restrack.QPCounts], p *restrack.Process) QP {
	i, c := &o.Info, &o.Counts
	q := QP{
		Num: ib.QPN(i.Num), Type: ib.QPType(i.Type), State: ib.QPState(i.State), Mig: ib.MigState(i.Mig),
		Peer: ib.QPN(i.Peer), Local: addr(i.Local), Remote: addr(i.Remote), SrcPort: i.SrcPort, MTU: ib.MTU(i.MTU), PKey: ib.PKey(i.PKey),
		PD: i.PD, SendCQ: i.SendCQ, RecvCQ: i.RecvCQ, SRQ: i.SRQ, XRCD: i.XRCD, MaxSend: i.MaxSend, MaxRecv: i.MaxRecv, QPCounts: *c,
	}
	if c.Errors != 0 {
		q.LastStatus, q.LastAt = ib.WCStatus(c.LastError), time.Unix(0, p.Epoch+int64(c.ErrorAt))
	}
	return q
}

func cmidOf(i *restrack.CMIDInfo) CMID {
	return CMID{
		Num: i.Num, RemoteID: i.RemoteID, State: cm.State(i.State), Listener: i.Listener != 0, Type: ib.QPType(i.Type),
		QPN: ib.QPN(i.QPN), RemoteQPN: ib.QPN(i.RemoteQPN), ServiceID: i.ServiceID,
		Local: netip.AddrPortFrom(addr(i.Local), i.LocalPort), Remote: netip.AddrPortFrom(addr(i.Remote), i.RemotePort),
	}
}

// addr returns an address of a table; the zero Addr for none.
func addr(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b).Unmap()
}

// copyWords copies words that another process writes.
func copyWords(to, from []byte) {
	for i := 0; i+8 <= min(len(to), len(from)); i += 8 {
		*(*uint64)(unsafe.Pointer(&to[i])) = atomic.LoadUint64((*uint64)(unsafe.Pointer(&from[i])))
	}
}
