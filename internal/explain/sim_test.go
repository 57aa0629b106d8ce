package explain

import (
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/sim"
	"github.com/softhca/softhca/roce"
)

var (
	storySeed  = flag.Uint64("story-seed", 1, "of the first simulation whose explanation is compared with the truth")
	storyRuns  = flag.Int("story-runs", 20, "how many simulations there are of each profile")
	storyOps   = flag.Int("story-ops", 200, "how many actions each simulation has")
	storyTrace = flag.Bool("story-trace", false, "print the packets")
	storyOf    = flag.String("story-profile", "", "simulate this profile only")
)

// storyProfiles are the profiles whose connections queue pairs make.
var storyProfiles = []string{"clean", "mixed", "loss", "corrupt", "slow", "errors", "lifecycle", "restart", "migration", "chaos"}

// story is a simulation, captured at one of its adapters, and what happened to the queue
// pairs of its connections.
type story struct {
	seed     uint64
	profile  string
	at       [4]netip.Addr // of the adapter
	follower *Follower
	records  int
	sent     int  // by the adapter
	arrived  int  // at the adapter, damaged ones too
	damaged  int  // arrived with other bytes than were sent
	broken   int  // record of the first of them
	calm     bool // nothing can have happened to any packet, and no program was slow
	truths   map[sim.End]*endTruth
}

// endTruth is what happened to the requests of a queue pair.
type endTruth struct {
	done, bytes int
	flushed     bool
	ended       bool        // a program reset or destroyed the queue pair
	status      ib.WCStatus // the first that is neither success nor a flush
}

// remote reports whether a packet, or the lack of one, causes the status.
func remote(s ib.WCStatus) bool {
	switch s {
	case ib.WCRetryExcErr, ib.WCRNRRetryExcErr, ib.WCRemAccessErr, ib.WCRemInvReqErr, ib.WCRemOpErr:
		return true
	default:
		return false
	}
}

// tell simulates a story, captured at the first adapter.
func tell(t *testing.T, profile string, seed uint64) (*story, *Report) {
	t.Helper()
	s := &story{
		seed: seed, profile: profile, follower: New(Config{Messages: 1 << 20}), truths: map[sim.End]*endTruth{},
		at: [4]netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom16([16]byte{0: 0xfd, 15: 1}),
			netip.AddrFrom4([4]byte{10, 0, 1, 1}), netip.AddrFrom16([16]byte{0: 0xfd, 14: 1, 15: 1}),
		},
	}
	harmed := false
	r, err := sim.Run(sim.Config{Seed: seed, Ops: *storyOps, Profile: profile, Watch: &sim.Watch{
		Sent: func(at time.Duration, d *fabric.Datagram) {
			if slices.Contains(s.at[:], d.Src) {
				s.sent++
				s.capture(at, d, pcapfile.Outbound)
			}
		},
		Arrived: func(at time.Duration, d *fabric.Datagram, damaged bool) {
			if !slices.Contains(s.at[:], d.Dst) {
				return
			}
			s.arrived += d.Segments()
			if damaged {
				if s.damaged++; s.broken == 0 {
					s.broken = s.records + 1
				}
			}
			s.capture(at, d, pcapfile.Inbound)
		},
		Harmed:    func() { harmed = true },
		Completed: s.completed,
		Ended:     func(e sim.End) { s.truth(e).ended = true },
	}})
	if err != nil || r.Violation != nil {
		t.Fatalf("%s, seed %d: %v, %v", profile, seed, err, r.Violation)
	}
	s.calm = !harmed && r.Faults == "none"
	return s, s.follower.Report()
}

func (s *story) truth(e sim.End) *endTruth {
	if s.truths[e] == nil {
		s.truths[e] = new(endTruth)
	}
	return s.truths[e]
}

func (s *story) completed(e sim.End, bytes int, status ib.WCStatus) {
	switch u := s.truth(e); {
	case status == ib.WCSuccess:
		u.done++
		u.bytes += bytes
	case status == ib.WCWRFlushErr:
		u.flushed = true
	case u.status == ib.WCSuccess:
		u.status = status
	}
}

