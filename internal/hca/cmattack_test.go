package hca_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
)

// attackCM runs a program and lets what it started come to an end. It returns
// how many MADs the victim got.
func attackCM(t testing.TB, b []byte) int {
	p := &program{b: b}
	v := newCMVictim(t, p)
	v.check()
	p.runCM(v)
	v.finish()
	return v.forgeries
}

// FuzzCM lets arbitrary programs attack a live adapter with a listener, an
// honest connection and consumers of every behaviour: CM messages of any
// content, from any sender and in any state, mixed with time, calls, and queue
// pairs that move and are destroyed. The adapter must not panic, hold more than
// its limits, or answer a message with more than one; its queue pairs move only
// where the rules lead, the honest connection carries data unless somebody with
// its IDs and its peer's address ends it, and nothing is left when all is over.
func FuzzCM(f *testing.F) {
	for i, seed := range cmSeeds() {
		f.Add(append([]byte{byte(i), byte(i / 3)}, seed...))
		f.Add(append([]byte{0, 1}, seed...))
	}
	f.Fuzz(func(t *testing.T, b []byte) { attackCM(t, b) })
}

// TestC6_C7_C12_CMAttacks runs FuzzCM with seeded random programs: its seeds
// cut, spliced and changed, and random bytes.
func TestC6_C7_C12_CMAttacks(t *testing.T) {
	seeds := cmSeeds()
	met, n := 0, *attackSeed
	defer func() {
		if met < *attackPackets/20 {
			t.Logf("to run it again: -attack-seed=%d -attack-packets=1", n)
		}
	}()
	for ; met == 0 || met < *attackPackets/20; n++ {
		met += attackCM(t, randomCMProgram(rand.New(rand.NewPCG(n, 4)), seeds))
	}
}

// randomCMProgram makes a program of parts of the seeds and of random bytes.
func randomCMProgram(r *rand.Rand, seeds [][]byte) []byte {
	b := []byte{byte(r.Uint32()), byte(r.Uint32())}
	for len(b) < 300 {
		part := append([]byte(nil), seeds[r.IntN(len(seeds))]...)
		if r.IntN(3) == 0 {
			part = make([]byte, 24)
			for i := range part {
				part[i] = byte(r.Uint32())
			}
		}
		for range r.IntN(4) {
			part[r.IntN(len(part))] = byte(r.Uint32())
		}
		b = append(b, part...)
	}
	return b
}

// The connections that a program can name: none, the honest one, the honest
// peer's other one, and the first of a stranger.
const (
	pickNobody = iota
	pickBond
	pickSpare
	pickGuest
)

// forgery is an instruction that sends a well-formed message; other
// instructions make it malformed.
func forgery(attr mad.AttrID, who, value byte) []byte {
	return []byte{byte(cmForge), byte(attr - mad.AttrREQ), who, 0, 0, value}
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// cmSeeds returns instructions to begin with: the life of a connection on
// either side with every message in every state of it, from its peer and from
// others, and everything else that can be wrong.
func cmSeeds() (seeds [][]byte) {
	call := func(what byte) []byte { return []byte{byte(cmCall), 0, what, 20} }
	reaction := func(t byte) []byte { return []byte{byte(cmTemper), t} }
	req := forgery(mad.AttrREQ, pickNobody, 3)
	ask := []byte{byte(cmAsk), 0, 0}
	rep := forgery(mad.AttrREP, pickGuest, 5)
	passive := [][]byte{
		join(reaction(0), req), join(reaction(0), req, call(4)), join(reaction(1), req),
		join(reaction(1), req, forgery(mad.AttrRTU, pickGuest, 0)), join(reaction(0), req, call(11), forgery(mad.AttrRTU, pickGuest, 0), call(7)),
		join(reaction(0), req, call(11), forgery(mad.AttrDREQ, pickGuest, 0)), join(reaction(1), req, forgery(mad.AttrDREQ, pickGuest, 0)),
		join(reaction(0), forgery(mad.AttrSIDRREQ, pickNobody, 3)), join(reaction(2), req),
	}
	active := [][]byte{
		join(reaction(0), ask), join(reaction(0), ask, rep), join(reaction(0), ask, rep, call(5)), join(reaction(1), ask, rep),
		join(reaction(1), ask, rep, call(9)), join(reaction(1), ask, rep, call(7)), {byte(cmAsk), 0, 1}, {byte(cmAsk), 1, 0},
	}
	for i, life := range append(passive, active...) {
		for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
			m := forgery(attr, pickGuest, byte(i)<<2)
			other := append([]byte(nil), m...)
			other[3], other[5] = 0xf0, 2 // from a stranger
			seeds = append(seeds, join(life, other, m, m, []byte{byte(cmTimer)}, m))
		}
		seeds = append(seeds, join(life, []byte{byte(cmTimer), byte(cmTimer), byte(cmReplay), 0, 0, byte(cmQP), 0, byte(i), byte(cmData), 0, 0, byte(cmCall), 0, 13, 0}))
	}
	for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
		for _, value := range []byte{0, 2, 0x43, 0x81, 0xf4} {
			honest := forgery(attr, pickBond, value)
			named := append([]byte(nil), honest...)
			named[3] = 0xf0
			seeds = append(seeds, join(named, honest, []byte{byte(cmTalk)}, honest))
		}
		for at := byte(0); at < 16; at += 4 { // an ID or a QPN is wrong
			for how := byte(1); how < 5; how++ {
				m := forgery(attr, pickBond, 5)
				m[3], m[4] = how, at
				seeds = append(seeds, join(m, []byte{byte(cmTalk)}))
			}
		}
		for at := 0; at < mad.DataSize; at += 12 {
			m := forgery(attr, pickGuest, byte(at))
			m[3], m[4] = 1+byte(at/12)&3, byte(at)
			seeds = append(seeds, join(reaction(1), req, m, []byte{byte(cmHeader), byte(at), byte(at), 0, byte(cmShape), byte(at / 12), byte(at), 0}))
		}
		for t := range byte(8) {
			seeds = append(seeds, join(reaction(t), []byte{byte(cmBurst), byte(attr - mad.AttrREQ), 31, t, 7, byte(cmPeer), 0, byte(cmTimer), byte(cmPeer), t}))
		}
	}
	return append(seeds,
		[]byte{byte(cmListen), byte(cmPeer), 0, byte(cmWait), 25, byte(cmListen), byte(cmPeer), 0, byte(cmTalk), byte(cmPeer), 3},
		[]byte{byte(cmPeer), 0, byte(cmReplay), 0, 0x81, byte(cmPeer), 2, byte(cmReplay), 0, 0x81, byte(cmPeer), 0, byte(cmWait), 33},
		[]byte{byte(cmRaw), 0, 9, 12, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0},
	)
}

