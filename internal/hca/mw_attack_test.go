package hca_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestM1_M2_AttacksOnWindows lets a program bind, invalidate, deallocate and bind again windows of two
// queue pairs, which it destroys now and then, while the peer of both tries live keys, dead ones, keys with other tags
// and guessed ones. A model says which accesses are allowed. All others are refused, and no byte changes that
// none allowed has changed.
func TestM1_M2_AttacksOnWindows(t *testing.T) {
	for seed := *attackSeed; seed < *attackSeed+20; seed++ {
		a := newWindowAttack(t, seed)
		for range 1500 {
			a.step()
			if t.Failed() {
				t.Fatalf("to run it again: -attack-seed=%d", seed)
			}
		}
		if a.allowed < 100 || a.refused < 100 {
			t.Errorf("seed %d: %d accesses were allowed and %d refused, want at least 100 of each", seed, a.allowed, a.refused)
		}
		a.close()
	}
}

// windowAttack is a program, the attacker, and the model of both.
type windowAttack struct {
	*rig.Solo
	r       *rand.Rand
	want    []byte // what the region holds
	pairs   [2]*attackedPair
	windows []*attackedWindow
	dead    []ib.RKey

	allowed, refused int
}

// attackedPair is a queue pair of the program.
type attackedPair struct {
	q   *qp.QP
	psn uint32 // of the peer's next request
}

// attackedWindow is what the model knows of a window.
type attackedWindow struct {
	w      *memory.Window
	bound  bool
	off, n uint64 // part of the region
	access ib.Access
	on     *attackedPair
}

const attackedBytes = 512 // of the region, to which windows are bound

func newWindowAttack(t *testing.T, seed uint64) *windowAttack {
	s := rig.NewSolo(t, rig.SoloConfig{MRAccess: ib.AccessLocalWrite | ib.AccessMWBind})
	a := &windowAttack{Solo: s, r: rand.New(rand.NewPCG(seed, 0)), want: make([]byte, rig.Bytes)}
	a.pairs[0] = &attackedPair{s.QP, rig.PeerPSN}
	a.pairs[1] = a.newPair()
	return a
}

func (a *windowAttack) newPair() *attackedPair {
	q, err := a.HCA.CreateQP(a.PD, hca.QPConfig{Type: ib.RC, SendCQ: a.CQ, RecvCQ: a.CQ, Cap: rig.Cap, SigAll: true})
	must.Do(a.T, err)
	p := &attackedPair{q: q}
	a.revive(p)
	return p
}

// revive connects a queue pair again.
func (a *windowAttack) revive(p *attackedPair) {
	a.QP = p.q
	if p.q.State() != ib.RESET {
		a.Modify(ib.RESET)
	}
	a.Walk(ib.RTS)
	p.psn = rig.PeerPSN
}

func (a *windowAttack) step() {
	switch a.r.IntN(20) {
	case 0:
		a.alloc()
	case 1:
		a.dealloc()
	case 2, 3, 4:
		a.bind()
	case 5, 6:
		a.invalidate()
	case 7:
		a.destroy(a.r.IntN(2))
	default:
		a.attack()
	}
	if !bytes.Equal(a.Buf, a.want) {
		i := 0
		for a.Buf[i] == a.want[i] {
			i++
		}
		a.T.Errorf("byte %d of the region changed, and no access that is allowed has changed it", i)
	}
}

func (a *windowAttack) alloc() {
	if len(a.windows) == 8 {
		return
	}
	w, err := a.PD.AllocMW(ib.MWType(1 + a.r.IntN(2)))
	must.Do(a.T, err)
	a.windows = append(a.windows, &attackedWindow{w: w})
}

func (a *windowAttack) window() *attackedWindow {
	if len(a.windows) == 0 {
		a.alloc()
	}
	return a.windows[a.r.IntN(len(a.windows))]
}

func (a *windowAttack) dealloc() {
	w := a.window()
	a.dead = append(a.dead, w.w.RKey())
	must.Do(a.T, a.PD.DeallocMW(w.w))
	a.windows = slices.DeleteFunc(a.windows, func(o *attackedWindow) bool { return o == w })
}

// local posts a local request on a queue pair, which completes at once.
func (a *windowAttack) local(p *attackedPair, wr ib.SendWR, ok bool) {
	a.QP = p.q
	if got := a.Send(wr); len(got) != 0 {
		a.T.Errorf("%v sends %d packets", wr.Opcode, len(got))
	}
	want := ib.WCSuccess
	if !ok {
		want = ib.WCMWBindErr
	}
	a.WantWCs(wr.Opcode.String(), rig.WC(0, want))
	if !ok {
		a.revive(p)
	}
}

func (a *windowAttack) bind() {
	w, p := a.window(), a.pairs[a.r.IntN(2)]
	old := w.w.RKey()
	off := uint64(8 * a.r.IntN(attackedBytes/8-8))
	b := &ib.MWBind{
		RKey: old, NewRKey: old.Tagged(old + ib.RKey(1+a.r.IntN(255))), LKey: a.MR.LKey(),
		Addr: a.MR.Addr() + off, Length: uint64(8 * (1 + a.r.IntN(8))), Access: ib.AccessRemote &^ (ib.Access(a.r.IntN(2)) << (1 + a.r.IntN(3))),
	}
	two := w.w.Type() == ib.MWType2
	if two && a.r.IntN(3) == 0 {
		b.Access |= ib.AccessZeroBased
	}
	ok := !two || !w.bound
	a.local(p, ib.SendWR{Opcode: ib.WRBindMW, Bind: b}, ok)
	if !ok {
		return
	}
	if w.w.RKey() != b.NewRKey {
		a.T.Errorf("the key is %#x after the bind, want %#x", uint32(w.w.RKey()), uint32(b.NewRKey))
	}
	a.dead = append(a.dead, old)
	*w = attackedWindow{w.w, true, off, b.Length, b.Access, p}
}

