package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// TestAnswersInDoubt explains answers for which a requester with a short timer and no
// retries does not wait. The verdict says that the capture does not show whether it did,
// unless the requester goes on, or has waited as long before.
func TestAnswersInDoubt(t *testing.T) {
	doubts := func(s *scene) (string, bool) {
		v := s.explain().Verdict
		return v.Outcome, strings.Contains(strings.Join(v.Caveats, "\n"), noRetriesLeft)
	}
	next := func(s *scene) {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 3)})
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 3), AETH: roce.AETH{Syndrome: roce.ACKCredits(31), MSN: 2}})
	}
	waited := func(s *scene) {
		answeredLate(0, 3*time.Millisecond)(s)
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 3)})
		s.add(server, 2*time.Millisecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 3), AETH: roce.AETH{Syndrome: roce.ACKCredits(31), MSN: 2}})
	}
	reordered := func(s *scene) {
		s.add(client, 0, &roce.Packet{BTH: bth(roce.RCRDMAReadRequest, 0x22, 2), RETH: roce.RETH{Length: 768}})
		for _, at := range [...]uint32{1, 0, 2} {
			op := [...]roce.Opcode{roce.RCRDMAReadResponseFirst, roce.RCRDMAReadResponseMiddle, roce.RCRDMAReadResponseLast}[at]
			s.add(server, time.Microsecond, &roce.Packet{BTH: bth(op, 0x11, 2+at), AETH: roce.AETH{Syndrome: roce.ACKCredits(31), MSN: 1}, Payload: make([]byte, 256)})
		}
	}
	for _, k := range []struct {
		name    string
		packets []func(*scene)
		outcome string
		doubt   bool
	}{
		{"an answer at once", []func(*scene){answeredLate(0, maxReaction-time.Microsecond)}, "clean", false},
		{"an answer after the shortest timer", []func(*scene){answeredLate(0, maxReaction)}, "clean", true},
		{"an answer after which the requester goes on", []func(*scene){answeredLate(0, 3*time.Millisecond), next}, "clean", false},
		{"an answer sooner than one before", []func(*scene){waited}, "clean", false},
		{"responses out of order", []func(*scene){reordered}, "clean", true},
		{"an answer before another repeat is due", []func(*scene){answeredLate(40*time.Millisecond, 60*time.Millisecond)}, "repaired", true},
		{"an answer after another repeat was due", []func(*scene){answeredLate(20*time.Millisecond, 60*time.Millisecond)}, "unknown", false},
	} {
		s := &scene{t: t}
		for _, add := range k.packets {
			add(s)
		}
		if outcome, doubt := doubts(s); outcome != k.outcome || doubt != k.doubt {
			t.Errorf("%s: %s, in doubt %v, want %s, %v", k.name, outcome, doubt, k.outcome, k.doubt)
		}
	}
}

// TestRefusalsInDoubt has NAKs come so late that a requester without retries may have given
// up: the verdict names both statuses, and one if the NAK comes in time.
func TestRefusalsInDoubt(t *testing.T) {
	for _, k := range []struct {
		syndrome roce.Syndrome
		after    time.Duration
		want     Statuses
	}{
		{roce.NAKRemoteAccess, lateAnswer - time.Millisecond, Statuses{ib.WCRemAccessErr}},
		{roce.NAKRemoteAccess, lateAnswer, Statuses{ib.WCRemAccessErr, ib.WCRetryExcErr}},
		{roce.RNRNAK(1), lateAnswer - time.Millisecond, Statuses{ib.WCRNRRetryExcErr}},
		{roce.RNRNAK(1), lateAnswer, Statuses{ib.WCRNRRetryExcErr, ib.WCRetryExcErr}},
	} {
		s := &scene{t: t}
		s.add(client, 0, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, 2)})
		s.add(server, k.after, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, 2), AETH: roce.AETH{Syndrome: k.syndrome}})
		if v := s.explain().Verdict; v.Requester != k.want.String() {
			t.Errorf("%v after %v: the requester sees %q, want %q (%s)", k.syndrome, k.after, v.Requester, k.want, v.Cause)
		}
	}
}