// TestCMVictimNotices does to a cmVictim what its checks are for.
func TestCMVictimNotices(t *testing.T) {
	for want, harm := range map[string]func(*cmVictim){
		"is answered by 3 MADs": func(v *cmVictim) {
			v.stranger = func(now clock.Instant, c *cm.Conn, _ *cm.Event) {
				_ = c.SendMRA(now, 1, nil)
				_ = c.SendREP(now, &cm.REPParams{QPN: 0x77})
				c.Destroy(now)
			}
			v.mad.PutHeader(mad.CMHeader(mad.AttrREQ, 1))
			hostileREQ(v.siege, stranger1, 7).Put(&v.mad)
			v.meet(stranger1)
		},
		"the limits are": func(v *cmVictim) { v.limits.MaxConns = 0 },
		"the honest connection is": func(v *cmVictim) {
			v.bond.leave(0)
			v.carry()
		},
		"connection's QP is":    func(v *cmVictim) { rig.Must(v.T, v.Sides[1].HCA.Disconnect(v.Now, v.bond.qp[1])); v.moves = nil },
		"moves from RTS to SQE": func(v *cmVictim) { v.moves = []trace.Record{{QPN: v.bond.qp[1].Num(), From: ib.RTS, To: ib.SQE}} },
		"moves from RTS to INIT": func(v *cmVictim) {
			v.moves = []trace.Record{{QPN: v.bond.qp[1].Num(), From: ib.RTS, To: ib.INIT, Cause: "modify"}}
		},
		"went from":              func(v *cmVictim) { v.counts.Foreign = 1 << 40 },
		"the adapter has grown":  func(v *cmVictim) { v.Sides[1].HCA.Cfg().PKeys = make([]ib.PKey, maxCMGrowth); v.checkWeight() },
		"is not held":            func(v *cmVictim) { v.guests = []*guest{{conn: newCMVictim(t, &program{}).bond.conn[1]}} },
		"is done with is in":     func(v *cmVictim) { v.bond.conn[1].Consumer = &guest{conn: v.bond.conn[1], over: true} },
		"that is gone hears":     func(v *cmVictim) { v.onEvent(0, &cm.Conn{Consumer: &guest{over: true}}, &cm.Event{}) },
		"0 and 0 completions":    func(v *cmVictim) { v.Sides[0].HCA.Single().Remove(v.bond.qp[0]); v.talk() },
		"QPs are left":           func(v *cmVictim) { v.equip(&guest{}); v.finish() },
		"now: side 0 has 1 conn": func(v *cmVictim) { v.wantEmpty("now") },
	} {
		v := newCMVictim(t, &program{})
		v.check()
		v.T = noticed{t}
		if got := complaintOf(func() { harm(v); v.check() }); !strings.Contains(got, want) {
			t.Errorf("want a complaint with %q, got %q", want, got)
		}
	}
}

// complaintOf returns the failure that harm leads to.
func complaintOf(harm func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	harm()
	return ""
}
