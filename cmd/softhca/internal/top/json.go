package top

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/internal/restrack"
)

// Adapter is an adapter of a process.
type Adapter struct {
	Path       string            `json:"path"`         // of the table that was read
	Time       time.Time         `json:"time"`         // of the read
	Running    bool              `json:"running"`      // the process exists; otherwise this is the adapter's last state
	Failed     bool              `json:"failed"`       // the adapter failed
	Down       bool              `json:"down"`         // the host has lost all addresses of the adapter
	Name       string            `json:"name"`         // such as softhca0
	Addr       netip.Addr        `json:"addr"`         // its first address
	GUID       ib.GUID           `json:"guid"`         // of the adapter
	Slot       uint8             `json:"slot"`         // upper byte of its QPNs
	PortMTU    int               `json:"port_mtu"`     // bytes of UDP payload
	PID        int               `json:"pid"`          // of the process, in its PID namespace
	PIDNS      uint64            `json:"pid_ns"`       // inode number of the PID namespace
	NetNS      uint64            `json:"net_ns"`       // inode number of the network namespace
	UID        int               `json:"uid"`          // user whose process it is
	Command    string            `json:"command"`      // name of the process
	Start      time.Time         `json:"start"`        // when the process opened the adapter
	ElapsedS   float64           `json:"elapsed_s"`    // between the two reads from which rates follow; 0 with one read
	Counters   map[string]uint64 `json:"counters"`     // of the adapter and its port
	QPs        []QP              `json:"qps"`          // queue pairs, and EE contexts (type EEC)
	CQs        []CQ              `json:"cqs"`          // completion queues
	MRs        []MR              `json:"mrs"`          // memory regions and windows
	PDs        []PD              `json:"pds"`          // protection domains
	SRQs       []SRQ             `json:"srqs"`         // shared receive queues
	CMIDs      []CMID            `json:"cm_ids"`       // connections, lookups and listeners of the connection manager
	XRCDs      []uint32          `json:"xrcds"`        // numbers of XRC domains
	NotInTable map[string]uint64 `json:"not_in_table"` // objects of each kind for which the table was too small
}

// QP is a queue pair, or an EE context.
type QP struct {
	QPN             ib.QPN     `json:"qpn"`                     // its number
	Type            string     `json:"type"`                    // such as RC
	State           string     `json:"state"`                   // such as RTS
	Migration       string     `json:"migration"`               // path migration state
	Src             netip.Addr `json:"src"`                     // its address; empty before RTR
	Dst             netip.Addr `json:"dst"`                     // the peer's address; empty if it has no peer
	PeerQPN         ib.QPN     `json:"peer_qpn"`                // 0 if it has no peer
	SrcPort         uint16     `json:"src_port"`                // UDP source port
	PathMTU         int        `json:"path_mtu"`                // 0 before RTR
	PKey            uint16     `json:"pkey"`                    // of its packets
	PD              uint32     `json:"pd"`                      // number of the protection domain
	SendCQ          uint32     `json:"send_cq"`                 // number of the completion queue
	RecvCQ          uint32     `json:"recv_cq"`                 // number of the completion queue
	SRQ             uint32     `json:"srq"`                     // number of the shared receive queue; 0: none
	XRCD            uint32     `json:"xrcd"`                    // number of the XRC domain; 0: none
	CMID            uint32     `json:"cm_id"`                   // communication ID of its connection; 0: none
	MaxSend         uint32     `json:"max_send"`                // work requests that the send queue holds
	MaxRecv         uint32     `json:"max_recv"`                // work requests that its receive queue holds
	SendPSN         uint64     `json:"send_psn"`                // of the next packet to send
	AckPSN          uint64     `json:"ack_psn"`                 // oldest one that is not acknowledged
	RecvPSN         uint64     `json:"recv_psn"`                // expected next
	WindowBytes     uint64     `json:"window_bytes"`            // that may be in flight
	InFlightBytes   uint64     `json:"in_flight_bytes"`         // that are in flight
	Outstanding     uint64     `json:"outstanding"`             // work requests in the send queue
	RTTNS           uint64     `json:"rtt_ns"`                  // smoothed round trip; 0: not measured
	SentPackets     uint64     `json:"sent_packets"`            // since it was created
	SentBytes       uint64     `json:"sent_bytes"`              // payload
	SentMessages    uint64     `json:"sent_messages"`           // since it was created
	RcvdPackets     uint64     `json:"rcvd_packets"`            // since it was created
	RcvdBytes       uint64     `json:"rcvd_bytes"`              // payload
	RcvdMessages    uint64     `json:"rcvd_messages"`           // since it was created
	Retransmitted   uint64     `json:"retransmitted"`           // request packets sent again
	Timeouts        uint64     `json:"timeouts"`                // expiries of the retry timer
	RNRSent         uint64     `json:"rnr_sent"`                // RNR NAKs
	RNRRcvd         uint64     `json:"rnr_rcvd"`                // RNR NAKs
	SeqErrors       uint64     `json:"seq_errors"`              // sequence NAKs received
	Errors          uint64     `json:"errors"`                  // completions with an error other than WR_FLUSH_ERR
	LastError       string     `json:"last_error,omitempty"`    // status of the last of them
	LastErrorTime   *time.Time `json:"last_error_at,omitempty"` // of that completion
	LatencyBucketNS []Bucket   `json:"latency"`                 // send work requests by the time from the first packet to the completion, since it was created; buckets that are not 0
	Rates           *Rates     `json:"rates,omitempty"`         // missing with one read
}

