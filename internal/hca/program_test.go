package hca_test

import (
	"bytes"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// program is an attack in bytes: four that choose the victim, then
// instructions, each a byte that says which and the bytes that it reads. Any
// bytes are a program; behind their end come zeros. Sequence numbers, keys
// and addresses count from what the victim has, or no fuzzer would get past
// them.
type program struct {
	b   []byte
	off int
}

// maxSteps bounds the instructions of a program.
const maxSteps = 96

func (p *program) byte() byte {
	if p.off >= len(p.b) {
		return 0
	}
	p.off++
	return p.b[p.off-1]
}

func (p *program) uint16() uint16 { return uint16(p.byte())<<8 | uint16(p.byte()) }

// take returns up to n of the bytes that are left.
func (p *program) take(n int) []byte {
	n = min(n, len(p.b)-p.off)
	p.off += n
	return p.b[p.off-n : p.off]
}

// instruction is what a step of a program does.
type instruction byte

// The instructions.
const (
	stepPacket  instruction = iota // one packet, field by field
	stepMessage                    // a whole message, with one packet lost, doubled or swapped
	stepAnswer                     // what a request that was sent asks for, or not quite
	stepRaw                        // a packet as it stands in the program
	stepDamaged                    // the last packet again, changed after it was sealed
	stepWait                       // time passes
	stepTimer                      // time passes to the next deadline
	stepSend                       // a send is posted
	stepRecv                       // a receive is posted
	stepMove                       // a legal move with the attributes that it takes
	stepModify                     // a modify call of any kind
	stepHold                       // transmitting is stopped or goes on, with more or less room
	stepRegion                     // the open region is deregistered or registered again
	stepPoll                       // the program takes its completions
	stepWindow                     // a memory window is freed, and another allocated
	stepWritten                    // the memory of a FLUSH has been written back, or could not be
	numInstructions
)

// run carries the program out.
func (p *program) run(v *victim) {
	for n := 0; p.off < len(p.b) && n < maxSteps; n++ {
		switch i := instruction(p.byte()) % numInstructions; i {
		case stepPacket:
			v.stepPacket(p)
		case stepMessage:
			v.stepMessage(p)
		case stepAnswer:
			v.stepAnswer(p)
		case stepRaw:
			b := p.take(int(p.uint16() & 0x3ff))
			v.arrive(v.aim(b))
		case stepDamaged:
			v.stepDamaged(p)
		case stepWait:
			v.advance(v.Now.Add(time.Microsecond << (p.byte() & 31)))
		case stepTimer:
			if d := v.HCA.Single().Deadline(); d != clock.Never {
				v.advance(max(v.Now, d))
			}
		case stepSend:
			v.stepSend(p)
		case stepRecv:
			v.stepRecv(p)
		case stepMove, stepModify:
			v.stepModify(p, i == stepMove)
		case stepHold:
			arg := p.byte()
			v.hold, v.Batch = arg&1 != 0, v.roomy
			if arg&2 != 0 {
				v.Batch = v.tight
			}
		case stepRegion:
			v.toggle()
		case stepPoll:
			v.stepPoll(p.byte())
		case stepWindow:
			v.windowed.replace(v, p.byte())
		case stepWritten:
			v.windowed.written(v, p.byte())
		}
		v.flush()
		v.check()
	}
}

// arrive seals bytes that end with room for the ICRC and delivers them. What
// is too short for a packet arrives as it is.
func (v *victim) arrive(b []byte) {
	if len(b) < roce.MinSize {
		d := v.Sealed(make([]byte, roce.MinSize))
		d.Bytes = d.Bytes[:len(b)]
		v.deliverWire(d)
		return
	}
	v.deliverWire(v.Sealed(b))
}

// stepPacket delivers packets of one opcode with consecutive PSNs, merged
// into one datagram as the kernel does it if there are several.
func (v *victim) stepPacket(p *program) {
	q, count := v.build(p)
	how := p.byte()
	value := byte(q.Imm)
	var all []byte
	switch how & 15 {
	case 6: // it names an EE context that is not there,
		q.RDETH.EEC ^= uint32(value) + 1
	case 7: // or another queue pair
		q.BTH.DestQP ^= ib.QPN(value) + 1
	}
	for range count {
		out := make([]byte, roce.Size(q.BTH.Opcode, len(q.Payload)))
		q.Build(out)
		switch how & 15 {
		case 1:
			out[1] ^= 0x10 // the pad count is wrong
		case 2:
			out[1] ^= p.byte() & 15 // the transport version is
		case 3:
			out = out[:max(roce.MinSize, len(out)-int(p.byte()))]
		case 4:
			out = append(out, make([]byte, p.byte()&7)...)
		}
		d := v.Sealed(out)
		if how&15 == 5 || how&15 == 8 { // a stranger sends it, perhaps from the peer's alternate address
			if d.Src = d.Src.Next(); how&15 == 8 {
				d.Src = d.Src.Next()
			}
			roce.Seal(out, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(out)).WithID(d.ID))
		}
		if count == 1 || how&15 > 2 {
			v.deliverWire(d)
		} else {
			all = append(all, d.Bytes...)
		}
		q.BTH.PSN = q.BTH.PSN.Next()
	}
	if all != nil {
		d := v.Sealed(make([]byte, roce.MinSize)) // for its addresses
		d.ID, d.Bytes, d.Stride = d.ID-uint16(count), all, len(all)/count
		v.deliverWire(d)
		v.last.Bytes = nil
		v.arrivals += count - 1
	}
}

