package qp

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/roce"
)

// queuePairTypes are the services of queue pairs.
var queuePairTypes = [...]ib.QPType{ib.RC, ib.UC, ib.UD, ib.GSI, ib.RD, ib.XRCIni, ib.XRCTgt}

// TestRowsAreWhole shows that a row of operations that is provided has what each of its
// services asks it for, and that all others are refused.
func TestRowsAreWhole(t *testing.T) {
	provided := 0
	for k := range roce.Kind(255) {
		o := operationOf(k)
		if o.services == 0 {
			if o.execute != nil || o.answered() || o.receive.at != 0 {
				t.Errorf("%v is provided for no service and can be executed", k)
			}
			continue
		}
		provided++
		if o.encode == nil || o.execute == nil || o.psns == psnNone {
			t.Errorf("%v cannot be sent or executed", k)
		}
		if o.services&onAcknowledged != 0 && o.duplicate == nil {
			t.Errorf("%v is provided for a service that repeats requests, and a duplicate has no answer", k)
		}
		if want, ok := k.Answer(); !ok || o.answer.kind != want {
			t.Errorf("%v is answered by %v, the wire has %v for it", k, o.answer.kind, want)
		}
		if own := o.answer.kind != roce.KindAck; own != o.answered() {
			t.Errorf("%v is answered by %v, has responses of its own: %t", k, o.answer.kind, o.answered())
		}
		if o.answered() && o.services&^onReliable&^executes != 0 {
			t.Errorf("%v is answered, and provided for a service without answers", k)
		}
		if o.message != messageNone && !o.carries {
			t.Errorf("%v has messages of several packets without payload", k)
		}
		if o.answer.returns == returnsValue && !o.demand.holds(uint64(o.returned(0))) {
			t.Errorf("%v demands %d bytes and returns %d", k, o.demand.size, o.returned(0))
		}
	}
	if provided != 7 {
		t.Errorf("%d kinds of packets are provided, want SEND, WRITE, READ, COMPARE&SWAP, FETCH&ADD, ATOMIC WRITE and FLUSH", provided)
	}
}

// TestRequestsFollowTheOpcodes compares each row of requests with what the opcode table of
// the wire says of its opcodes, in each service.
func TestRequestsFollowTheOpcodes(t *testing.T) {
	for op := range ib.WROpcode(255) {
		r := requestOf(op)
		if r == nil {
			continue
		}
		o := r.operation()
		if o.local != nil {
			if r.types&^onWindows != 0 || r.opcodes != (placesOpcodes{}) || o.psns != psnNone || o.begun() != begunLocal {
				t.Errorf("%v is local, and has packets", op)
			}
			continue
		}
		for _, typ := range queuePairTypes {
			s := traitsOf(typ).service
			if r.types.has(typ) && !r.opcode(s, true, true).Info().Known {
				t.Errorf("%v: %v queue pairs may post it, and the service has no opcode for it", op, typ)
			}
			if r.types.has(typ) && !o.services.has(typ) {
				t.Errorf("%v: %v queue pairs may post it and have no %v", op, typ, r.kind)
			}
		}
		for _, place := range []roce.OpFlags{0, roce.FlagStart, roce.FlagEnd, roce.FlagStart | roce.FlagEnd} {
			start, end := place&roce.FlagStart != 0, place&roce.FlagEnd != 0
			if o.message == messageNone && !(start && end) {
				continue
			}
			want := place
			if end {
				want |= r.flags
			}
			if i := r.opcode(roce.ServiceRC, start, end).Info(); i.Kind != r.kind || i.Flags != want || (i.Payload == roce.PayloadNone) == o.carries {
				t.Errorf("%v: opcode %s at start %t, end %t: %v with flags %#x and payload %v", op, i.Name, start, end, i.Kind, i.Flags, i.Payload)
			}
		}
	}
}

// TestUnknownTypes shows that a set holds no type beyond its width, and that a type without a
// service is a bug of the caller.
func TestUnknownTypes(t *testing.T) {
	for typ := range ib.QPType(255) {
		if have, want := (^typeSet(0)).has(typ), typ < 32; have != want {
			t.Errorf("the full set holds type %d: %t", typ, have)
		}
	}
	for _, typ := range []ib.QPType{ib.SMI, 7, 8, 11, 40} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v has opcodes", typ)
				}
			}()
			traitsOf(typ)
		}()
	}
}

