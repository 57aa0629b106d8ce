package qp_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

var (
	strangerTime = flag.Duration("stranger-time", 2*time.Second, "virtual time for which strangers attack a stream")
	strangerSeed = flag.Uint64("stranger-seed", 1, "seed of their packets")
)

// strangerRate is how many packets a second one process sends from the peer's host.
const strangerRate = 120_000

// siege is a stream of SENDs from side 0 to side 1, and a stranger who knows everything but
// sequence numbers and sends packets to side 0 with side 1's address.
type siege struct {
	*rig.Rig
	rng      *rand.Rand
	forge    func(*siege, *roce.Packet)
	sent     uint64 // by the stranger
	failed   ib.WCStatus
	messages [2]uint64 // completed on each side
	copies   int       // of each packet
	packet   roce.Packet
	buf      [2048]byte
}

const (
	siegeMessage = 64 << 10
	siegeDepth   = 16
	siegeTransit = 5 * time.Millisecond // one way: few packets a second, many in flight
)

func newSiege(t *testing.T, challenge bool, forge func(*siege, *roce.Packet)) *siege {
	g := &siege{copies: 1, Rig: &rig.Rig{T: t}, rng: rand.New(rand.NewPCG(*strangerSeed, 1)), forge: forge}
	for i := range g.Sides {
		c := rig.Config{
			Type: ib.RC, Bytes: siegeMessage, Challenge: challenge,
			Cap: ib.QPCap{MaxSendWR: siegeDepth, MaxRecvWR: 4 * siegeDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
		}
		c.HCA.Settings.WindowBytes = 1 << 20
		g.Sides[i] = c.NewSide(t, byte(i+1))
	}
	g.Connect(ib.MTU1024)
	for range siegeDepth {
		g.more()
	}
	return g
}

// more posts one more message, and the receive for it.
func (g *siege) more() {
	g.Recv(1, ib.RecvWR{SGList: []ib.SGE{g.Sides[1].SGE(0, siegeMessage)}})
	g.Post(0, ib.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled, SGList: []ib.SGE{g.Sides[0].SGE(0, siegeMessage)}})
}

// run runs the stream for d, or until the connection fails.
func (g *siege) run(d time.Duration) {
	next := g.Now
	for end := g.Now.Add(d); g.Now < end && g.failed == ib.WCSuccess; {
		for ; next <= g.Now; next = next.Add(time.Duration(g.rng.ExpFloat64() * float64(time.Second) / strangerRate)) {
			g.stranger()
		}
		moved := g.Transmit(0)
		if moved = g.Transmit(1) || moved; !moved {
			g.Now = max(g.Now, min(g.Sides[0].HCA.Single().Deadline(), g.Sides[1].HCA.Single().Deadline(), next))
		} else {
			g.Now = g.Now.Add(siegeTransit)
		}
		for i, s := range g.Sides {
			s.HCA.Single().Advance(g.Now)
			for _, wc := range g.Poll(i) {
				if wc.Status != ib.WCSuccess {
					g.failed = wc.Status
					return
				}
				if g.messages[i]++; i == 0 {
					g.more()
				}
			}
		}
	}
}

// stranger sends one packet from a port of its own.
func (g *siege) stranger() {
	g.sent++
	a, b := g.Sides[0], g.Sides[1]
	p := &g.packet
	*p = roce.Packet{
		BTH:  roce.BTH{Opcode: roce.RCAcknowledge, PKey: ib.PKeyDefault, DestQP: a.QP.Num(), PSN: ib.NewPSN(g.rng.Uint32N(1 << 24)), MigReq: true},
		AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(g.rng.Uint32N(1 << 24))},
	}
	g.forge(g, p)
	buf := g.buf[:roce.Size(p.BTH.Opcode, len(p.Payload))]
	p.Build(buf)
	d := fabric.Datagram{Bytes: buf, Src: b.Addr, Dst: a.Addr, SrcPort: 40000, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: 64}
	roce.Seal(buf, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(buf)).WithID(0))
	for range g.copies {
		a.HCA.Single().Receive(g.Now, &d)
	}
}