// build makes a packet from seven bytes of the program.
func (v *victim) build(p *program) (q roce.Packet, count int) {
	op, dpsn, where, size, flags, syndrome, value := roce.Opcode(p.byte()), p.byte(), p.byte(), p.byte(), p.byte(), p.byte(), p.byte()
	info := op.Info()
	a := v.End().Query()
	base := a.RQPSN
	if info.Flags&roce.FlagResponse != 0 {
		base = a.SQPSN.Add(uint32(-(int(value) & 15)))
	}
	payload := v.payload(size)
	if info.Known && info.Payload == roce.PayloadNone {
		payload = nil
	}
	q = v.Packet(op, base.Add(uint32(int8(dpsn))).Value(), payload)
	q.RETH.RKey, q.RETH.VA = v.target(where)
	q.AtomicETH = roce.AtomicETH{VA: q.RETH.VA, RKey: q.RETH.RKey, SwapAdd: uint64(value), Compare: uint64(syndrome)}
	q.InvRKey, q.Imm, q.AtomicAck = q.RETH.RKey, uint32(value), uint64(value)
	q.RETH.Length = v.length(size, value)
	q.FETH = roce.FETH{Placement: value & 7, Selectivity: syndrome & 3}
	q.AETH = roce.AETH{Syndrome: roce.Syndrome(syndrome), MSN: ib.MSN(value)}
	q.BTH.AckReq, q.BTH.SE, q.BTH.MigReq = flags&1 != 0, flags&2 != 0, flags&4 != 0
	if flags&24 == 24 {
		q.BTH.PKey ^= 0x0101
	}
	if flags&96 == 96 {
		q.DETH.QKey++
	}
	count = 1
	if flags&128 != 0 {
		count = 1 + int(value&7)
	}
	return q, count
}

// payload returns as many bytes as the low bits of a code say: around the
// path MTU, or few.
func (v *victim) payload(code byte) []byte {
	mtu := max(256, v.End().Query().PathMTU.Bytes())
	n := []int{mtu, 0, 1, 4, 8, mtu - 1, mtu + 1, mtu / 2, 24, 3, mtu, mtu, 16, mtu * 2, 5, 256}[code&15]
	return bytes.Repeat([]byte{code | 1}, n)
}

