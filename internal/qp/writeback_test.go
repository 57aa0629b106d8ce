package qp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// slowStorage is a connection whose side 1 needs writeBackTime to write memory back for a FLUSH, and
// a stranger on side 1's host who sends answers to side 0.
type slowStorage struct {
	*rig.Rig
	job   qp.WriteBack
	until clock.Instant // when the job ends; 0: there is none
	wcs   []ib.WC       // of side 0
}

// writeBackTime is longer than three challenges.
const writeBackTime = 40 * time.Millisecond

func newSlowStorage(t *testing.T) *slowStorage {
	s := &slowStorage{Rig: &rig.Rig{T: t}}
	for i := range s.Sides {
		c := rig.Config{Type: ib.RC, Bytes: 64 << 10, Challenge: true, Cap: rig.Cap}
		c.HCA.WriteBack = func(w qp.WriteBack) { s.job, s.until = w, s.Now.Add(writeBackTime) }
		s.Sides[i] = c.NewSide(t, byte(i+1))
	}
	s.Connect(ib.MTU1024)
	return s
}

// pass advances the time step by step, and ends the write-back when it is due.
func (s *slowStorage) pass(d time.Duration) {
	for end := s.Now.Add(d); s.Now < end; s.Now = s.Now.Add(100 * time.Microsecond) {
		if s.until != 0 && s.Now >= s.until {
			s.until = 0
			s.Sides[1].HCA.WrittenBack(s.Now, s.job, true)
		}
		for s.Transmit(0) || s.Transmit(1) {
		}
		for i, side := range s.Sides {
			side.HCA.Single().Advance(s.Now)
			wcs := s.Poll(i)
			if i == 0 {
				s.wcs = append(s.wcs, wcs...)
			}
		}
	}
}

// forge lets the stranger send a fatal NAK for a request in flight.
func (s *slowStorage) forge(psn ib.PSN) {
	s.answer(roce.RCAcknowledge, psn, roce.AETH{Syndrome: roce.NAKRemoteAccess})
}

// answer lets the stranger send an answer.
func (s *slowStorage) answer(op roce.Opcode, psn ib.PSN, h roce.AETH) {
	a, b := s.Sides[0], s.Sides[1]
	p := roce.Packet{BTH: roce.BTH{Opcode: op, PKey: ib.PKeyDefault, DestQP: a.QP.Num(), PSN: psn, MigReq: true}, AETH: h}
	buf := make([]byte, roce.Size(p.BTH.Opcode, 0))
	p.Build(buf)
	d := fabric.Datagram{Bytes: buf, Src: b.Addr, Dst: a.Addr, SrcPort: 40000, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: 64}
	roce.Seal(buf, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(buf)).WithID(0))
	a.HCA.Single().Receive(s.Now, &d)
}

// request returns a request about the first bytes of both regions.
func (s *slowStorage) request(op ib.WROpcode) ib.SendWR {
	wr := ib.SendWR{Opcode: op, RemoteAddr: s.Sides[1].MR.Addr(), RKey: s.Sides[1].MR.RKey()}
	switch op {
	case ib.WRFlush:
		wr.Flush = ib.Flush{Type: ib.FlushPersistent, Length: 8}
	default:
		wr.SGList = []ib.SGE{s.Sides[0].SGE(0, 8)}
	}
	return wr
}

// TestM6_StrangerDuringAWriteBack: while memory is written back for a FLUSH, a responder still answers
// probes, whatever waits behind the FLUSH. So a stranger's NAK is not believed, and everything
// completes when the memory is safe.
func TestM6_StrangerDuringAWriteBack(t *testing.T) {
	for name, c := range map[string]struct {
		behind []ib.WROpcode
		lost   int // which WRITE packet is lost, counted from 1; 0: none
	}{
		"alone":                     {},
		"a WRITE behind it":         {behind: []ib.WROpcode{ib.WRRDMAWrite}},
		"a WRITE and a READ":        {behind: []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead}},
		"a READ and a WRITE":        {behind: []ib.WROpcode{ib.WRRDMARead, ib.WRRDMAWrite}},
		"an ATOMIC WRITE, a WRITE":  {behind: []ib.WROpcode{ib.WRAtomicWrite, ib.WRRDMAWrite}},
		"another FLUSH and a WRITE": {behind: []ib.WROpcode{ib.WRFlush, ib.WRRDMAWrite}},
		"a gap":                     {behind: []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMAWrite, ib.WRRDMAWrite}, lost: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlowStorage(t)
			s.Post(0, s.request(ib.WRRDMAWrite))
			s.pass(time.Millisecond)
			sent := 0
			s.Drop = func(from int, p *roce.Packet) bool {
				if from == 0 && p.Info.Kind == roce.KindWrite {
					sent++
				}
				return sent == c.lost && from == 0 && p.Info.Kind == roce.KindWrite
			}
			flush := s.Sides[0].QP.Query().SQPSN
			s.Post(0, s.request(ib.WRFlush))
			for _, op := range c.behind {
				s.Post(0, s.request(op))
			}
			s.pass(time.Millisecond)
			if s.until == 0 {
				t.Fatal("nothing is written back")
			}
			for range len(c.behind) + 1 {
				s.forge(flush)
				s.pass(13 * time.Millisecond)
			}
			s.pass(3 * writeBackTime)
			ok := func(wc ib.WC) bool { return wc.Status == ib.WCSuccess }
			if len(s.wcs) != len(c.behind)+2 || slices.ContainsFunc(s.wcs, func(wc ib.WC) bool { return !ok(wc) }) {
				t.Errorf("%d requests end as %v", len(c.behind)+2, s.wcs)
			}
			if n := s.Sides[0].HCA.Counters(); n.Challenges == 0 || n.Challenges != n.ChallengesRefuted {
				t.Errorf("%d challenges, %d refuted", n.Challenges, n.ChallengesRefuted)
			}
		})
	}
}