// capture gives the packets of a datagram to the follower.
func (s *story) capture(at time.Duration, d *fabric.Datagram, way pcapfile.Direction) {
	h := ipudp.Header{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, DstPort: d.DstPort, ID: d.ID, TClass: d.TClass, HopLimit: d.HopLimit}
	for off := 0; off < len(d.Bytes); h.ID++ {
		var seg []byte
		seg, off = d.Segment(off)
		s.records++
		if *storyTrace {
			var p roce.Packet
			fault := p.Parse(seg)
			fmt.Printf("%d %v %v > %v qp %v %v psn %v %v aeth %v msn %d, fault %v, migreq %v\n",
				s.records, at, d.Src, d.Dst, p.BTH.DestQP, p.BTH.Opcode, p.BTH.PSN, way, p.AETH.Syndrome, p.AETH.MSN, fault, p.BTH.MigReq)
		}
		var head [ipudp.MaxLen]byte
		n := h.Put(head[:], len(seg))
		s.follower.Add(&pcapfile.Packet{
			Record: s.records, Time: time.Unix(1, 0).Add(at), Src: h.Src, Dst: h.Dst, SrcPort: h.SrcPort, DstPort: h.DstPort,
			IP: head[:n-ipudp.UDPLen], UDP: head[n-ipudp.UDPLen : n], Payload: seg, Direction: way,
		})
	}
}

// TestExplanationsOfSimulations has simulations with trouble of all kinds, each captured at
// one adapter, and compares the explanation with what happened: the status that each program
// got, how many requests were completed, and how many packets passed and were damaged.
func TestExplanationsOfSimulations(t *testing.T) {
	totals := &storyTotals{statuses: map[ib.WCStatus]int{}}
	for _, profile := range storyProfiles {
		if *storyOf != "" && profile != *storyOf {
			continue
		}
		for i := range uint64(*storyRuns) {
			s, r := tell(t, profile, *storySeed+i)
			for _, wrong := range s.wrong(r, totals) {
				t.Errorf("-story-profile %s -story-seed %d -story-runs 1: %s", profile, s.seed, wrong)
			}
		}
	}
	t.Logf("from seed %d (-story-seed): %+v", *storySeed, *totals)
	if *storyOf == "" && *storyRuns >= 20 && (totals.compared < 100 || totals.named < 10 || totals.counted < 50 || totals.damaged < 10) {
		t.Errorf("too little was compared: %+v", *totals)
	}
}

// storyTotals counts what was compared.
type storyTotals struct {
	stories, compared, counted, named, damaged int
	statuses                                   map[ib.WCStatus]int
}

// wrong returns what of an explanation differs from the truth.
func (s *story) wrong(r *Report, totals *storyTotals) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	totals.stories++
	totals.damaged += s.damaged
	if r.Packets != s.sent+s.arrived || r.Records != 0 && r.Records != s.records {
		say("%d packets were followed, %d were sent and %d arrived", r.Packets, s.sent, s.arrived)
	}
	if got := r.BadICRC + r.Malformed; got != s.damaged {
		say("%d packets are damaged by the explanation, %d are", got, s.damaged)
	}
	first := 0
	for _, f := range r.Findings {
		if f.id >= icrcID && f.id <= badPad && f.id != icrcSender && (first == 0 || f.First < first) {
			first = f.First
		}
	}
	if first != s.broken {
		say("the first damaged packet is in record %d by the findings, and in %d", first, s.broken)
	}
	sum := 0
	for i := range r.Conversations {
		c := &r.Conversations[i]
		sum += c.Packets
		if c.Service == "RC" && c.A.QPN != nil && c.B.QPN != nil {
			all = append(all, s.compare(r, c, totals)...)
		}
	}
	if r.Unlisted == 0 && sum+r.BadICRC+r.Malformed+r.Twice != r.Packets {
		say("conversations have %d packets, %d are damaged and %d were captured twice, of %d", sum, s.damaged, r.Twice, r.Packets)
	}
	return all
}