// length returns a DMA length: what the payload has, or some packets, or far
// too much.
func (v *victim) length(code, value byte) uint32 {
	mtu := uint32(max(256, v.End().Query().PathMTU.Bytes()))
	switch code >> 4 {
	case 0, 1, 2, 3:
		return uint32(len(v.payload(code)))
	case 12:
		return qp.MaxMessage
	case 13:
		return qp.MaxMessage + 1
	case 14:
		return -uint32(value)
	case 15:
		return 0
	default:
		return mtu*uint32(code>>4-3) + uint32(value&3) - 1
	}
}

// target returns a key and an address: of a region or a window, at its edges, or a stale key.
func (v *victim) target(code byte) (ib.RKey, uint64) {
	if code&15 == 7 {
		return v.windowed.key(code >> 4)
	}
	i := []int{regionOpen, regionRead, regionWrite, regionPrivate, regionForeign, regionInbox, regionOpen, regionOpen}[code&7]
	key, n := v.keys[i], uint64(len(v.bufs[i]))
	if code&7 == 6 {
		key = v.stale
	}
	off := []uint64{0, 8, 16, 64, 1, n - 8, n - 1, n, n - 256, n - 512, n - 255, ^uint64(0), 1 << 31, 1 << 63, 512, 1024}[code>>4]
	va := uint64(i+1)<<32 + off
	if code&8 != 0 && code>>4 > 10 {
		va = off
	}
	return key, va
}

// aim makes a packet that stands in the program one for the queue pair: its
// destination and keys are set, its PSN counts from what is expected.
func (v *victim) aim(b []byte) []byte {
	b = append(bytes.Clone(b), 0, 0, 0, 0) // room for the ICRC
	var p roce.Packet
	if p.Parse(b) != roce.FaultNone {
		return b
	}
	base := v.Attr.RQPSN
	if p.Info.Flags&roce.FlagResponse != 0 {
		base = v.Attr.SQPSN
	}
	p.BTH.DestQP = v.QP.Num()
	p.BTH.PSN = base.Add(p.BTH.PSN.Value())
	if p.BTH.PKey&1 == 1 {
		p.BTH.PKey = ib.PKeyDefault
	}
	if p.DETH.QKey == rig.QKey {
		p.DETH.QKey = v.Attr.QKey
	}
	for _, key := range []*ib.RKey{&p.RETH.RKey, &p.AtomicETH.RKey, &p.InvRKey} {
		if *key == fuzzKey {
			*key = v.keys[regionOpen]
		}
	}
	for _, va := range []*uint64{&p.RETH.VA, &p.AtomicETH.VA} {
		if *va < 1<<16 {
			*va += 1 << 32
		}
	}
	pad := p.BTH.PadCnt
	out := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(out)
	out[1] = out[1]&^0x30 | pad<<4 // a wrong pad count is worth a try
	return out
}

// stepMessage delivers a message of one operation packet by packet, all of it
// legal but for one accident.
func (v *victim) stepMessage(p *program) {
	kind, size, where, accident := p.byte(), p.byte(), p.byte(), p.byte()
	mtu := max(256, v.End().Query().PathMTU.Bytes())
	n := []int{0, 1, mtu, mtu + 1, 3 * mtu, 4 * mtu, 100, 8}[size&7]
	ops := [][4]roce.Opcode{
		{roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLast, roce.RCSendOnly},
		{roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLast, roce.RCRDMAWriteOnly},
		{roce.RCRDMAWriteFirst, roce.RCRDMAWriteMiddle, roce.RCRDMAWriteLastWithImm, roce.RCRDMAWriteOnlyWithImm},
		{roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastWithInvalidate, roce.RCSendOnlyWithInvalidate},
	}[kind&3]
	var list []roce.Packet
	psn := v.End().Query().RQPSN.Value()
	for off := 0; off == 0 || off < n; off += mtu {
		part := bytes.Repeat([]byte{kind | 1}, min(n-off, mtu))
		i := 1
		switch first, last := off == 0, off+mtu >= n; {
		case first && last:
			i = 3
		case first:
			i = 0
		case last:
			i = 2
		}
		op := ops[i]
		switch {
		case v.QP.Type() == ib.UC:
			op |= roce.UCSendFirst
		case v.reliable():
			op |= roce.Opcode(services[v.QP.Type()]) << 5
		case v.handle != 0:
			op = roce.UDSendOnly + roce.Opcode(kind>>2&1)
		}
		q := v.Packet(op, psn+uint32(len(list)), part)
		q.RETH.RKey, q.RETH.VA = v.target(where)
		q.RETH.Length, q.InvRKey = uint32(n), v.keys[regionOpen]
		list = append(list, q)
	}
	at := int(accident>>3) % len(list)
	switch accident & 7 {
	case 1:
		list = append(list[:at], list[at+1:]...)
	case 2:
		list = append(list, list[at])
	case 3:
		list[at], list[len(list)-1] = list[len(list)-1], list[at]
	case 4:
		list[at].RETH.Length++
	}
	for i := range list {
		v.deliverWire(v.Datagram(list[i]))
		if accident&7 == 5 && i == at {
			v.toggle() // the region goes in the middle
		}
	}
}