// strangers are the attacks, by name.
var strangers = map[string]func(*siege, *roce.Packet){
	"fatal NAKs": func(g *siege, p *roce.Packet) { p.AETH.Syndrome = g.fatal() },
	// The stranger has seen a packet or two, and guesses numbers near theirs.
	"fatal NAKs by one who listens": func(g *siege, p *roce.Packet) {
		a := g.Sides[0].QP.Query()
		p.BTH.PSN = a.SQPSN.Add(1<<24 - g.rng.Uint32N(1<<14))
		p.AETH.Syndrome, p.AETH.MSN = g.fatal(), ib.MSN(g.messages[0]+g.rng.Uint64N(siegeDepth))
	},
	"sequence NAKs": func(_ *siege, p *roce.Packet) { p.AETH.Syndrome = roce.NAKSequence },
	"RNR NAKs":      func(g *siege, p *roce.Packet) { p.AETH.Syndrome = roce.RNRNAK(uint8(g.rng.IntN(32))) },
	"ACKs":          func(*siege, *roce.Packet) {},
	"responses": func(g *siege, p *roce.Packet) {
		switch g.rng.IntN(3) {
		case 0:
			p.BTH.Opcode = roce.RCAtomicAcknowledge
		case 1:
			p.BTH.Opcode, p.Payload = roce.RCRDMAReadResponseFirst, strangePayload[:]
		default:
			p.BTH.Opcode, p.Payload = roce.RCRDMAReadResponseMiddle, strangePayload[:]
		}
	},
}

// fatal returns the syndrome of a NAK that ends the connection.
func (g *siege) fatal() roce.Syndrome {
	return []roce.Syndrome{roce.NAKInvalidRequest, roce.NAKRemoteAccess, roce.NAKRemoteOperational}[g.rng.IntN(3)]
}

var strangePayload [1024]byte

// TestStrangersNAKs has a stranger on the peer's host guess PSNs in flight. The stream
// continues, and every completed message has arrived.
func TestStrangersNAKs(t *testing.T) {
	for name, forge := range strangers {
		t.Run(name, func(t *testing.T) {
			g := newSiege(t, true, forge)
			g.copies = 3
			g.run(*strangerTime)
			a := g.Sides[0].HCA.Counters()
			t.Logf("seed %d: %d forged packets in %v; %d messages; %d claims examined, %d refuted; %d answers refused for their MSN, %d in doubt",
				*strangerSeed, g.sent, time.Duration(g.Now-clock.Instant(0)), g.messages[0], a.Challenges, a.ChallengesRefuted, a.Drops[counters.DropMSN], a.Drops[counters.DropDoubt])
			if g.failed != ib.WCSuccess {
				t.Errorf("seed %d: the stream failed with %v after %v", *strangerSeed, g.failed, time.Duration(g.Now))
			}
			if g.messages[0] > g.messages[1] {
				t.Errorf("seed %d: %d messages completed at the requester, %d at the responder", *strangerSeed, g.messages[0], g.messages[1])
			}
		})
	}
}

// TestStrangerWithoutChallenge shows that the attack is effective: if the adapter believes each
// packet, the stream fails in a second or two.
func TestStrangerWithoutChallenge(t *testing.T) {
	for _, name := range []string{"fatal NAKs", "responses"} {
		g := newSiege(t, false, strangers[name])
		g.run(time.Minute)
		t.Logf("%s: seed %d: %v after %v, %d forged packets", name, *strangerSeed, g.failed, time.Duration(g.Now), g.sent)
		if g.failed == ib.WCSuccess {
			t.Errorf("%s: seed %d: a minute of forged packets did not end the stream", name, *strangerSeed)
		}
	}
}