// compare compares the explanation of a connection with the truth.
func (s *story) compare(r *Report, c *Conversation, totals *storyTotals) (all []string) {
	ends := [2]sim.End{{Addr: netip.MustParseAddr(c.A.Addr), QPN: ib.QPN(*c.A.QPN)}, {Addr: netip.MustParseAddr(c.B.Addr), QPN: ib.QPN(*c.B.QPN)}}
	truths := [2]*endTruth{s.truth(ends[0]), s.truth(ends[1])}
	if truths[0].ended || truths[1].ended {
		return nil
	}
	totals.compared++
	var worst *Finding
	var found []string
	named := Statuses{}
	for _, f := range r.Findings {
		if f.Conversation != c.ID {
			continue
		}
		if found = append(found, fmt.Sprintf("%s (record %d, %s)", f.Rule, f.First, f.Detail)); worst == nil {
			worst = f
		}
		if f.Severity == Failed {
			named = append(named, f.requester...)
		}
	}
	say := func(format string, args ...any) {
		all = append(all, fmt.Sprintf(format, args...)+fmt.Sprintf("; conversation %d, %v and %v: %+v and %+v; found %s",
			c.ID, c.A, c.B, *truths[0], *truths[1], strings.Join(found, ", ")))
	}
	outcome := "clean"
	if worst != nil {
		outcome = worst.Severity.String()
	}
	var got []ib.WCStatus
	for _, u := range truths {
		if u.status != ib.WCSuccess {
			got = append(got, u.status)
			totals.statuses[u.status]++
		}
	}
	fine := len(got) == 0 && !truths[0].flushed && !truths[1].flushed
	plain := !slices.ContainsFunc(truths[:], func(u *endTruth) bool { // no side ended for a reason that no packet shows
		return u.flushed && u.status == ib.WCSuccess || u.status != ib.WCSuccess && !remote(u.status)
	})
	switch {
	case fine && outcome == Failed.String():
		say("it failed by the explanation, and every request was completed")
	case plain && len(got) > 0 && len(named) > 0:
		totals.named++
		if !slices.ContainsFunc(got, func(st ib.WCStatus) bool { return slices.Contains(named, st) }) {
			say("the explanation names %v, the programs saw %v", named, got)
		}
	}
	if s.calm && outcome != "clean" && outcome != Repaired.String() { // receives may come late
		say("nothing happened to any packet, and something was found")
	}
	for side, q := range [2]*Requests{&c.AToB, &c.BToA} {
		u := truths[side]
		if !slices.Contains(s.at[:], ends[side].Addr) {
			continue // the capture misses answers that the requester got, and requests that it sent
		}
		if remote(u.status) && (outcome == "clean" || outcome == Repaired.String()) && c.doubt == 0 && !c.disorder {
			say("a request of side %d failed, and the explanation is %s", side, outcome)
		}
		if !fine || slices.Contains(s.at[:], ends[1-side].Addr) || split(r, c) {
			continue
		}
		totals.counted++
		if q.Messages != u.done || q.Bytes != u.bytes {
			say("side %d completed %d requests of %d bytes, the explanation has %d of %d", side, u.done, u.bytes, q.Messages, q.Bytes)
		}
	}
	return all
}

// split reports whether another conversation has the same two queue pairs: if the first request
// of a direction comes by a new path, no packet tells that the connection migrated.
func split(r *Report, c *Conversation) bool {
	return slices.ContainsFunc(r.Conversations, func(o Conversation) bool {
		return o.ID != c.ID && o.A.QPN != nil && o.B.QPN != nil && (*o.A.QPN == *c.A.QPN && *o.B.QPN == *c.B.QPN || *o.A.QPN == *c.B.QPN && *o.B.QPN == *c.A.QPN)
	})
}