// stepPoll takes the completions, or asks for an event, or resizes the CQ,
// which fails when entries wait that would not fit.
func (v *victim) stepPoll(what byte) {
	switch waiting := v.CQ.Pending(); what & 3 {
	case 1:
		v.CQ.Arm(what&4 != 0)
	case 2:
		err := v.HCA.CQs().Resize(v.CQ, uint32(what))
		if n := v.CQ.Pending(); n != waiting || err != nil && int(what) >= waiting || err == nil && int(v.CQ.Cap()) < waiting {
			v.T.Fatalf("a CQ with %d entries waiting is resized to %d: %v; %d wait", waiting, what, err, n)
		}
	default:
		v.reap()
	}
}

// stepAnswer answers a request that the victim sent: a READ with its
// responses, an atomic with its result, anything else with an ACKNOWLEDGE; or
// with another kind of answer, or not all of it, or too much.
func (v *victim) stepAnswer(p *program) {
	which, dpsn, syndrome, msn := p.byte(), p.byte(), p.byte(), p.byte()
	if len(v.sent) == 0 {
		return
	}
	q := &v.sent[len(v.sent)-1-int(which&15)%len(v.sent)]
	psn := q.BTH.PSN.Add(uint32(int8(dpsn))).Value()
	kind := q.Info.Kind
	if which&16 != 0 {
		kind = []roce.Kind{roce.KindAck, roce.KindReadRequest, roce.KindFetchAdd, roce.KindAck}[msn&3]
	}
	var list []roce.Packet
	switch answer, _ := kind.Answer(); answer {
	case roce.KindReadResponse:
		list = v.readResponses(psn, int(min(q.RETH.Length, 8<<10)))
	case roce.KindAtomicAck:
		list = append(list, v.Answer(roce.RCAtomicAcknowledge, psn, 0, nil))
	default:
		list = append(list, v.AckTo(psn, 0))
	}
	at := int(msn) % len(list)
	switch which >> 5 {
	case 1:
		list = append(list[:at], list[at+1:]...)
	case 2:
		list[at].Payload = append(bytes.Clone(list[at].Payload), 1)
	case 3:
		list[at].BTH.Opcode = roce.RCRDMAReadResponseMiddle
	case 4:
		list = list[:at]
	}
	for i := range list {
		list[i].AETH = roce.AETH{Syndrome: roce.Syndrome(syndrome), MSN: ib.MSN(msn)}
		if v.reliable() {
			list[i].BTH.Opcode |= roce.Opcode(services[v.QP.Type()]) << 5
		}
		v.deliverWire(v.Datagram(list[i]))
	}
}

// readResponses returns the responses to a READ of n bytes.
func (v *victim) readResponses(psn uint32, n int) (list []roce.Packet) {
	mtu := max(256, v.End().Query().PathMTU.Bytes())
	for first := true; first || n > 0; first = false {
		part := min(n, mtu)
		n -= part
		op := roce.RCRDMAReadResponseMiddle
		switch {
		case first && n == 0:
			op = roce.RCRDMAReadResponseOnly
		case first:
			op = roce.RCRDMAReadResponseFirst
		case n == 0:
			op = roce.RCRDMAReadResponseLast
		}
		list = append(list, v.Answer(op, psn+uint32(len(list)), 0, bytes.Repeat([]byte{0x77}, part)))
	}
	return list
}