// TestM6_StrangersAnswerToAFlush: a stranger who knows the PSN of a FLUSH, but not the message sequence
// number, can neither complete the FLUSH before the memory is safe, nor an ATOMIC WRITE behind it.
func TestM6_StrangersAnswerToAFlush(t *testing.T) {
	s := newSlowStorage(t)
	for range demand {
		s.Post(0, s.request(ib.WRRDMAWrite))
		s.pass(200 * time.Microsecond)
	}
	flush, done := s.Sides[0].QP.Query().SQPSN, len(s.wcs)
	s.Post(0, s.request(ib.WRFlush))
	s.Post(0, s.request(ib.WRAtomicWrite))
	s.pass(time.Millisecond)
	for n := range 300 {
		for _, psn := range []ib.PSN{flush, flush.Next()} {
			s.answer(roce.RCRDMAReadResponseOnly, psn, roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(demand + 3 + 5000*n)})
		}
		s.pass(100 * time.Microsecond)
	}
	if s.until == 0 || len(s.wcs) != done {
		t.Fatalf("a stranger's answers complete %d requests, and the memory is still being written back: %t", len(s.wcs)-done, s.until != 0)
	}
	if n := s.Sides[0].HCA.Counters().Drops[counters.DropMSN]; n != 600 {
		t.Errorf("%d of 600 answers are refused for their MSN", n)
	}
	if s.pass(3 * writeBackTime); len(s.wcs) != done+2 || s.wcs[done].Status != ib.WCSuccess || s.wcs[done+1].Status != ib.WCSuccess {
		t.Errorf("afterwards they end as %v", s.wcs[done:])
	}
}

// demand is the number of answers in a row with a plausible MSN after which all others are refused.
const demand = 255

// TestV17_StrangerDuringAPacedREAD: a responder answers probes while its rate limit delays the rest of a READ
// for longer than a challenge.
func TestV17_StrangerDuringAPacedREAD(t *testing.T) {
	s := newSlowStorage(t)
	rig.Must(t, s.Sides[1].QP.SetRateLimit(qp.RateLimit{Rate: 400, Burst: 1024}))
	psn := s.Sides[0].QP.Query().SQPSN
	s.Post(0, ib.SendWR{
		Opcode: ib.WRRDMARead, RemoteAddr: s.Sides[1].MR.Addr(), RKey: s.Sides[1].MR.RKey(),
		SGList: []ib.SGE{s.Sides[0].SGE(0, 4096)},
	})
	s.pass(5 * time.Millisecond)
	s.forge(psn.Add(1))
	s.pass(200 * time.Millisecond)
	if len(s.wcs) != 1 || s.wcs[0].Status != ib.WCSuccess {
		t.Errorf("the READ ends as %v", s.wcs)
	}
	if n := s.Sides[0].HCA.Counters(); n.Challenges != 1 || n.ChallengesRefuted != 1 {
		t.Errorf("%d challenges, %d refuted", n.Challenges, n.ChallengesRefuted)
	}
}

// TestM6_NoWriteBackOutlivesItsConnection lets a peer connect, flush, and connect again: however a
// connection ends, its job is cancelled, and the end of this job has no effect on the next connection.
func TestM6_NoWriteBackOutlivesItsConnection(t *testing.T) {
	waiting := map[uint64]bool{}
	var last qp.WriteBack
	c := rig.SoloConfig{Type: ib.RC}
	c.HCA.WriteBack = func(w qp.WriteBack) { waiting[w.Job], last = true, w }
	c.HCA.CancelWriteBack = func(job uint64) { delete(waiting, job) }
	s := rig.NewSolo(t, c)
	flush := s.Packet(roce.RCFlush, rig.PeerPSN, nil)
	flush.FETH.Placement, flush.RETH.Length = roce.PlacementPersistence, 8
	for _, end := range []ib.QPState{ib.RESET, ib.ERR, ib.RESET} {
		s.WantPackets("memory is written back", s.Inject(flush))
		if len(waiting) != 1 {
			t.Fatalf("%d jobs wait, want 1", len(waiting))
		}
		job := last
		if s.Modify(end); len(waiting) != 0 {
			t.Errorf("in %v %d jobs wait", end, len(waiting))
		}
		if end != ib.RESET {
			s.Modify(ib.RESET)
		}
		s.Walk(ib.RTS)
		s.WantPackets("the next connection flushes", s.Inject(flush))
		s.HCA.WrittenBack(s.Now, job, true)
		s.WantPackets("the old job ends", s.Out())
		delete(waiting, last.Job)
		s.HCA.WrittenBack(s.Now, last, true)
		s.WantPackets("the new job ends", s.Out(), rig.Sig(roce.RCRDMAReadResponseOnly, rig.PeerPSN, roce.ACKUnlimited))
		s.Modify(ib.RESET)
		s.Walk(ib.RTS)
	}
	s.Inject(flush)
	s.HCA.DestroyQP(s.PD, s.QP)
	if len(waiting) != 0 {
		t.Errorf("%d jobs of a queue pair that is gone wait", len(waiting))
	}
}
