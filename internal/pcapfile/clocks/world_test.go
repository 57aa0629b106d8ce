package clocks

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/roce"
)

// epoch is the true time at which captures of tests begin.
var epoch = time.Unix(1_700_000_000, 0)

// host is a place of capture.
type host struct {
	addr   netip.Addr
	ahead  time.Duration // what the clock is ahead at epoch
	ppm    float64       // drift
	wobble time.Duration // in periods of 8 s
	items  []pcapfile.Item
}

// clock returns what the clock shows.
func (h *host) clock(at time.Duration) time.Time {
	wobble := float64(h.wobble) * math.Sin(2*math.Pi*at.Seconds()/8)
	return epoch.Add(at + h.ahead + time.Duration(float64(at)*h.ppm/1e6+wobble))
}

// trip is a packet that a test sent, and both times at which it was captured.
type trip struct {
	from, to       *host
	sent, received time.Time
}

// world is a network of hosts, each of which captures all its packets.
type world struct {
	t      *testing.T
	hosts  []*host
	rnd    *rand.Rand
	marked bool // the captures tell directions
	trips  []trip
	psn    uint32
	queue  time.Duration // in which packets wait
}

// newWorld returns hosts with these clocks.
func newWorld(t *testing.T, hosts ...*host) *world {
	const seed = 1
	t.Logf("seed %d", seed)
	for i, h := range hosts {
		h.addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
	}
	return &world{t: t, hosts: hosts, rnd: rand.New(rand.NewPCG(seed, 0))}
}

// delay returns the time that a packet takes: 20 µs, and sometimes much longer.
func (w *world) delay() time.Duration {
	return w.queue + 20*time.Microsecond + time.Duration(w.rnd.ExpFloat64()*float64(15*time.Microsecond))
}

// capture adds a packet to the capture of a host.
func (h *host) capture(p *pcapfile.Packet, at time.Time, way pcapfile.Direction) {
	c := *p
	c.Time, c.Direction = at, way
	h.items = append(h.items, pcapfile.Item{Packet: &c})
}

// send sends a packet, and returns when it arrives.
func (w *world) send(from, to int, at time.Duration) time.Duration {
	w.psn++
	return w.again(from, to, at, w.psn, true)
}

// again sends the packet with a PSN, which may be lost.
func (w *world) again(from, to int, at time.Duration, psn uint32, arrives bool) time.Duration {
	a, b, takes := w.hosts[from], w.hosts[to], w.delay()
	p := packet(a.addr, b.addr, psn)
	out, in := pcapfile.Outbound, pcapfile.Inbound
	if !w.marked {
		out, in = pcapfile.Unmarked, pcapfile.Unmarked
	}
	sent, received := a.clock(at), b.clock(at+takes)
	a.capture(p, sent, out)
	if arrives {
		b.capture(p, received, in)
		w.trips = append(w.trips, trip{a, b, sent, received})
	}
	return at + takes
}

// talk makes host a send requests, which b answers, for a while.
func (w *world) talk(a, b int, from, to, pause time.Duration) {
	for at := from; at < to; at += pause {
		w.send(b, a, w.send(a, b, at)+5*time.Microsecond)
	}
}

// packet returns a packet with a PSN.
func packet(src, dst netip.Addr, psn uint32) *pcapfile.Packet {
	p := roce.Packet{BTH: roce.BTH{Opcode: roce.UCSendOnly, PKey: ib.PKeyDefault, DestQP: 7, PSN: ib.NewPSN(psn)}, Payload: make([]byte, 8)}
	seg := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(seg)
	h := ipudp.Header{Src: src, Dst: dst, SrcPort: 0xc000, DstPort: roce.Port, HopLimit: 64}
	var head [ipudp.MaxLen]byte
	n := h.Put(head[:], len(seg))
	ip, udp := bytes.Clone(head[:n-ipudp.UDPLen]), bytes.Clone(head[n-ipudp.UDPLen:n])
	sum, _ := roce.HeaderICRC(ip, udp, seg)
	binary.LittleEndian.PutUint32(seg[len(seg)-roce.ICRCLen:], sum)
	return &pcapfile.Packet{Src: src, Dst: dst, SrcPort: h.SrcPort, DstPort: h.DstPort, IP: ip, UDP: udp, Payload: seg}
}

// file returns the capture of a host.
func (w *world) file(h *host) []byte {
	slices.SortStableFunc(h.items, func(a, b pcapfile.Item) int { return a.Packet.Time.Compare(b.Packet.Time) })
	var b bytes.Buffer
	out, err := pcapfile.NewWriter(&b)
	must.Do(w.t, err)
	for i := range h.items {
		must.Do(w.t, out.Write(&h.items[i]))
	}
	must.Do(w.t, out.Flush())
	return b.Bytes()
}

// compare reads the captures of all hosts, and compares their clocks.
func (w *world) compare() []Clock {
	w.t.Helper()
	samples := make([]*Samples, len(w.hosts))
	for i, h := range w.hosts {
		r, err := pcapfile.NewReader(bytes.NewReader(w.file(h)))
		must.Do(w.t, err)
		samples[i] = Collect(r)
	}
	return Compare(samples)
}

// causal fails the test if a packet arrives before it was sent, by the corrected clocks.
func (w *world) causal(all []Clock) {
	w.t.Helper()
	index := make(map[*host]int)
	for i, h := range w.hosts {
		index[h] = i
	}
	wrong, worst := 0, time.Duration(0)
	for _, p := range w.trips {
		sent, received := all[index[p.from]].Correct(p.sent), all[index[p.to]].Correct(p.received)
		if d := received.Sub(sent); d <= 0 {
			wrong, worst = wrong+1, min(worst, d)
		}
	}
	if wrong > 0 {
		w.t.Errorf("%d of %d packets arrive before they were sent, by up to %v", wrong, len(w.trips), -worst)
	}
}

// near fails the test if the corrected clock of a host differs from the clock of the first host by more than
// the error, at the time of any packet from it.
func (w *world) near(all []Clock, i int) {
	w.t.Helper()
	h, reference, worst := w.hosts[i], w.hosts[0], time.Duration(0)
	for _, item := range h.items {
		shown := item.Packet.Time
		ahead, other := h.ppm/1e6, reference.ppm/1e6
		at := time.Duration(float64(shown.Sub(epoch)-h.ahead) / (1 + ahead))
		truth := epoch.Add(at + reference.ahead + time.Duration(float64(at)*other))
		worst = max(worst, all[i].Correct(shown).Sub(truth).Abs())
	}
	if worst > all[i].Error || all[i].Error > 100*time.Microsecond {
		w.t.Errorf("the corrected clock of host %d is wrong by up to %v; the error is said to be %v, want at most 100µs", i, worst, all[i].Error)
	}
}
