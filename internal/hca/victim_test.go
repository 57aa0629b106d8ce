package hca_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// victim is an adapter with one queue pair under attack: its peer sends what
// it likes and its program posts, modifies, deregisters and forgets to poll.
// After every step check looks at what must hold whatever they do.
type victim struct {
	*rig.Solo
	windowed windowed
	arena    []byte // guards of fuzzCanary around the regions
	gaps     [][]byte
	regions  [numRegions]*memory.Region // nil: not registered
	bufs     [numRegions][]byte
	frozen   [numRegions][]byte // what the bytes must stay; nil for those that may change
	stale    ib.RKey            // of a region that is gone
	keys     [numRegions]ib.RKey
	handle   ib.AHHandle
	tight    *fabric.Batch // room for one packet
	roomy    *fabric.Batch
	unsig    bool            // each send chooses whether it is signalled
	hold     bool            // nothing is transmitted
	hidden   bool            // the port does not show the IPv4 identification
	last     fabric.Datagram // the last that was delivered whole
	sent     []roce.Packet
	sends    backlog
	recvs    backlog
	nextID   uint64
	counts   counters.Set // after the last step
	state    ib.QPState   // after the last step, of the EE context if there is one
	ofQP     ib.QPState   // likewise, of the queue pair
	arrivals int
	loads    int // of alternate paths,
	rearms   int // and how often REARM was asked for
	migrated int // times, until the last step
}

// The regions of a victim, by the rights on them.
const (
	regionOpen    = iota // peers may do everything
	regionRead           // peers may read
	regionWrite          // peers may write, not read
	regionPrivate        // local use only, and the program makes none
	regionForeign        // of another protection domain
	regionInbox          // where receives and READs of the program's go
	numRegions
)

// Sizes and patterns of a victim's memory.
const (
	fuzzBytes  = 4096 // of regionOpen
	fuzzSmall  = 256  // of the others
	fuzzGuard  = 128
	fuzzSlot   = 512 // of the inbox, one for each work request in turn
	fuzzSlots  = 16
	fuzzCanary = 0xc5
	fuzzSecret = "\x9d\x31never to be read\xe7\x02"
)

// openAccess is every right that a peer can have.
const openAccess = anyAccess | ib.AccessFlush

// maxFootprint bounds the bytes of an adapter, whatever was done to it. It
// begins with up to 140 KiB, most of it for queues; an attack adds the READs
// and atomics that wait to be answered and the keys that rest.
const maxFootprint = 192 << 10

// victimTypes are the services under attack.
var victimTypes = append(slices.Clone(rig.Types), ib.RD, ib.XRCIni)

