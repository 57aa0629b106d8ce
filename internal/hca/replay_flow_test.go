package hca_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// captured is a packet of a capture.
type captured struct {
	at      clock.Instant
	p       roce.Packet
	srcPort uint16
	id      uint16
}

// flow is what one responder of a capture got, and what it answered.
type flow struct {
	name     string
	order    int
	service  roce.Service
	src, dst netip.Addr
	qpn      ib.QPN // of the responder
	peer     ib.QPN // of the requester; 0 if nothing was ever sent to it
	requests []captured
	answers  []answer
	replies  []captured // where the answers come from
	rnrAt    map[ib.PSN]bool

	// State of a replay.
	rnrLeft   map[ib.PSN]int
	regions   map[ib.RKey]*replayRegion
	inbox     []byte
	inboxMR   *memory.Region
	posted    int // receives that are not completed
	skipped   int // receives that the scenario withholds
	placed    int
	delivered int
}

// replayRegion is the memory behind a captured rkey.
type replayRegion struct {
	mr    *memory.Region
	buf   []byte
	known []bool // bytes whose first content is settled, while it is made up
}

// at returns n bytes at an address, nil when they are not in the region.
func (r *replayRegion) at(va uint64, n int) (buf []byte, known []bool) {
	if r == nil {
		return nil, nil
	}
	off := va - r.mr.Addr()
	if off > uint64(len(r.buf)) || uint64(n) > uint64(len(r.buf))-off {
		return nil, nil
	}
	return r.buf[off : off+uint64(n)], r.known[off : off+uint64(n)]
}

// flowKey tells flows apart: both directions of a connection have one UDP
// source port.
type flowKey struct {
	a, b    netip.Addr // in order
	port    uint16
	service roce.Service
}

// loadFlows returns the flows of a capture in the order of their first
// request. Management and multicast packets are passed over.
func loadFlows(t testing.TB, name string) []*flow {
	t.Helper()
	sides := map[flowKey]map[netip.Addr]*flow{} // by responder
	var all []*flow
	var start int64
	captures.Each(t, name, func(_ string, p *pcapfile.Packet) {
		var c captured
		if f := c.p.Parse(bytes.Clone(p.Payload)); f != roce.FaultNone {
			t.Fatalf("%s record %d: %v", name, p.Record, f)
		}
		if n := c.p.BTH.DestQP; n == ib.QPNGSI || n == ib.QPNMulticast {
			return
		}
		if start == 0 {
			start = p.Time.UnixNano()
		}
		c.at, c.srcPort = clock.Instant(p.Time.UnixNano()-start), p.SrcPort
		if p.Src.Is4() {
			c.id = binary.BigEndian.Uint16(p.IP[4:])
		}
		all = addCaptured(t, all, sides, &c, p)
	})
	all = slices.DeleteFunc(all, func(f *flow) bool { return len(f.requests) == 0 })
	slices.SortFunc(all, byOrder)
	return all
}

// addCaptured files a packet under the flow of its responder.
func addCaptured(t testing.TB, all []*flow, sides map[flowKey]map[netip.Addr]*flow, c *captured, p *pcapfile.Packet) []*flow {
	t.Helper()
	key := flowKey{p.Src, p.Dst, p.SrcPort, c.p.Info.Service}
	if p.Dst.Less(p.Src) {
		key.a, key.b = key.b, key.a
	}
	pair := sides[key]
	if pair == nil {
		pair = map[netip.Addr]*flow{}
		sides[key] = pair
		for _, d := range [][2]netip.Addr{{key.a, key.b}, {key.b, key.a}} {
			f := &flow{src: d[0], dst: d[1], service: key.service, order: p.Record, rnrAt: map[ib.PSN]bool{}}
			pair[f.dst] = f
			all = append(all, f)
		}
	}
	// A packet to an address tells the number of the queue pair there, as
	// responder and as requester.
	here, there := pair[p.Dst], pair[p.Src]
	if here.qpn != 0 && here.qpn != c.p.BTH.DestQP {
		t.Fatalf("record %d: two queue pairs with one UDP source port", p.Record)
	}
	here.qpn, there.peer = c.p.BTH.DestQP, c.p.BTH.DestQP
	if c.p.Info.Flags&roce.FlagResponse == 0 {
		here.requests = append(here.requests, *c)
		return all
	}
	there.answers = append(there.answers, answerOf(&c.p))
	there.replies = append(there.replies, *c)
	if c.p.Info.Kind == roce.KindAck && c.p.AETH.Syndrome.IsRNR() {
		there.rnrAt[c.p.BTH.PSN] = true
	}
	return all
}