// stepDamaged delivers the last packet again with a byte changed behind its
// ICRC's back. That has no effect but a count. The byte that the ICRC does
// not cover is left alone. With a hidden identification one change of 65536
// passes, so nothing is asked there but what check asks.
func (v *victim) stepDamaged(p *program) {
	at, flip := int(p.uint16()), p.byte()|1
	d := v.last
	if len(d.Bytes) < roce.MinSize || at%len(d.Bytes) == 4 {
		return
	}
	d.Bytes = bytes.Clone(d.Bytes)
	d.Bytes[at%len(d.Bytes)] ^= flip
	before, attr := v.Counters(), v.End().Query()
	v.arrivals++
	v.Deliver(d)
	if after := v.Counters(); !v.hidden && (after.RcvdPkts != before.RcvdPkts || v.End().Query() != attr) {
		v.T.Fatalf("a packet with byte %d changed by %#x has an effect: %+v, before %+v", at%len(d.Bytes), flip, after, before)
	}
}

// stepSend posts a send with its memory in a slot of the inbox.
func (v *victim) stepSend(p *program) {
	op, size, where, flags := p.byte(), p.byte(), p.byte(), p.byte()
	kinds := []ib.WROpcode{
		ib.WRSend, ib.WRRDMAWrite, ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAdd, ib.WRSendWithImm, ib.WRRDMAWriteWithImm, ib.WRSendWithInv,
		ib.WRAtomicWrite, ib.WRFlush, ib.WRBindMW, ib.WRLocalInv, ib.WRBindMW, ib.WRLocalInv, ib.WRFlush, ib.WRAtomicWrite,
	}
	id := v.nextID
	n := []int{8, 0, 1, 256, 300, 384, 64, 383}[size&7]
	wr := ib.SendWR{
		WRID: id, Opcode: kinds[op&15], SGList: []ib.SGE{v.slot(id, n, size&0xf8 == 0xf8)}, RKey: ib.RKey(where), RemoteAddr: uint64(where) << 8,
		Flags: ib.SendFlags(flags & 7), AH: v.handle, RemoteQPN: rig.PeerQPN, RemoteQKey: rig.QKey, CompareAdd: uint64(size), ImmData: uint32(flags),
		RemoteSRQN: ib.SRQN(where),
	}
	if op&16 != 0 {
		wr.SGList, wr.Flags, wr.InlineData = nil, wr.Flags|ib.SendInline, make([]byte, n)
	}
	switch wr.Opcode {
	case ib.WRBindMW, ib.WRLocalInv:
		v.windowed.local(v, &wr, size, where, flags)
	case ib.WRFlush:
		wr.SGList, wr.Flush = nil, ib.Flush{Type: ib.FlushType(where), Level: ib.FlushLevel(where >> 4), Length: uint32(size)}
	}
	if v.EEC != nil {
		wr.EEC = v.EEC.Num()
	}
	if op&32 != 0 && where&1 != 0 { // a handle, or an EE context, that is gone
		wr.AH += 1 << 24
		wr.EEC ^= 1
	}
	if _, err := v.QP.PostSend(wr); err == nil {
		v.nextID++
		v.sends = append(v.sends, posted{id: id, unsignaled: v.unsig && wr.Flags&ib.SendSignaled == 0})
	}
	v.HCA.Single().RingDoorbell(v.QP)
}

// slot returns an element of n bytes of the inbox, with a bad lkey if asked.
func (v *victim) slot(id uint64, n int, bad bool) ib.SGE {
	e := ib.SGE{Addr: v.regions[regionInbox].Addr() + id%fuzzSlots*fuzzSlot, Length: uint32(n), LKey: v.regions[regionInbox].LKey()}
	if bad {
		e.LKey++
	}
	return e
}

