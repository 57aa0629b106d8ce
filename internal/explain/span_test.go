package explain

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/roce"
)

// TestSpans receives responses to a READ in any order, and asks again for any of them,
// as does a list of them one by one.
func TestSpans(t *testing.T) {
	const n = 60
	t.Logf("seed %d (-damage-seed)", *seed)
	rnd := rand.New(rand.NewPCG(*seed, 1))
	for range 300 {
		o := &op{n: n}
		var got [n]bool
		for range 200 {
			if at := uint32(rnd.IntN(n)); rnd.IntN(20) > 0 {
				o.receive(at)
				got[at] = true
			} else {
				k := 1 + uint32(rnd.IntN(n))
				kept := at == o.rsp && len(o.ahead) > 0 // the requester asks for the gap only
				if o.reread(at, k); !kept {
					clear(got[at:min(at+k, n)])
				}
			}
			var told [n]bool
			for at := range o.rsp {
				told[at] = true
			}
			for i, s := range o.ahead {
				if s.from >= s.to || s.from <= o.rsp || i > 0 && s.from <= o.ahead[i-1].to {
					t.Fatalf("%d in order, and %v", o.rsp, o.ahead)
				}
				for at := s.from; at < s.to; at++ {
					told[at] = true
				}
			}
			if told != got {
				t.Fatalf("told %v, got %v", told, got)
			}
		}
	}
}

// TestPartialRead follows a READ of which one response is missing, which alone is asked
// for again: the READ is completed, and so is what follows.
func TestPartialRead(t *testing.T) {
	s := &scene{t: t}
	read := func(psn, packets uint32, after time.Duration) {
		s.add(client, after, &roce.Packet{BTH: bth(roce.RCRDMAReadRequest, 0x22, psn), RETH: roce.RETH{VA: 0x1000, RKey: 1, Length: packets * 1024}})
	}
	responses := func(psns ...uint32) {
		for _, psn := range psns {
			p := &roce.Packet{BTH: bth(roce.RCRDMAReadResponseMiddle, 0x11, psn), Payload: make([]byte, 1024)}
			switch psn {
			case 0, 8:
				p.BTH.Opcode = roce.RCRDMAReadResponseFirst
			case 7, 15:
				p.BTH.Opcode = roce.RCRDMAReadResponseLast
			}
			s.add(server, time.Microsecond, p)
		}
	}
	read(0, 8, 0)
	read(8, 8, time.Microsecond)
	responses(0, 1, 2, 4, 5, 6, 7)
	read(3, 1, 20*time.Microsecond)
	responses(3, 8, 9, 10, 11, 12, 13, 14, 15)
	for i := range uint32(4) { // and again, so that something stuck would be seen
		read(16+8*i, 1, time.Second)
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCRDMAReadResponseOnly, 0x11, 16+8*i), Payload: make([]byte, 1024)})
		if i < 3 {
			read(17+8*i, 7, time.Second)
			for k := range uint32(7) {
				p := &roce.Packet{BTH: bth(roce.RCRDMAReadResponseMiddle, 0x11, 17+8*i+k), Payload: make([]byte, 1024)}
				if k == 0 {
					p.BTH.Opcode = roce.RCRDMAReadResponseFirst
				} else if k == 6 {
					p.BTH.Opcode = roce.RCRDMAReadResponseLast
				}
				s.add(server, time.Microsecond, p)
			}
		}
	}
	r := s.explain()
	if r.Verdict.Outcome != "repaired" || names(r) != "read-response-lost-upstream" {
		t.Errorf("%s: %s", r.Verdict.Outcome, names(r))
	}
	if q := r.Conversations[0].AToB; q.Messages != 9 {
		t.Errorf("%d messages are completed, not 9: %+v", q.Messages, r.Messages)
	}
}