// scenario is what cannot be read off the packets of a flow.
type scenario struct {
	left            string    // where the responder was left; "" is RTS
	rqPSN           uint32    // 0: what the packets show
	mtu             ib.MTU    // 0: what the packets show
	noAccess        bool      // of the queue pair
	mrAccess        ib.Access // 0: all
	mrOff, mrLen    uint64    // region that the first address is at offset mrOff of
	depth           uint8     // 0: 16
	recvLen         int       // 0: enough
	noRecv          int       // receives that come too late
	badLKey         bool
	badInv, overMTU bool // known differences
}

const (
	anyAccess = ib.AccessLocalWrite | ib.AccessRemote
	noWrite   = ib.AccessLocalWrite | ib.AccessRemoteRead
	noRead    = ib.AccessLocalWrite | ib.AccessRemoteWrite
	noAtomic  = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead
)

// scenarios are the conditions under which the captures were taken.
var scenarios = map[string]scenario{
	"errs_peer_reset":          {left: "RESET"},
	"errs_peer_init":           {left: "INIT"},
	"errs_peer_rtr":            {left: "RTR"},
	"errs_peer_error":          {left: "ERR"},
	"errs_peer_destroyed":      {left: "destroyed"},
	"errs_psn_behind":          {rqPSN: 0x123450},
	"errs_psn_behind_read":     {rqPSN: 0x123450},
	"errs_uc_psn_gap":          {rqPSN: 0x123450},
	"errs_mtu_mismatch":        {mtu: ib.MTU256, overMTU: true},
	"errs_mtu_mismatch_write":  {mtu: ib.MTU256},
	"errs_qp_noperm_read":      {noAccess: true},
	"errs_qp_noperm_write":     {noAccess: true},
	"errs_read_noperm":         {mrAccess: noRead, mrLen: 65536},
	"errs_write_noperm":        {mrAccess: noWrite, mrLen: 65536},
	"errs_atomic_noperm":       {mrAccess: noAtomic, mrLen: 65536},
	"errs_read_beyond_mr":      {mrOff: 4000, mrLen: 4096},
	"errs_write_beyond_mr":     {mrOff: 4000, mrLen: 4096},
	"errs_atomic_misaligned":   {mrLen: 65536},
	"errs_rd_depth_exceeded":   {depth: 1},
	"errs_read_pipeline":       {depth: 2},
	"loss_read_pipe_rsp":       {depth: 2},
	"errs_send_too_long":       {recvLen: 64},
	"errs_send_too_long_multi": {recvLen: 2048},
	"errs_recv_bad_lkey":       {badLKey: true},
	"errs_ud_too_long":         {recvLen: 64},
	"errs_uc_no_recv":          {noRecv: 1},
	"errs_wr_inv_bad_rkey":     {badInv: true},
}

func (f *flow) scenario() scenario {
	name, _, _ := strings.Cut(f.name, ".")
	return scenarios[name]
}

// open makes an adapter with a queue pair that stands where the responder of
// the flow stood.
func (f *flow) open(t testing.TB) *rig.Solo {
	t.Helper()
	sc := f.scenario()
	typ := map[roce.Service]ib.QPType{roce.ServiceRC: ib.RC, roce.ServiceUC: ib.UC, roce.ServiceUD: ib.UD}[f.service]
	s := rig.NewSolo(t, rig.SoloConfig{
		// Linux drops what comes beyond a gap, so in a capture it comes again.
		HCA:  hca.Config{Settings: qp.Settings{InOrderOnly: true}},
		Type: typ, Addr: f.dst, Peer: f.src, State: ib.INIT, MTU: f.mtu(),
		Attr: func(a *ib.QPAttr) {
			a.RQPSN = f.firstPSN()
			if sc.rqPSN != 0 {
				a.RQPSN = ib.NewPSN(sc.rqPSN)
			}
			a.DestQPN = max(f.peer, 1)
			a.MaxDestRDAtomic = max(sc.depth, 16)
			if sc.depth != 0 {
				a.MaxDestRDAtomic = sc.depth
			}
			if sc.noAccess {
				a.AccessFlags = 0
			}
		},
	})
	f.rnrLeft = map[ib.PSN]int{}
	for i := range f.answers {
		if a := &f.answers[i]; a.aeth && a.syndrome.IsRNR() {
			s.Attr.MinRNRTimer = a.syndrome.Value()
			f.rnrLeft[a.psn]++
		}
	}
	f.finishWalk(s, sc.left)
	f.inbox = make([]byte, 128<<10)
	var err error
	f.inboxMR, err = s.PD.RegMR(memory.RegionConfig{Buf: f.inbox, Access: ib.AccessLocalWrite})
	rig.Must(t, err)
	f.register(t, s)
	f.remember(t)
	return s
}