// newVictim makes a victim as the first bytes of a program choose.
func newVictim(t testing.TB, p *program) *victim {
	typ := victimTypes[int(p.byte())%len(victimTypes)]
	states := rig.Reachable(typ)
	if typ == ib.RD || typ == ib.XRCIni { // those of its EE context, or of a reliable queue pair
		states = rig.Reachable(ib.RC)
	}
	where, opts, more := p.byte(), p.byte(), p.byte()
	state := states[int(where&31)%len(states)]
	c := rig.SoloConfig{
		Type: typ, State: max(state, ib.INIT), V6: opts&1 != 0, Unsig: opts&2 != 0,
		HCA:   hca.Config{Privileged: true, Settings: qp.Settings{Credits: opts&4 != 0, MigReq: opts&8 != 0}},
		Batch: 16 << 10, Challenge: where&128 == 0,
		CQE: []uint32{1024, 8, 64, 2}[opts>>6],
		MTU: []ib.MTU{ib.MTU256, ib.MTU512}[opts>>5&1],
		Attr: func(a *ib.QPAttr) {
			if more&1 != 0 { // the sequence numbers wrap
				a.RQPSN, a.SQPSN = ib.NewPSN(0xfffffe), ib.NewPSN(0xfffffc)
			}
			a.MaxDestRDAtomic = []uint8{4, 0, 1, 128}[more>>1&3]
			a.MaxRDAtomic = []uint8{4, 1, 2, 128}[more>>3&3]
			a.RNRRetry = []uint8{2, 0, 7, 1}[more>>5&3]
		},
	}
	if opts&16 != 0 && typ != ib.XRCIni {
		c.SRQ = 16
	}
	if where&32 != 0 {
		c.HCA.Settings.WindowBytes = 1 // as little as there is
	}
	v := &victim{unsig: c.Unsig, hidden: more&128 != 0}
	c.HCA.WriteBack = func(job qp.WriteBack) { v.windowed.jobs = append(v.windowed.jobs, job) }
	v.Solo = rig.NewSolo(t, c)
	switch {
	case state == ib.RESET && v.EEC != nil:
		rig.Must(t, v.EEC.Modify(v.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	case state == ib.RESET:
		v.Modify(ib.RESET)
	}
	v.Poll()
	v.register()
	v.windowed.open(v)
	v.roomy, v.tight = v.Batch, fabric.NewBatch(rig.MaxPacket, fabric.Caps{MaxSegments: 64, MaxRunBytes: 65000})
	if where&64 != 0 {
		v.Batch = v.tight
	}
	if typ == ib.UD || typ == ib.GSI {
		v.handle = v.AH()
	}
	v.Moves, v.Events, v.nextID = nil, nil, 1
	v.state, v.ofQP = v.End().State(), v.QP.State()
	return v
}

// register lays the regions out in one arena, with guards between them.
func (v *victim) register() {
	rig.Must(v.T, v.PD.DeregMR(v.MR))
	v.stale = v.MR.RKey()
	other, err := v.HCA.AllocPD()
	rig.Must(v.T, err)
	sizes := [numRegions]int{fuzzBytes, fuzzSmall, fuzzSmall, fuzzSmall, fuzzSmall, fuzzSlots * fuzzSlot}
	rights := [numRegions]ib.Access{openAccess, ib.AccessRemoteRead, ib.AccessLocalWrite | ib.AccessRemoteWrite, ib.AccessLocalWrite, anyAccess, ib.AccessLocalWrite}
	total := fuzzGuard
	for _, n := range sizes {
		total += n + fuzzGuard
	}
	v.arena = bytes.Repeat([]byte{fuzzCanary}, total)
	rest := v.arena
	for i, n := range sizes {
		v.gaps = append(v.gaps, rest[:fuzzGuard])
		v.bufs[i], rest = rest[fuzzGuard:][:n], rest[fuzzGuard+n:]
		pd := v.PD
		switch i {
		case regionForeign:
			pd = other
		case regionWrite, regionPrivate:
			copy(v.bufs[i], bytes.Repeat([]byte(fuzzSecret), n/len(fuzzSecret)))
		}
		v.regions[i], err = pd.RegMR(memory.RegionConfig{
			Buf: v.bufs[i], IOVA: uint64(i+1) << 32, Access: rights[i], Invalidatable: i == regionOpen, Durable: i == regionOpen,
		})
		rig.Must(v.T, err)
		v.keys[i] = ib.RKey(v.regions[i].LKey())
		if i == regionRead || i == regionPrivate || i == regionForeign {
			v.frozen[i] = bytes.Clone(v.bufs[i])
		}
	}
	v.gaps = append(v.gaps, rest)
	for i := range fuzzSlots { // work requests never name the end of a slot
		slot := v.bufs[regionInbox][i*fuzzSlot:][:fuzzSlot]
		v.gaps = append(v.gaps, slot[fuzzSlot-fuzzGuard:])
	}
	v.MR = v.regions[regionOpen]
}

// toggle deregisters the open region, whose bytes then stay as they are, or
// registers it again under a new key.
func (v *victim) toggle() {
	if v.regions[regionOpen] != nil {
		v.stale = v.keys[regionOpen]
		rig.Must(v.T, v.PD.DeregMR(v.regions[regionOpen]))
		v.regions[regionOpen], v.frozen[regionOpen] = nil, bytes.Clone(v.bufs[regionOpen])
		return
	}
	mr, err := v.PD.RegMR(memory.RegionConfig{Buf: v.bufs[regionOpen], IOVA: 1 << 32, Access: openAccess, Invalidatable: true, Durable: true})
	rig.Must(v.T, err)
	v.regions[regionOpen], v.frozen[regionOpen], v.keys[regionOpen] = mr, nil, ib.RKey(mr.LKey())
	v.MR = mr
}

// flush lets the adapter transmit, unless it is blocked, and checks its
// packets.
func (v *victim) flush() {
	v.follow()
	if v.hold {
		return
	}
	for rounds := 0; ; rounds++ {
		if rounds == 1<<13 {
			v.T.Fatal("the adapter does not stop sending")
		}
		before, count := v.End().State(), v.Counters().SentPkts
		more := v.HCA.Single().Transmit(v.Now, v.Batch)
		for _, run := range v.Batch.Pending() {
			for k := range run.Count {
				p := v.Parse(&run, k)
				v.inspect(&p, before)
				count++
			}
		}
		v.Batch.Reset()
		if n := v.Counters().SentPkts; n != count {
			v.T.Fatalf("%d packets are counted as sent, %d were", n, count)
		}
		if !more {
			return
		}
	}
}

// services are the opcode classes of the QP types.
var services = map[ib.QPType]roce.Service{
	ib.RC: roce.ServiceRC, ib.UC: roce.ServiceUC, ib.UD: roce.ServiceUD, ib.GSI: roce.ServiceUD, ib.RD: roce.ServiceRD,
	ib.XRCIni: roce.ServiceXRC,
}

// inspect checks a packet that was sent in state st: requests leave in RTS and
// SQD only, answers also in RTR and SQE, all of them to the peer's QP, within
// the path MTU and the sequence numbers given out, and without a byte that the
// peer may not read.
func (v *victim) inspect(p *roce.Packet, st ib.QPState) {
	a := v.End().Query()
	response := p.Info.Flags&roce.FlagResponse != 0
	switch {
	case st < ib.RTR || st == ib.ERR, !response && st != ib.RTS && st != ib.SQD:
		v.T.Fatalf("%v leaves in %v", p.BTH.Opcode, st)
	case p.Info.Service != services[v.QP.Type()]:
		v.T.Fatalf("%v leaves from a %v queue pair", p.BTH.Opcode, v.QP.Type())
	case v.EEC != nil && p.RDETH.EEC != uint32(a.DestQPN):
		v.T.Fatalf("a packet for EE context %v, that of the peer is %v", p.RDETH.EEC, a.DestQPN)
	case v.handle == 0 && v.EEC == nil && p.BTH.DestQP != a.DestQPN:
		v.T.Fatalf("a packet for QP %v, the peer is %v", p.BTH.DestQP, a.DestQPN)
	case bytes.Contains(p.Payload, []byte(fuzzSecret)):
		v.T.Fatalf("%v carries memory that nobody may read", p.BTH.Opcode)
	case v.handle == 0 && !v.fits(p, a.PathMTU):
		v.T.Fatalf("%v with %d bytes at a path MTU of %d", p.BTH.Opcode, len(p.Payload), a.PathMTU.Bytes())
	case !response && p.BTH.PSN.Diff(a.SQPSN) >= 0:
		v.T.Fatalf("a request with PSN %v, the next new one is %v", p.BTH.PSN, a.SQPSN)
	case response && p.BTH.PSN.Diff(a.RQPSN) > 0:
		v.T.Fatalf("%v with PSN %v, %v is expected", p.BTH.Opcode, p.BTH.PSN, a.RQPSN)
	}
	if !response {
		v.sent = append(v.sent, *p)
		v.sent = v.sent[max(0, len(v.sent)-32):]
	}
}

// fits reports whether the payload obeys the path MTU. A READ that came before
// the MTU was changed is answered as its requester counts.
func (v *victim) fits(p *roce.Packet, mtu ib.MTU) bool {
	mtus := []ib.MTU{mtu}
	if p.Info.Kind == roce.KindReadResponse {
		mtus = []ib.MTU{ib.MTU256, ib.MTU512, ib.MTU1024, ib.MTU2048, ib.MTU4096}
	}
	return slices.ContainsFunc(mtus, func(m ib.MTU) bool { return p.Info.Payload.Allows(len(p.Payload), m.Bytes()) })
}

// check looks at everything that must hold after every step.
func (v *victim) check() {
	v.T.Helper()
	v.checkMigrations()
	v.checkMemory()
	v.checkMoves()
	v.checkCounters()
	if st := v.End().State(); v.state != st {
		v.T.Fatalf("the state is %v, the moves that were recorded lead to %v", st, v.state)
	}
	if st := v.QP.State(); v.EEC != nil && v.ofQP != st {
		v.T.Fatalf("the queue pair is in %v, the moves that were recorded lead to %v", st, v.ofQP)
	}
}

// told returns how often the program got an event, or the same event of an EE
// context.
func (v *victim) told(t ib.EventType) (n int) {
	for _, e := range v.Events {
		if e.Type == t || e.EEC != 0 && e.Type == t.OfEEC() {
			n++
		}
	}
	return n
}

// checkMigrations checks that there are at most as many migrations as the program
// has armed, and at most as many failed ones as armed and loaded paths.
func (v *victim) checkMigrations() {
	n := v.told(ib.EventPathMig)
	switch failed := v.told(ib.EventPathMigErr); {
	case n > v.rearms:
		v.T.Fatalf("%d migrations after %d times REARM", n, v.rearms)
	case failed > v.rearms+v.loads:
		v.T.Fatalf("%d times PATH_MIG_ERR after %d times REARM and %d paths", failed, v.rearms, v.loads)
	}
	v.follow()
}

// follow makes the peer go where the queue pair went.
func (v *victim) follow() {
	if n := v.told(ib.EventPathMig); n > v.migrated {
		v.migrated, v.Peer = n, v.End().Query().AV.DGID.Addr()
	}
}

func (v *victim) checkMemory() {
	for i, b := range v.gaps {
		if bytes.Count(b, []byte{fuzzCanary}) != len(b) {
			v.T.Fatalf("guard %d was written to", i)
		}
	}
	for i, b := range v.frozen {
		if b != nil && !bytes.Equal(b, v.bufs[i]) {
			v.T.Fatalf("region %d, which nobody may write, has changed", i)
		}
	}
}

// softwareMoves are those of Q2 and Q3, and deviceMoves those of Q1, Q14, Q17
// and Q18, written down apart from the engine's table.
var (
	softwareMoves = map[ib.QPState][]ib.QPState{
		ib.RESET: {ib.RESET, ib.INIT, ib.ERR},
		ib.INIT:  {ib.RESET, ib.INIT, ib.RTR, ib.ERR},
		ib.RTR:   {ib.RESET, ib.RTS, ib.ERR},
		ib.RTS:   {ib.RESET, ib.RTS, ib.SQD, ib.ERR},
		ib.SQD:   {ib.RESET, ib.RTS, ib.SQD, ib.ERR},
		ib.SQE:   {ib.RESET, ib.RTS, ib.ERR},
		ib.ERR:   {ib.RESET, ib.ERR},
	}
	deviceMoves = map[ib.QPState][]ib.QPState{
		ib.RTR: {ib.ERR}, ib.RTS: {ib.SQE, ib.ERR}, ib.SQD: {ib.SQE, ib.ERR}, ib.SQE: {ib.ERR},
	}
)

// checkMoves follows the moves since the last step. Only a CQ that overflowed
// takes a QP from INIT to ERR, and RC, XRC and EE contexts never enter SQE.
func (v *victim) checkMoves() {
	for _, m := range v.Moves {
		typ, state := v.QP.Type(), &v.state
		switch {
		case m.EEC:
			typ = ib.EEC
		case v.EEC != nil:
			state = &v.ofQP
		}
		legal := slices.Contains(deviceMoves[m.From], m.To) && !(m.To == ib.SQE && (typ == ib.RC || typ == ib.EEC || typ == ib.XRCIni))
		switch {
		case m.Cause == "modify":
			legal = slices.Contains(softwareMoves[m.From], m.To) && !(m.From == ib.SQE && typ == ib.EEC)
		case m.From == ib.INIT && m.To == ib.ERR:
			legal = v.CQ.Failed()
		}
		if !legal || m.From != *state || m.Kind != trace.State {
			v.T.Fatalf("a %v queue pair in %v moves from %v to %v: %s", typ, *state, m.From, m.To, m.Cause)
		}
		*state = m.To
	}
	v.Moves = v.Moves[:0]
}

// checkCounters checks that no counter has decreased. The structure has only
// 64-bit counts.
func (v *victim) checkCounters() {
	now := v.Counters()
	const n = unsafe.Sizeof(now) / 8
	old := (*[n]uint64)(unsafe.Pointer(&v.counts))
	for i, c := range (*[n]uint64)(unsafe.Pointer(&now)) {
		if c < old[i] {
			v.T.Fatalf("counter %d went from %d to %d", i, old[i], c)
		}
	}
	v.counts = now
}

// deliverWire hands a sealed datagram to the adapter. It takes the queue pair, or
// EE context, to its alternate path only if it comes from there and says so, and
// changes nothing there at all if it comes from elsewhere.
func (v *victim) deliverWire(d fabric.Datagram) {
	d.IDKnown = !v.hidden
	v.last = d
	v.arrivals++
	before, told := v.End().Query(), v.told(ib.EventPathMig)
	v.Deliver(d)
	after := v.End().Query()
	if v.End().State() == ib.RESET || before.State == ib.RESET {
		return
	}
	if a := before.AltAV.DGID.Addr(); v.reliable() && d.Src != v.Peer && d.Src != a && after != before {
		v.T.Fatalf("a datagram from %v, which is neither %v nor %v, has an effect: %+v, before %+v", d.Src, v.Peer, a, after, before)
	}
	if v.reliable() && after.RQPSN != before.RQPSN && !v.inReach(&d, before.RQPSN) {
		v.T.Fatalf("PSN %v was expected, and is %v after a datagram without it", before.RQPSN, after.RQPSN)
	}
	if v.told(ib.EventPathMig) == told {
		return
	}
	if before.PathMigState == ib.MIGRATED || d.Src != before.AltAV.DGID.Addr() || !saysMoved(&d) {
		v.T.Fatalf("a datagram from %v takes a queue pair that is %v to its path to %v", d.Src, before.PathMigState, before.AltAV.DGID.Addr())
	}
}

// reliable reports whether the victim is of a connected service that acknowledges.
func (v *victim) reliable() bool {
	return v.QP.Type() == ib.RC || v.EEC != nil || v.QP.Type() == ib.XRCIni
}

// resyncReach is how far ahead a RESYNC may be.
const resyncReach = 1 << 15

// inReach reports whether a packet of a datagram has the PSN that is expected, or
// is a RESYNC that is ahead of it by no more than what can be under way.
func (v *victim) inReach(d *fabric.Datagram, expected ib.PSN) bool {
	for off := 0; off < len(d.Bytes); {
		seg, next := d.Segment(off)
		var p roce.Packet
		if p.Parse(seg) == roce.FaultNone {
			ahead := p.BTH.PSN.Diff(expected)
			if ahead == 0 || p.Info.Kind == roce.KindResync && ahead > 0 && ahead < resyncReach {
				return true
			}
		}
		off = next
	}
	return false
}

// saysMoved reports whether a packet of a datagram has MigReq set.
func saysMoved(d *fabric.Datagram) bool {
	for off := 0; off < len(d.Bytes); {
		seg, next := d.Segment(off)
		if len(seg) > 1 && seg[1]&0x40 != 0 {
			return true
		}
		off = next
	}
	return false
}

// reap takes the completions: each is of the oldest work request of its queue
// that may still complete, with a status that exists for it.
func (v *victim) reap() {
	v.T.Helper()
	for _, wc := range v.Poll() {
		if wc.QPN != v.QP.Num() {
			v.T.Fatalf("completion %+v names another QP than %v", wc, v.QP.Num())
		}
		if !v.sends.complete(wc) && !v.recvs.complete(wc) {
			v.T.Fatalf("completion %+v; posted are sends %v, receives %v", wc, v.sends, v.recvs)
		}
	}
}

// finish lets the peer fall silent for an hour, until nothing moves, and then
// destroys the queue pair, of which nothing is left.
func (v *victim) finish() {
	v.T.Helper()
	v.hold, v.Batch = false, v.roomy
	end := v.Now.Add(3600e9)
	for n := 0; ; n++ {
		v.flush()
		v.check()
		v.reap()
		next := v.HCA.Single().Deadline()
		if next > end {
			break
		}
		if n == 1<<12 {
			v.T.Fatal("the adapter does not come to rest")
		}
		v.advance(max(v.Now, next))
	}
	if v.arrivals%4 == 0 { // it takes longer than all the rest
		v.weigh()
	}
	v.checkRest()
	v.HCA.DestroyQP(v.PD, v.QP)
	v.windowed.close(v)
	if v.EEC != nil {
		v.destroyEEC()
	}
	before := v.Counters()
	v.Deliver(v.Datagram(v.Packet(roce.RCSendOnly, 0, nil)))
	after := v.Counters()
	if before.Drops[deadDrop(v.Solo)]++; after != before || len(v.Out()) != 0 || len(v.Poll()) != 0 {
		v.T.Fatalf("a queue pair that was destroyed acts: %+v, before %+v", after, before)
	}
}

// destroyEEC ends the EE context, and with it all that acts for the peer.
func (v *victim) destroyEEC() {
	v.T.Helper()
	v.HCA.DestroyEEC(v.Now, v.EEC)
	rig.Must(v.T, v.HCA.DeallocRDD(v.RDD))
	before := v.Counters().Drops[counters.DropNoEEC]
	v.Deliver(v.Datagram(v.Packet(roce.RDSendOnly, 0, nil)))
	if n := v.Counters().Drops[counters.DropNoEEC] - before; n != 1 || len(v.Out()) != 0 {
		v.T.Fatalf("an EE context that was destroyed acts: %d packets are for nobody, want 1", n)
	}
}

// deadDrop is how a SEND to the queue pair counts once it is destroyed: QP1 is
// the adapter's own again, and no connected service.
func deadDrop(s *rig.Solo) counters.Drop {
	if s.QP.Type() == ib.GSI {
		return counters.DropService
	}
	return counters.DropNoQP
}

// weigh bounds what the adapter holds in memory.
func (v *victim) weigh() {
	if n := footprint(v.HCA); n > maxFootprint {
		v.T.Fatalf("the adapter has grown to %d bytes", n)
	}
}

// checkRest checks what must be complete when nothing moves any more: every
// send that the state lets begin, the draining of SQD, both queues in ERR.
func (v *victim) checkRest() {
	v.T.Helper()
	a := v.End().Query()
	if v.CQ.Failed() || a.Timeout == 0 && v.reliable() {
		return // completions were lost, or the program asked for no timeout
	}
	if v.EEC != nil && v.End().State() == ib.SQD {
		if a.SQDraining {
			v.T.Fatal("the EE context never drains")
		}
		return // what was posted waits
	}
	st := v.QP.State()
	switch {
	case (st == ib.RTS || st == ib.SQE || st == ib.ERR) && v.sends.waits():
		v.T.Fatalf("sends %v never complete in %v", v.sends, st)
	case st == ib.ERR && v.SRQ == nil && v.recvs.waits():
		v.T.Fatalf("receives %v are never flushed", v.recvs)
	case st == ib.SQD && v.QP.Query().SQDraining:
		v.T.Fatal("the send queue never drains")
	}
}

// advance moves time on and fires what is due.
func (v *victim) advance(to clock.Instant) {
	v.Now = to
	v.HCA.Single().Advance(to)
	if d := v.HCA.Single().Deadline(); d <= to {
		v.T.Fatalf("after Advance to %d the deadline is %d", to, d)
	}
}

// backlog is what was posted to a queue and may still complete, oldest first.
type backlog []posted

// posted is a work request.
type posted struct {
	id         uint64
	unsignaled bool // completes only in error
	lost       bool // a RESET may have taken it away
}

// quiet reports whether there may be no completion.
func (p posted) quiet() bool { return p.unsignaled || p.lost }

// complete takes the work request of a completion out, and the quiet ones
// before it, and reports whether it was there.
func (b *backlog) complete(wc ib.WC) bool {
	i := slices.IndexFunc(*b, func(p posted) bool { return p.id == wc.WRID })
	if i < 0 || (*b)[:i].waits() || (*b)[i].unsignaled && wc.Status == ib.WCSuccess {
		return false
	}
	*b = (*b)[i+1:]
	return true
}

// waits reports whether something must still complete.
func (b backlog) waits() bool {
	return slices.ContainsFunc(b, func(p posted) bool { return !p.quiet() })
}

// lose marks everything as what may be gone.
func (b backlog) lose() {
	for i := range b {
		b[i].lost = true
	}
}

// noticed is a test whose failure is a panic.
type noticed struct{ testing.TB }

func (n noticed) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (n noticed) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

// TestVictimNotices does to a victim what its checks are for.
func TestVictimNotices(t *testing.T) {
	for want, harm := range map[string]func(*victim){
		"guard 1 was written":    func(v *victim) { v.gaps[1][3]++ },
		"which nobody may write": func(v *victim) { v.bufs[regionPrivate][0]++ },
		"moves from RTS to INIT": func(v *victim) {
			v.Moves = append(v.Moves, trace.Record{Kind: trace.State, From: ib.RTS, To: ib.INIT, Cause: "modify"})
		},
		"moves from RTS to SQE": func(v *victim) {
			v.Moves = append(v.Moves, trace.Record{Kind: trace.State, From: ib.RTS, To: ib.SQE, Cause: "local error"})
		},
		"that were recorded lead": func(v *victim) { v.state = ib.SQD },
		"counter 0 went from":     func(v *victim) { v.counts.SentPkts = 1 << 40 },
		"posted are sends":        func(v *victim) { v.stepRecv(&program{}); v.recvs = nil; v.Modify(ib.ERR); v.check(); v.reap() },
		"which is neither 10.0.0.7": func(v *victim) {
			v.stepRecv(&program{})
			d := v.Datagram(v.Packet(roce.RCSendOnly, rig.PeerPSN, nil))
			v.Peer = netip.MustParseAddr("10.0.0.7") // the sender is not the peer
			v.deliverWire(d)
		},
		"1 migrations after 0":  func(v *victim) { v.Events = append(v.Events, qp.Event{Type: ib.EventPathMig}); v.check() },
		"1 times PATH_MIG_ERR":  func(v *victim) { v.Events = append(v.Events, qp.Event{Type: ib.EventPathMigErr}); v.check() },
		"never complete":        func(v *victim) { v.sends = append(v.sends, posted{id: 7}); v.finish() },
		"the adapter has grown": func(v *victim) { v.HCA.Cfg().PKeys = make([]ib.PKey, maxFootprint/2); v.weigh() },
		"leaves in RTR":         func(v *victim) { p := v.packetOut(roce.RCSendOnly); v.inspect(&p, ib.RTR) },
		"leaves in ERR":         func(v *victim) { p := v.packetOut(roce.RCAcknowledge); v.inspect(&p, ib.ERR) },
		"leaves from a RC":      func(v *victim) { p := v.packetOut(roce.UCSendOnly); v.inspect(&p, ib.RTS) },
		"memory that nobody may": func(v *victim) {
			p := v.packetOut(roce.RCSendOnly)
			p.Payload = []byte("-" + fuzzSecret)
			v.inspect(&p, ib.RTS)
		},
		"with 257 bytes at a path": func(v *victim) {
			p := v.packetOut(roce.RCSendOnly)
			p.Payload = make([]byte, 257)
			v.inspect(&p, ib.RTS)
		},
		"the next new one is": func(v *victim) {
			p := v.packetOut(roce.RCSendOnly)
			p.BTH.PSN = v.QP.Query().SQPSN
			v.inspect(&p, ib.RTS)
		},
		"the peer is 0x777777": func(v *victim) { p := v.packetOut(roce.RCSendOnly); p.BTH.DestQP--; v.inspect(&p, ib.RTS) },
	} {
		v := newVictim(t, &program{b: []byte{0, 3, 0, 0}})
		v.check()
		v.T = noticed{t}
		if got := complaint(v, harm); !strings.Contains(got, want) {
			t.Errorf("want a complaint with %q, got %q", want, got)
		}
	}
}

// complaint returns the failure that harm leads to.
func complaint(v *victim, harm func(*victim)) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	harm(v)
	v.check()
	return ""
}

// packetOut is a packet as the victim might have sent it.
func (v *victim) packetOut(op roce.Opcode) roce.Packet {
	p := v.Packet(op, v.QP.Query().SQPSN.Prev().Value(), nil)
	p.BTH.DestQP, p.Info = rig.PeerQPN, op.Info()
	return p
}