// Bucket is a part of a histogram.
type Bucket struct {
	BelowNS int64  `json:"below_ns,omitempty"` // the times in it are shorter; missing: any
	Count   uint64 `json:"count"`              // work requests
}

// Rates is what a queue pair did between two reads.
type Rates struct {
	Sent     float64 `json:"sent_messages_per_second"` // messages
	SentGbps float64 `json:"sent_gbps"`                // payload
	Rcvd     float64 `json:"rcvd_messages_per_second"` // messages
	RcvdGbps float64 `json:"rcvd_gbps"`                // payload
	P50NS    *int64  `json:"p50_ns,omitempty"`         // completion time of half of the send work requests that completed; missing if none did
	P99NS    *int64  `json:"p99_ns,omitempty"`         // likewise of 99 percent
}

// CQ is a completion queue.
type CQ struct {
	CQ        uint32 `json:"cq"`         // its number
	Depth     uint32 `json:"depth"`      // completions that it holds
	Waiting   uint32 `json:"waiting"`    // completions that wait to be polled
	HighWater uint64 `json:"high_water"` // maximum of waiting
	Produced  uint64 `json:"produced"`   // completions added
	Overflows uint64 `json:"overflows"`  // completions lost because the queue was full
	Events    uint64 `json:"events"`     // completion events raised
	Armed     string `json:"armed"`      // no, solicited or any
}

// MR is a memory region or window. Keys are not shown.
type MR struct {
	MR     uint32 `json:"mr"`           // its number
	Form   string `json:"form"`         // region, window, device memory, implicit or null
	PD     uint32 `json:"pd"`           // number of the protection domain
	Length uint64 `json:"length"`       // its length
	VA     string `json:"va,omitempty"` // its address, if the process shows it
	Rights string `json:"rights"`       // such as LOCAL_WRITE|REMOTE_READ; 0 for none
}

// PD is a protection domain.
type PD struct {
	PD    uint32 `json:"pd"`    // its number
	Users uint64 `json:"users"` // objects in it
}

// SRQ is a shared receive queue.
type SRQ struct {
	SRQ    uint32 `json:"srq"`     // its number
	PD     uint32 `json:"pd"`      // number of the protection domain
	MaxWR  uint32 `json:"max_wr"`  // work requests that it holds
	MaxSGE uint32 `json:"max_sge"` // scatter elements of each
	XRC    bool   `json:"xrc"`     // it is one of XRC, and has the fields that follow
	SRQN   uint32 `json:"srqn"`    // number in packets
	CQ     uint32 `json:"cq"`      // number of the completion queue
	XRCD   uint32 `json:"xrcd"`    // number of the XRC domain
}

// CMID is a connection, a lookup or a listener of the connection manager.
type CMID struct {
	ID        uint32     `json:"cm_id"`      // communication ID; of a listener, a number of its own
	Listener  bool       `json:"listener"`   // it is a listener
	State     string     `json:"state"`      // such as ESTABLISHED
	Type      string     `json:"type"`       // such as RC
	QPN       ib.QPN     `json:"qpn"`        // of its queue pair; 0: none
	PeerQPN   ib.QPN     `json:"peer_qpn"`   // of the peer's queue pair
	PeerID    uint32     `json:"peer_cm_id"` // communication ID of the peer
	ServiceID string     `json:"service_id"` // that it asks for, or listens to
	Src       netip.Addr `json:"src"`        // its address
	SrcPort   uint16     `json:"src_port"`   // RDMA_CM port; 0: another kind of service
	Dst       netip.Addr `json:"dst"`        // the peer's address
	DstPort   uint16     `json:"dst_port"`   // RDMA_CM port of the peer
}