// invalidate lets the program, or the peer, invalidate a window of type 2.
func (a *windowAttack) invalidate() {
	w, p := a.window(), a.pairs[a.r.IntN(2)]
	ok := w.w.Type() == ib.MWType2 && w.bound && w.on == p
	if a.r.IntN(2) == 0 {
		a.local(p, ib.SendWR{Opcode: ib.WRLocalInv, InvRKey: w.w.RKey()}, ok)
	} else {
		a.QP = p.q
		a.Recv(0, 8)
		req := a.Packet(roce.RCSendOnlyWithInvalidate, p.psn, nil)
		req.InvRKey = w.w.RKey()
		a.answered(p, &req, ok)
		a.Poll()
	}
	if ok {
		w.bound = false
	}
}

// destroy replaces a queue pair: its windows of type 2 are unbound.
func (a *windowAttack) destroy(i int) {
	p := a.pairs[i]
	must.Do(a.T, a.HCA.Enter(func() error { a.HCA.DestroyQP(a.PD, p.q); return nil }))
	for _, w := range a.windows {
		w.bound = w.bound && (w.on != p || w.w.Type() == ib.MWType1)
	}
	a.pairs[i] = a.newPair()
}

// key draws a key for the attacker: mostly of a live window, otherwise of a dead window, a random
// key, a key with a flipped bit, or an L_Key.
func (a *windowAttack) key() ib.RKey {
	w := a.window()
	switch k := a.r.IntN(10); {
	case k == 0:
		return ib.RKey(a.r.Uint32())
	case k == 1:
		return w.w.RKey() ^ 1<<a.r.IntN(32)
	case k < 4 && len(a.dead) > 0:
		return a.dead[a.r.IntN(len(a.dead))]
	case k == 4:
		return ib.RKey(a.MR.LKey())
	}
	return w.w.RKey()
}

// attack tries an access, and checks what becomes of it.
func (a *windowAttack) attack() {
	p, key := a.pairs[a.r.IntN(2)], a.key()
	var w *attackedWindow
	for _, o := range a.windows {
		if o.w.RKey() == key {
			w = o
		}
	}
	if w != nil && w.bound && a.r.IntN(4) > 0 && slices.Contains(a.pairs[:], w.on) { // windows of type 1 outlive it
		p = w.on
	}
	a.QP = p.q
	start, base := a.MR.Addr(), uint64(0) // of the addresses that the key has
	if w != nil && w.bound {
		base = w.off
		if start += w.off; w.access&ib.AccessZeroBased != 0 {
			start = 0
		}
	}
	off, n := int64(8*a.r.IntN(5)), 8*(1+a.r.IntN(2))
	if a.r.IntN(8) == 0 {
		off = -8
	}
	req, need := a.request(p, start+uint64(off), key, n)
	if need == ib.AccessRemoteAtomic {
		n = 8
	}
	ok := w != nil && w.bound && (w.w.Type() == ib.MWType1 || w.on == p) && w.access&need != 0 && off >= 0 && uint64(off)+uint64(n) <= w.n
	if at := a.want[min(base+uint64(off), uint64(len(a.want)-n)):]; ok {
		switch need {
		case ib.AccessRemoteWrite:
			copy(at, req.Payload)
		case ib.AccessRemoteAtomic:
			binary.NativeEndian.PutUint64(at, binary.NativeEndian.Uint64(at)+req.AtomicETH.SwapAdd)
		}
	}
	a.answered(p, &req, ok)
}

// request returns a WRITE, READ or FETCH_ADD, and the right that it needs.
func (a *windowAttack) request(p *attackedPair, va uint64, key ib.RKey, n int) (roce.Packet, ib.Access) {
	switch a.r.IntN(3) {
	case 0:
		data := make([]byte, n)
		rig.Fill(data, a.r.Uint64())
		req := a.Write(roce.RCRDMAWriteOnly, p.psn, data, n)
		req.RETH.VA, req.RETH.RKey = va, key
		return req, ib.AccessRemoteWrite
	case 1:
		req := a.Read(p.psn, n)
		req.RETH.VA, req.RETH.RKey = va, key
		return req, ib.AccessRemoteRead
	}
	req := a.FetchAdd(p.psn, 0, a.r.Uint64())
	req.AtomicETH.VA, req.AtomicETH.RKey = va, key
	return req, ib.AccessRemoteAtomic
}

// answered delivers a request and checks whether it is refused, which ends the connection.
func (a *windowAttack) answered(p *attackedPair, req *roce.Packet, ok bool) {
	got := a.Inject(*req)
	if len(got) != 1 || (got[0].AETH.Syndrome.IsACK()) != ok || !ok && got[0].AETH.Syndrome != roce.NAKRemoteAccess {
		a.T.Errorf("%v with key %#x is answered by %v, and should be allowed: %t", req.BTH.Opcode, uint32(req.RETH.RKey|req.AtomicETH.RKey|req.InvRKey), got, ok)
	}
	if ok {
		a.allowed++
		p.psn++
		return
	}
	a.refused++
	a.Poll()
	a.revive(p)
}

// close shows that nothing is left over that the region or the domain waits for.
func (a *windowAttack) close() {
	for len(a.windows) > 0 {
		a.dealloc()
	}
	must.Do(a.T, a.PD.DeregMR(a.MR))
	if n := a.HCA.Resources(); n.MWs != 0 || n.MRs != 0 {
		a.T.Errorf("%+v are left", n)
	}
}
