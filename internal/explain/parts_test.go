package explain

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// TestPartsOfRepairedCaptures explains parts of captures in which losses were
// repaired: no program is said to have seen an error, unless the capture ends before what
// was asked for could come, and then the verdict says so.
func TestPartsOfRepairedCaptures(t *testing.T) {
	awaited := []string{table[rnrUnresolved].Name, table[rnrOrSilence].Name, table[cmREQUnanswered].Name, table[sidrUnanswered].Name}
	ended := 0
	for _, k := range truths(t) {
		if k.outcome != "repaired" {
			continue
		}
		all := load(t, k.name)
		for i := range all.frames {
			if r := (&scene{t, all.frames[i:]}).explain(); r.Verdict.Bad() {
				t.Errorf("%s, from packet %d: %s, %s", k.name, i, r.Verdict.Cause, r.Verdict.Where)
			}
			r := (&scene{t, all.frames[:i]}).explain()
			if !r.Verdict.Bad() {
				continue
			}
			ended++
			if !slices.Contains(awaited, r.Verdict.Cause) || !strings.Contains(strings.Join(r.Verdict.Caveats, "\n"), "the capture ends ") {
				t.Errorf("%s, up to packet %d: %s, %s, %q", k.name, i, r.Verdict.Cause, r.Verdict.Where, r.Verdict.Caveats)
			}
		}
	}
	if ended == 0 {
		t.Error("no capture ends where something is awaited")
	}
}

// TestOneDirection leaves of captures in which losses were repaired what one host sends:
// who goes on after a repeat has had an answer, though none is there.
func TestOneDirection(t *testing.T) {
	for _, k := range truths(t) {
		for _, host := range []byte{client, server} {
			if k.outcome != "repaired" && k.outcome != "clean" {
				continue
			}
			s := load(t, k.name)
			from(host)(s)
			if r := s.explain(); r.Verdict.Bad() && !strings.Contains(strings.Join(r.Verdict.Caveats, " "), "the capture ends ") {
				t.Errorf("%s, what .%d sends: %s, %s, %q", k.name, host, r.Verdict.Cause, r.Verdict.Where, r.Verdict.Caveats)
			}
		}
	}
	s := &scene{t: t}
	send := func(psn uint32, after time.Duration) {
		s.add(client, after, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)})
	}
	for psn := range uint32(20) { // each is repeated once
		send(psn, time.Millisecond)
		send(psn, 50*time.Millisecond)
	}
	if r := s.explain(); names(r) != "one-direction timeout-repeat" {
		t.Errorf("repeats of ever other requests: %s", names(r))
	}
	for range 3 {
		send(19, 50*time.Millisecond)
	}
	if r := s.explain(); r.Verdict.Cause != "no-answer" {
		t.Errorf("the last is repeated in vain: %s", r.Verdict.Cause)
	}
}

// TestRepeatsAtOnceFromHere has an adapter that captures repeat at once: what leaves
// twice no network has doubled.
func TestRepeatsAtOnceFromHere(t *testing.T) {
	for way, want := range map[pcapfile.Direction]string{pcapfile.Outbound: "timeout-repeat", pcapfile.Unmarked: "request-duplicated"} {
		s := &scene{t: t}
		for psn := range uint32(10) {
			s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)})
			s.add(server, time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited}})
		}
		s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 10)})
		s.repeat(len(s.frames)-1, 90*time.Microsecond)
		s.repeat(len(s.frames)-1, 90*time.Microsecond)
		s.add(server, time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 10), AETH: roce.AETH{Syndrome: roce.ACKUnlimited}})
		file, err := pcapfile.NewReader(bytes.NewReader(s.file()))
		must.Do(t, err)
		f := New(Config{})
		for p, err := file.Next(); err == nil; p, err = file.Next() {
			if p.Direction = way; way == pcapfile.Outbound && p.Src.As4()[3] == server {
				p.Direction = pcapfile.Inbound
			}
			f.Add(p)
		}
		if r := f.Report(); names(r) != want {
			t.Errorf("direction %v: found %s, want %s", way, names(r), want)
		}
	}
}

// TestRepeatsOfAllFromHere has an adapter that captures repeat each request: it did not
// capture each packet twice.
func TestRepeatsOfAllFromHere(t *testing.T) {
	s := &scene{t: t}
	for psn := range uint32(20) {
		s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)})
		s.repeat(len(s.frames)-1, 5*time.Millisecond)
		s.repeat(len(s.frames)-1, 5*time.Millisecond)
		s.add(server, time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, psn), AETH: roce.AETH{Syndrome: roce.ACKUnlimited}})
	}
	flags := make([]pcapgo.NgEpbFlag, len(s.frames))
	for i := range flags {
		if flags[i] = pcapgo.NgEpbFlagDirectionOutbound; s.frames[i].from() == server {
			flags[i] = pcapgo.NgEpbFlagDirectionInbound
		}
	}
	r := read(t, ng(t, s.frames, flags), Config{})
	if names(r) != "timeout-repeat" || r.Findings[0].Count != 40 || len(r.Conversations[0].Notes) > 0 {
		t.Errorf("found %s; notes %q", names(r), r.Conversations[0].Notes)
	}
}