// finishWalk takes the queue pair, which is in INIT, to where the scenario
// left it.
func (f *flow) finishWalk(s *rig.Solo, left string) {
	switch left {
	case "INIT":
		return
	case "RESET":
		s.Modify(ib.RESET)
		return
	case "ERR":
		s.Modify(ib.ERR)
		return
	case "destroyed":
		s.HCA.DestroyQP(s.PD, s.QP)
		return
	}
	for st := ib.RTR; st <= ib.RTS; st++ {
		s.Attr.State = st
		rig.Must(s.T, s.QP.Modify(s.Now, &s.Attr, rig.WalkMask(s.QP.Type(), st)))
		if left == st.String() {
			return
		}
	}
}

// mtu returns the path MTU that the packets show.
func (f *flow) mtu() ib.MTU {
	if m := f.scenario().mtu; m != 0 {
		return m
	}
	longest := 1024
	for _, list := range [][]captured{f.requests, f.replies} {
		for i := range list {
			n := len(list[i].p.Payload)
			if list[i].p.Info.Payload == roce.PayloadMTU {
				m, _ := ib.MTUFor(n)
				return m
			}
			longest = max(longest, n)
		}
	}
	for m := ib.MTU1024; ; m++ {
		if m.Bytes() >= longest {
			return m
		}
	}
}

// firstPSN returns the PSN that the responder expected first: that of the
// first request, or what an early sequence NAK asks for.
func (f *flow) firstPSN() ib.PSN {
	first := f.requests[0].p.BTH.PSN
	if len(f.answers) > 0 {
		if a := &f.answers[0]; a.isNAK(roce.NAKSequence) && a.psn.Diff(first) < 0 {
			return a.psn
		}
	}
	return first
}

// reach returns the range that a request names, if it names one.
func reach(p *roce.Packet) (key ib.RKey, va, n uint64) {
	switch {
	case p.Info.Headers&roce.HasRETH != 0:
		return p.RETH.RKey, p.RETH.VA, uint64(p.RETH.Length)
	case p.Info.Headers&roce.HasAtomicETH != 0:
		return p.AtomicETH.RKey, p.AtomicETH.VA, 8
	}
	return 0, 0, 0
}

// register makes a region for every rkey that Linux accepted, as long as the
// ranges that it accepted. A key that it refused always is none of ours.
func (f *flow) register(t testing.TB, s *rig.Solo) {
	t.Helper()
	sc := f.scenario()
	type span struct{ lo, hi uint64 }
	spans := map[ib.RKey]span{}
	invalidatable := map[ib.RKey]bool{}
	for i := range f.requests {
		p := &f.requests[i].p
		if p.Info.Headers&roce.HasIETH != 0 {
			invalidatable[p.InvRKey] = true
		}
		key, va, n := reach(p)
		if sc.mrLen != 0 && n != 0 && len(spans) == 0 {
			spans[key] = span{va - sc.mrOff, va - sc.mrOff + sc.mrLen}
		}
		if n == 0 || key == wrongKey || sc.mrLen != 0 || f.refused(p.BTH.PSN) {
			continue
		}
		sp, ok := spans[key]
		if !ok {
			sp = span{va, va}
		}
		spans[key] = span{min(sp.lo, va) &^ 7, max(sp.hi, va+n)}
	}
	f.regions = map[ib.RKey]*replayRegion{}
	for key, sp := range spans {
		access := sc.mrAccess
		if access == 0 {
			access = anyAccess
		}
		buf := make([]byte, sp.hi-sp.lo)
		mr, err := s.PD.RegMR(memory.RegionConfig{
			Buf: buf, IOVA: sp.lo, Access: access, Invalidatable: invalidatable[key],
		})
		rig.Must(t, err)
		f.regions[key] = &replayRegion{mr, buf, make([]bool, len(buf))}
	}
}

// wrongKey is the rkey of the scenarios with a wrong one: over UC nothing
// else shows that it was refused.
const wrongKey ib.RKey = 0x00bad0bd

// refused reports whether Linux refused the request at a PSN for its key.
func (f *flow) refused(psn ib.PSN) bool {
	return slices.ContainsFunc(f.answers, func(a answer) bool { return a.psn == psn && a.isNAK(roce.NAKRemoteAccess) })
}