// JSON prints an array of all adapters, with their objects. With two reads it has rates.
func JSON(w io.Writer, reads []Read) error {
	m := NewModel()
	for _, r := range reads {
		m.Update(r.Adapters, r.At)
	}
	all := make([]Adapter, 0, len(m.adapters))
	for _, a := range m.adapters {
		all = append(all, describe(a))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}

// describe returns an adapter with its objects.
func describe(a *adapter) Adapter {
	d := Adapter{
		Path: printable.Line(a.Path, 0), Time: a.At.UTC(), Running: a.Running, Failed: a.Failed, Down: a.Down, Name: a.Name, Addr: a.Addr, GUID: ib.GUID(a.GUID), Slot: a.Slot,
		PortMTU: a.MTU, PID: a.PID, PIDNS: a.PIDNS, NetNS: a.NetNS, UID: a.UID, Command: a.Command, Start: a.Started.UTC(),
		Counters: make(map[string]uint64), QPs: []QP{}, CQs: []CQ{}, MRs: []MR{}, PDs: []PD{}, SRQs: []SRQ{}, CMIDs: []CMID{}, XRCDs: []uint32{}, NotInTable: a.Missing,
	}
	if a.known {
		d.ElapsedS = a.change.Elapsed.Seconds()
	}
	a.eachCounter(&observe.AdapterChange{Counters: a.Counters, Port: a.Port}, func(name string, v uint64) { d.Counters[name] = v })
	for i := range a.connections {
		d.QPs = append(d.QPs, describeQP(&a.connections[i]))
	}
	for i := range a.queues {
		q := &a.queues[i]
		d.CQs = append(d.CQs, CQ{q.Num, q.Depth, q.Waiting, q.HighWater, q.Produced, q.Overflows, q.Events, q.armed()})
	}
	for i := range a.MRs {
		r := &a.MRs[i]
		v := MR{r.Num, form(r), r.PD, r.Length, "", r.Rights.String()}
		if r.Addr != 0 {
			v.VA = virtual(r.Addr)
		}
		d.MRs = append(d.MRs, v)
	}
	for _, p := range a.PDs {
		d.PDs = append(d.PDs, PD{p.Num, p.Users})
	}
	for _, s := range a.SRQs {
		d.SRQs = append(d.SRQs, SRQ{s.Num, s.PD, s.MaxWR, s.MaxSGE, s.XRC != 0, s.Number, s.CQ, s.XRCD})
	}
	for i := range a.CMIDs {
		d.CMIDs = append(d.CMIDs, describeCMID(&a.CMIDs[i]))
	}
	for _, x := range a.XRCDs {
		d.XRCDs = append(d.XRCDs, x.Num)
	}
	return d
}

// describeQP returns a queue pair.
func describeQP(c *connection) QP {
	q := QP{
		QPN: c.Num, Type: c.Type.String(), State: c.State.String(), Migration: c.Mig.String(), Src: c.Local, Dst: c.Remote, PeerQPN: c.Peer,
		SrcPort: c.SrcPort, PathMTU: c.MTU.Bytes(), PKey: uint16(c.PKey), PD: c.PD, SendCQ: c.SendCQ, RecvCQ: c.RecvCQ, SRQ: c.SRQ, XRCD: c.XRCD, CMID: c.CM,
		MaxSend: c.MaxSend, MaxRecv: c.MaxRecv, SendPSN: c.SendPSN, AckPSN: c.AckPSN, RecvPSN: c.RecvPSN, WindowBytes: c.Window, InFlightBytes: c.InFlight,
		Outstanding: c.Outstanding, RTTNS: c.RTT, SentPackets: c.SentPackets, SentBytes: c.SentBytes, SentMessages: c.SentMessages,
		RcvdPackets: c.RcvdPackets, RcvdBytes: c.RcvdBytes, RcvdMessages: c.RcvdMessages, Retransmitted: c.Retransmitted, Timeouts: c.Timeouts,
		RNRSent: c.RNRSent, RNRRcvd: c.RNRRcvd, SeqErrors: c.SeqErrors, Errors: c.Errors, LatencyBucketNS: []Bucket{},
	}
	if c.Errors != 0 {
		at := c.LastAt.UTC()
		q.LastError, q.LastErrorTime = c.LastStatus.String(), &at
	}
	for i, n := range c.Latency {
		if n != 0 {
			q.LatencyBucketNS = append(q.LatencyBucketNS, Bucket{max(int64(restrack.BucketBound(i)), 0), n})
		}
	}
	if c.known {
		v := &c.change
		q.Rates = &Rates{Sent: v.SentRate(), SentGbps: v.SentBits() / 1e9, Rcvd: v.RcvdRate(), RcvdGbps: v.RcvdBits() / 1e9, P50NS: quantile(v, 0.5), P99NS: quantile(v, 0.99)}
	}
	return q
}

// quantile returns a quantile of the completion times; nil if there were none.
func quantile(c *observe.QPChange, p float64) *int64 {
	d, ok := c.Latency.Quantile(p)
	if !ok {
		return nil
	}
	n := int64(d)
	return &n
}

// describeCMID returns a connection of the connection manager.
func describeCMID(id *observe.CMID) CMID {
	return CMID{
		ID: id.Num, Listener: id.Listener, State: cmState(id.State), Type: id.Type.String(), QPN: id.QPN, PeerQPN: id.RemoteQPN, PeerID: id.RemoteID,
		ServiceID: fmt.Sprintf("0x%016x", id.ServiceID), Src: id.Local.Addr(), SrcPort: id.Local.Port(), Dst: id.Remote.Addr(), DstPort: id.Remote.Port(),
	}
}