// stepRecv posts a receive.
func (v *victim) stepRecv(p *program) {
	size := p.byte()
	id := v.nextID
	n := []int{300, 384, 0, 41, 256, 40, 48, 384}[size&7]
	wr := ib.RecvWR{WRID: id, SGList: []ib.SGE{v.slot(id, n, size&0xf0 == 0xf0)}}
	var err error
	if v.SRQ != nil {
		err = v.SRQ.PostRecv(&wr)
	} else {
		_, err = v.QP.PostRecv(wr)
	}
	if err == nil {
		v.nextID++
		v.recvs = append(v.recvs, posted{id: id})
	}
	v.HCA.Single().RingDoorbell(v.QP)
}

// stepModify makes a modify call, of the queue pair or its EE context: a legal one,
// or one with any mask. A call that is refused changes nothing (V9).
func (v *victim) stepModify(p *program, legal bool) {
	to, what := ib.QPState(p.byte()%(ib.NumQPStates+1)), p.byte()
	e, typ, modify := &v.QP.End, v.QP.Type(), v.QP.Modify
	if v.EEC != nil && what&16 == 0 {
		e, typ, modify = &v.EEC.End, ib.EEC, v.EEC.Modify
	}
	from := e.State()
	need, may, _ := qp.Transition(typ, from, to)
	mask := ib.AttrMask(uint32(p.uint16())<<16|uint32(p.uint16())) & ib.AttrAll
	if legal {
		mask = need | may&mask&^(ib.AttrCap|ib.AttrCurState) | ib.AttrState
	}
	a := v.variant(what)
	a.State, a.CurState = to, from
	before := e.Query()
	err := modify(v.Now, &a, mask)
	if err != nil {
		if e.Query() != before {
			v.T.Fatalf("a refused modify (%v) changes %+v to %+v", err, before, e.Query())
		}
		return
	}
	if mask&ib.AttrAltPath != 0 {
		v.loads++
	}
	if mask&ib.AttrPathMigState != 0 && a.PathMigState == ib.REARM {
		v.rearms++
	}
	if mask&ib.AttrState != 0 && to == ib.RESET && e == &v.QP.End {
		v.sends, v.sent = nil, nil
		v.recvs.lose()
		if v.SRQ == nil {
			v.recvs = nil
		}
	}
	if mask&ib.AttrAV != 0 {
		v.Peer = a.AV.DGID.Addr()
	}
}

// variant returns the attributes of the connection with some changed.
func (v *victim) variant(code byte) ib.QPAttr {
	a := v.Attr
	a.AltAV, a.AltPort, a.AltTimeout = a.AV, 1, a.Timeout
	a.AltAV.DGID = ib.GIDFromAddr(v.Peer.Next()) // the stranger's address
	a.PathMigState = [...]ib.MigState{ib.REARM, ib.REARM, ib.MIGRATED, ib.ARMED}[code>>6]
	switch code & 15 {
	case 1:
		a.RQPSN, a.SQPSN = ib.NewPSN(0xffffff), ib.NewPSN(0xfffffd)
	case 2:
		a.MaxDestRDAtomic, a.MaxRDAtomic = code>>4, code>>5
	case 3:
		a.Timeout, a.RetryCnt, a.RNRRetry = code>>4, code>>5, code>>5
	case 4:
		a.PathMTU = ib.MTU(code >> 4)
	case 5:
		a.AccessFlags = ib.Access(code>>4) &^ ib.AccessMWBind
	case 6:
		a.AV.DGID = ib.GIDFromAddr(v.Peer.Next())
	case 7:
		a.DestQPN, a.MinRNRTimer = ib.QPN(code), code>>3
	case 8:
		a.QKey ^= ib.QKey(code >> 4)
	case 9:
		a.EnSQDAsyncNotify = true
	case 10:
		a.AV.HopLimit, a.PKeyIndex = code>>6, uint16(code>>7)
	}
	return a
}