// TestNoCaveatAfterSilence shows a connection that fails, and another that goes on for
// long after it: there is nothing that the capture does not tell.
func TestNoCaveatAfterSilence(t *testing.T) {
	s := load(t, "errs_rnr_exceeded")
	if r := s.explain(); len(r.Verdict.Caveats) != 1 {
		t.Errorf("of a capture that ends there: %q", r.Verdict.Caveats)
	}
	for i := range uint32(100) {
		s.add(client, 50*time.Millisecond, &roce.Packet{BTH: bth(roce.UDSendOnly, 0x99, i), DETH: roce.DETH{SrcQP: 7}})
	}
	if r := s.explain(); r.Verdict.Cause != "rnr-unresolved" || len(r.Verdict.Caveats) != 0 {
		t.Errorf("%s, %q", r.Verdict.Cause, r.Verdict.Caveats)
	}
}

// TestMemory follows packets of ever new connections, requests for connections,
// senders with wrong ICRCs and gaps: what is kept does not grow with their number.
func TestMemory(t *testing.T) {
	const packets, limit, most = 400_000, 256, 4 << 20
	t.Logf("seed %d (-damage-seed)", *seed)
	rnd := rand.New(rand.NewPCG(*seed, 1))
	f := New(Config{Conversations: limit, Packets: 1000})
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	ops := []roce.Opcode{
		roce.RCSendFirst, roce.RCSendLast, roce.RCSendOnly, roce.RCRDMAReadRequest, roce.RCRDMAReadResponseMiddle, roce.RCAcknowledge, roce.RCAtomicAcknowledge,
		roce.RCFetchAdd, roce.UCSendFirst, roce.UCSendOnly, roce.UDSendOnly, roce.RDSendOnly, roce.RDResync, roce.CNP,
	}
	now, before := time.Unix(1, 0), 0
	for i := range packets {
		p := &roce.Packet{BTH: bth(ops[rnd.IntN(len(ops))], ib.QPN(rnd.Uint32())&ib.QPNMask, rnd.Uint32()&0xffffff), RDETH: roce.RDETH{EEC: rnd.Uint32() & 0xffffff}}
		p.AETH = roce.AETH{Syndrome: roce.Syndrome(rnd.IntN(256)), MSN: ib.MSN(rnd.Uint32() & 0xffffff)}
		p.RETH.Length = rnd.Uint32()
		if rnd.IntN(4) == 0 {
			p.BTH.Opcode, p.BTH.DestQP = roce.UDSendOnly, ib.QPNGSI
			p.Payload = hostileMAD(rnd)
		}
		now = now.Add(time.Duration(rnd.IntN(1_000_000)))
		f.Add(packetOf(p, i+1, now, rnd))
		if i == packets/4 {
			before = heap()
		}
	}
	after := heap()
	t.Logf("%d KiB after a quarter of the packets, %d KiB after all", before>>10, after>>10)
	if after-before > most {
		t.Errorf("%d bytes more are kept after %d packets than after a quarter of them", after-before, packets)
	}
	if f.alive.Len() > limit || len(f.links) > limit || len(f.alone) > limit || len(f.flows) > 2*limit+2 || len(f.byQPN) > 2*limit {
		t.Errorf("%d conversations, %d links, %d pairs, %d flows, %d QPs are kept", f.alive.Len(), len(f.links), len(f.alone), len(f.flows), len(f.byQPN))
	}
	if r := f.Report(); r.Packets != packets || len(r.Kept) > 1000 {
		t.Errorf("%d packets, %d are kept", r.Packets, len(r.Kept))
	}
}

// hostileMAD returns a message of a connection manager with any IDs.
func hostileMAD(rnd *rand.Rand) []byte {
	attrs := [...]mad.AttrID{mad.AttrREQ, mad.AttrREP, mad.AttrRTU, mad.AttrREJ, mad.AttrDREQ, mad.AttrMRA, mad.AttrSIDRREQ, mad.AttrSIDRREP, mad.AttrLAP, mad.AttrAPR}
	b := make([]byte, mad.Size)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	b[0], b[1], b[2], b[3] = 1, byte(mad.ClassCM), 2, 3
	binary.BigEndian.PutUint16(b[16:], uint16(attrs[rnd.IntN(len(attrs))]))
	return b
}

// packetOf returns a packet as a reader of files does, between any two of many
// addresses; one in eight has a wrong ICRC.
func packetOf(p *roce.Packet, record int, now time.Time, rnd *rand.Rand) *pcapfile.Packet {
	addr := func() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(rnd.IntN(256)), byte(rnd.IntN(256))}) }
	h := ipudp.Header{Src: addr(), Dst: addr(), SrcPort: 0xc000 | uint16(rnd.IntN(1<<14)), DstPort: roce.Port, HopLimit: 64}
	seg := make([]byte, roce.Size(p.BTH.Opcode, len(p.Payload)))
	p.Build(seg)
	var head [ipudp.MaxLen]byte
	n := h.Put(head[:], len(seg))
	ip, udp := slices.Clone(head[:n-ipudp.UDPLen]), slices.Clone(head[n-ipudp.UDPLen:n])
	if rnd.IntN(8) > 0 {
		sum, _ := roce.HeaderICRC(ip, udp, seg)
		binary.LittleEndian.PutUint32(seg[len(seg)-roce.ICRCLen:], sum)
	}
	return &pcapfile.Packet{Record: record, Time: now, Src: h.Src, Dst: h.Dst, SrcPort: h.SrcPort, DstPort: roce.Port, IP: ip, UDP: udp, Payload: seg}
}