// TestPSNRules shows how many PSNs a message takes.
func TestPSNRules(t *testing.T) {
	for _, c := range []struct {
		rule  psnRule
		bytes uint32
		want  uint32
	}{
		{psnNone, 0, 0}, {psnNone, 4000, 0}, {psnOne, 8, 1}, {psnOne, 4000, 1},
		{psnPerPayload, 0, 1}, {psnPerPayload, 1025, 2}, {psnPerResponse, 0, 1}, {psnPerResponse, 3072, 3},
	} {
		if got := (&operation{psns: c.rule}).packets(c.bytes, 1024); got != c.want {
			t.Errorf("rule %d: %d bytes take %d PSNs, want %d", c.rule, c.bytes, got, c.want)
		}
	}
}

// TestE17_Demands shows what an operation that demands a size and an alignment accepts.
func TestE17_Demands(t *testing.T) {
	for _, c := range []struct {
		demand demand
		va     uint64
		n      uint32
		want   bool
	}{
		{demand{}, 3, 5, true}, {onNumber, 16, 8, true}, {onNumber, 20, 8, false}, {onNumber, 16, 4, false},
		{onNumber, 17, 8, false}, {demand{size: 4}, 3, 4, true}, {demand{align: 2}, 3, 4, false},
	} {
		if got := c.demand.met(c.va, c.n); got != c.want {
			t.Errorf("%d bytes at %d meet %+v: %t", c.n, c.va, c.demand, got)
		}
	}
}

// TestEncodersWriteTheirHeaders shows that the headers that a request's opcode has are those
// that its row writes.
func TestEncodersWriteTheirHeaders(t *testing.T) {
	e := ring.SendWQE{RemoteAddr: 0x1000, RKey: 7, Imm: 0x13, CompareAdd: 100, Swap: 13}
	for op := range ib.WROpcode(255) {
		r := requestOf(op)
		if r == nil || r.operation().local != nil {
			continue
		}
		var p roce.Packet
		r.operation().encode(&p, &e, 256, 100)
		h := r.opcode(roce.ServiceRC, true, true).Info().Headers
		want := roce.RETH{VA: 0x1100, RKey: 7, Length: 100}
		if op == ib.WRFlush {
			want.VA = 0x1000
		}
		if has := p.RETH != (roce.RETH{}); has != (h&roce.HasRETH != 0) || has && p.RETH != want {
			t.Errorf("%v: RETH %+v", op, p.RETH)
		}
		if has := p.AtomicETH != (roce.AtomicETH{}); has != (h&roce.HasAtomicETH != 0) || has && (p.AtomicETH.VA != 0x1000 || p.AtomicETH.RKey != 7) {
			t.Errorf("%v: AtomicETH %+v", op, p.AtomicETH)
		}
		if has := p.FETH != (roce.FETH{}); has != (h&roce.HasFETH != 0) || has && p.FETH != (roce.FETH{Placement: 3, Selectivity: 1}) {
			t.Errorf("%v: FETH %+v", op, p.FETH)
		}
		if h&roce.HasImmDt != 0 && p.Imm != 0x13 || h&roce.HasIETH != 0 && p.InvRKey != 0x13 {
			t.Errorf("%v: immediate %d, key to invalidate %v", op, p.Imm, p.InvRKey)
		}
	}
}

// TestCountersOfRequests shows which counter counts the requests of each operation.
func TestCountersOfRequests(t *testing.T) {
	for k, want := range map[roce.Kind]counters.Set{
		roce.KindSend: {}, roce.KindWrite: {RxWriteRequests: 1}, roce.KindReadRequest: {RxReadRequests: 1},
		roce.KindCompareSwap: {RxAtomicRequests: 1}, roce.KindFetchAdd: {RxAtomicRequests: 1}, roce.KindAtomicWrite: {RxWriteRequests: 1},
		roce.KindFlush: {}, roce.KindResync: {},
	} {
		var c counters.Set
		if operationOf(k).asked(&c); c != want {
			t.Errorf("%v is counted as %+v", k, c)
		}
	}
}

// TestRequestPSNs compares the PSNs of a request packet with what the wire says.
func TestRequestPSNs(t *testing.T) {
	for v := range 256 {
		i := roce.Opcode(v).Info()
		o := operationOf(i.Kind)
		if !i.Known || i.Flags&roce.FlagResponse != 0 || o.services == 0 {
			continue
		}
		for _, mtu := range []int{256, 4096} {
			for _, n := range []uint32{0, 1, 256, 257, 4097, 1 << 31, 1<<32 - 1} {
				p := Packet{Packet: roce.Packet{BTH: roce.BTH{Opcode: roce.Opcode(v)}, RETH: roce.RETH{Length: n}}}
				if got, want := o.requestPSNs(&p, mtu), p.PSNs(mtu); got != want {
					t.Errorf("%s of %d bytes at MTU %d takes %d PSNs, want %d", i.Name, n, mtu, got, want)
				}
			}
		}
	}
}
