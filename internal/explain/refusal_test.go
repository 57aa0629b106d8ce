package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// play adds packets between the client's queue pair 0x11 and the server's 0x22, a microsecond
// apart. Each line is a PSN, an MSN and what is sent; "wait" is a silence of 100 ms.
func (s *scene) play(lines ...string) *scene {
	s.t.Helper()
	after := time.Microsecond
	for _, line := range lines {
		if line == "wait" {
			after = 100 * time.Millisecond
			continue
		}
		var psn, msn uint32
		var what string
		if _, err := fmt.Sscan(line, &psn, &msn, &what); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		from, p := byte(client), &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, psn)}
		answer := func(op roce.Opcode, syndrome roce.Syndrome) {
			from, p = server, &roce.Packet{BTH: bth(op, 0x11, psn), AETH: roce.AETH{Syndrome: syndrome, MSN: ib.MSN(msn)}}
		}
		switch what {
		case "send":
		case "first":
			p.BTH.Opcode, p.Payload = roce.RCSendFirst, make([]byte, 256)
		case "last":
			p.BTH.Opcode = roce.RCSendLast
		case "probe":
			p.BTH.Opcode = roce.RCRDMAWriteOnly
		case "read": // of two packets
			p.BTH.Opcode, p.RETH = roce.RCRDMAReadRequest, roce.RETH{RKey: 7, Length: 512}
		case "sendmore":
			p.Payload = make([]byte, 4)
		case "readother":
			p.BTH.Opcode, p.RETH = roce.RCRDMAReadRequest, roce.RETH{RKey: 8, Length: 512}
		case "ack":
			answer(roce.RCAcknowledge, roce.ACKUnlimited)
		case "rnr":
			answer(roce.RCAcknowledge, roce.RNRNAK(1))
		case "missing":
			answer(roce.RCAcknowledge, roce.NAKSequence)
		case "access":
			answer(roce.RCAcknowledge, roce.NAKRemoteAccess)
		case "invalid":
			answer(roce.RCAcknowledge, roce.NAKInvalidRequest)
		case "operational":
			answer(roce.RCAcknowledge, roce.NAKRemoteOperational)
		case "readfirst":
			answer(roce.RCRDMAReadResponseFirst, roce.ACKUnlimited)
			p.Payload = make([]byte, 256)
		case "readmiddle":
			answer(roce.RCRDMAReadResponseMiddle, 0)
			p.Payload = make([]byte, 256)
		case "readlast":
			answer(roce.RCRDMAReadResponseLast, roce.ACKUnlimited)
			p.Payload = make([]byte, 256)
		default:
			s.t.Fatalf("what is %q?", what)
		}
		s.add(from, after, p)
		after = time.Microsecond
	}
	return s
}

// twoDone is a connection that has executed two messages, from PSN 5 on.
var twoDone = []string{"5 0 send", "5 1 ack", "6 0 send", "6 2 ack"}

// The outcomes of a fatal NAK that nothing refutes, and of one that an answer refutes.
const (
	stands  = "failed"
	mended  = "repaired"
	unclear = "unknown" // the connection may have been set up again
)

// refutations are answers after a fatal NAK.
var refutations = []struct {
	name  string
	begun []string
	then  string // separated by commas
	want  string
}{
	{"nothing follows", twoDone, "7 0 send, 7 2 access", stands},
	{"the request is acknowledged", twoDone, "7 0 send, 7 2 access, 7 3 ack", mended},
	{"the MSN of the NAK is wrong", twoDone, "7 0 send, 7 99 access, 7 3 ack", mended},
	{"another error", twoDone, "7 0 send, 7 2 invalid, 7 3 ack", mended},
	{"another error", twoDone, "7 0 send, 7 2 operational, 7 3 ack", mended},
	{"the first request is acknowledged", nil, "7 0 send, 7 0 access, 7 1 ack", mended},
	{"a later request is acknowledged", twoDone, "7 0 send, 8 0 send, 7 2 access, 8 4 ack", mended},
	{"an earlier request is acknowledged late", twoDone, "7 0 send, 8 0 send, 8 2 access, 7 3 ack", stands},
	{"an acknowledged request is acknowledged late", twoDone, "7 0 send, 7 2 access, wait, 6 2 ack", stands},
	{"what was never sent is acknowledged", twoDone, "7 0 send, 7 2 access, 8 4 ack", stands},
	{"probes are answered", twoDone, "7 0 send, 7 2 access, 6 0 probe, 7 3 ack", mended},
	{"probes are not answered", twoDone, "7 0 send, 7 2 access, 6 0 probe, 6 0 probe, 6 0 probe", stands},
	{"the request comes again", twoDone, "7 0 send, 7 2 access, wait, 7 0 send, 7 3 ack", mended},
	{"the request comes again twice", twoDone, "7 0 send, 7 2 access, wait, 7 0 send, wait, 7 0 send, 7 3 ack", mended},
	{"the request comes again with later ones", twoDone, "7 0 send, 7 2 access, wait, 7 0 send, 8 0 send, 9 0 send, 7 3 ack, 9 5 ack", mended},
	{"long messages come again", twoDone, "7 0 first, 8 0 last, 9 0 first, 10 0 last, 7 2 access, wait, 7 0 first, 8 0 last, 9 0 first, 10 0 last, 10 4 ack", mended},
	{"requests go on after the first one", nil, "7 0 send, 7 0 access, 8 0 send, 9 0 send, 7 1 ack, 9 3 ack", mended},
	{"requests go on", twoDone, "7 0 send, 7 2 access, 8 0 send, 9 0 send, 9 5 ack", mended},
	{"the receiver is not ready for the request", twoDone, "7 0 send, 7 2 access, 7 2 rnr", stands},
	{"the receiver is not ready for a later request", twoDone, "7 0 send, 8 0 send, 7 2 access, 8 3 rnr, wait, 8 0 send, 8 4 ack", mended},
	{"the request is missing", twoDone, "7 0 send, 7 2 access, 7 2 missing", stands},
	{"a later request is missing", twoDone, "7 0 send, 8 0 send, 7 2 access, 8 3 missing, 8 0 send, 8 4 ack", mended},
	{"another NAK", twoDone, "7 0 send, 8 0 send, 7 2 access, 8 2 access", stands},
	{"one of two NAKs is refuted", twoDone, "7 0 send, 8 0 send, 7 2 access, 8 2 access, 7 3 ack", stands},
	{"two NAKs are refuted", twoDone, "7 0 send, 8 0 send, 7 2 access, 8 2 invalid, 8 4 ack", mended},
	{"the next request is refused too", twoDone, "7 0 send, 7 2 access, 7 3 ack, 8 0 send, 8 3 access", stands},
	{"a READ is answered", twoDone, "7 0 read, 7 2 access, 7 3 readfirst, 8 3 readlast", mended},
	{"the rest of a READ is refused", twoDone, "7 0 read, 7 3 readfirst, 8 2 access", stands},
	{"the rest of a READ is refused, and its first response comes late", []string{"5 0 first", "6 0 last", "6 1 ack"}, "7 0 read, 8 2 access, 7 3 readfirst", stands},
	{"a response without an MSN", twoDone, "7 0 read, 7 2 access, 8 0 readmiddle", stands},
	{"the NAK is about a message in between", twoDone, "7 0 read, 9 0 send, 9 2 access, 7 3 readfirst, 8 3 readlast, 9 4 ack", mended},

	{"a new connection has the same PSNs", twoDone, "7 0 send, 7 2 access, wait, 5 0 send, 5 1 ack, 6 0 send, 6 2 ack, 7 0 send, 7 3 ack", stands},
	{"a new connection has the same PSNs and acknowledges all at once", twoDone, "7 0 send, 7 2 access, wait, 5 0 send, 6 0 send, 7 0 send, 7 3 ack", stands},
	{"a new connection may begin with the refused request", nil, "7 0 send, 7 0 access, wait, 7 0 send, 7 1 ack", unclear},
	{"a new connection may begin before the refused request", nil, "5 0 send, 6 0 send, 7 0 send, 7 2 access, wait, 5 0 send, 5 1 ack, 6 0 send, 7 0 send, 7 3 ack", unclear},
	{"after two NAKs, a new connection may begin with the first request", nil, "5 0 send, 6 0 send, 7 0 send, 5 9 access, 7 9 access, wait, 5 0 send, 5 1 ack, 6 0 send, 7 0 send, 7 3 ack", unclear},
	{"a new connection begins with another request", nil, "7 0 send, 7 0 access, wait, 7 0 readother, 7 1 readfirst, 8 1 readlast", stands},
	{"a new connection begins with a longer request", nil, "7 0 send, 7 0 access, wait, 7 0 sendmore, 7 1 ack", stands},
	{"a new connection begins with a request in the middle of a message", nil, "7 0 first, 8 0 last, 8 0 access, wait, 8 0 send, 8 1 ack", stands},
	{"a new connection begins with another key", nil, "7 0 read, 7 0 access, wait, 7 0 readother, 7 1 readfirst, 8 1 readlast", stands},
	{"a new connection begins with other PSNs, nothing was acknowledged before", nil, "7 0 send, 7 0 access, wait, 300 0 send, 300 1 ack", stands},
	{"a new connection begins with earlier PSNs, nothing was acknowledged before", nil, "7 0 send, 7 0 access, wait, 6 0 send, 7 0 send, 7 2 ack", stands},
	{"a new connection has later PSNs", twoDone, "7 0 send, 7 2 access, wait, 300 0 send, 300 1 ack, 301 0 send, 301 2 ack", stands},
	{"a new connection has the same PSNs, and an old request was in flight", twoDone, "7 0 send, 7 2 access, 8 0 send, wait, 5 0 send, 5 1 ack, 6 0 send, 6 2 ack, 7 0 send, 7 3 ack", stands},
	{"a new connection has later PSNs, and one is not in the capture", twoDone, "7 0 send, 7 2 access, wait, 300 0 send, 302 0 send, 302 3 ack", stands},
	{"a new connection has earlier PSNs", twoDone, "7 0 send, 7 2 access, wait, 3 0 send, 3 1 ack, 4 0 send, 5 0 send, 6 0 send, 7 0 send, 7 5 ack", stands},
	{"a new connection has distant PSNs", twoDone, "7 0 send, 7 2 access, wait, 900000 0 send, 900000 1 ack", stands},
	{"a new connection has a long message", twoDone, "7 0 send, 7 2 access, wait, 7 0 first, 8 0 last, 9 0 send, 9 2 ack", stands},
	{"a new connection, and a NAK in it is refuted", nil, "7 0 send, 7 0 access, wait, 7 0 send, 7 1 ack, 8 0 send, 8 1 access, 8 2 ack", unclear},

	{"no request is in the capture", []string{"5 1 ack", "6 2 ack"}, "7 2 access", stands},
	{"no request is in the capture, one is acknowledged", []string{"5 1 ack", "6 2 ack"}, "7 2 access, 7 3 ack", unclear},
	{"no request is in the capture, an earlier one is acknowledged", []string{"5 1 ack", "6 2 ack"}, "7 2 access, wait, 6 2 ack", stands},
	{"no request is in the capture, a new connection begins", []string{"5 1 ack", "6 2 ack"}, "7 2 access, wait, 5 1 ack, 6 2 ack, 7 3 ack", stands},
	{"no request is in the capture, a new connection has later PSNs", []string{"5 1 ack", "6 2 ack"}, "7 2 access, 300 1 ack, 301 2 ack, 302 3 ack", stands},
	{"no request is in the capture, nor an answer before", nil, "7 2 access, 7 3 ack", stands},
	{"the first request comes later", nil, "3 9 access, 5 0 send, 5 1 ack", mended},
	{"the first request comes later, and may be the same", nil, "5 9 access, wait, 5 0 send, 5 1 ack", unclear},
	{"the first request comes later, after an answer to none", nil, "3 9 access, 900 0 ack, 5 0 send, 5 1 ack", mended},
	{"the first request comes before, with a later PSN", nil, "5 0 send, 3 9 access, 5 1 ack", mended},
	{"the first request comes much later", nil, "3 9 access, 900000 0 send, 900000 1 ack", stands},
}

// TestRefutedNAKs has a fatal NAK arrive, and then answers that refute it or do not: it is a
// failure only if nothing refutes it. What a new connection of the same queue pairs acknowledges
// refutes nothing.
func TestRefutedNAKs(t *testing.T) {
	for _, c := range refutations {
		s := &scene{t: t}
		s.play(c.begun...).play(strings.Split(c.then, ", ")...)
		r := s.explain()
		v := &r.Verdict
		if v.Outcome != c.want || (v.Outcome == stands) != v.Bad() {
			t.Errorf("%s: %s (%s), want %s", c.name, v.Outcome, names(r), c.want)
		}
		if c.want != stands && (!strings.Contains(names(r), "refuted") || v.Requester != "" || r.Tally.Failed != 0 || r.Tally.FirstFailure != 0 || strings.Contains(names(r), "answer-skipped")) {
			t.Errorf("%s: %+v, found %s, %+v", c.name, v, names(r), r.Tally)
		}
	}
}

// TestRefutationIsExplained looks what a report says of a refuted NAK: the finding names it and
// the answer, the message was completed, and the packet's finding is no failure.
func TestRefutationIsExplained(t *testing.T) {
	s := (&scene{t: t}).play(twoDone...).play("7 0 send", "8 0 send", "7 2 access", "8 4 ack")
	r := s.kept(Config{Packets: 100})
	v := &r.Verdict
	if len(r.Findings) != 1 || v.Cause != "nak-refuted" || v.Record != 7 || v.Responder != "" || len(v.ErrorPages) != 0 ||
		!strings.Contains(v.Where, "SEND of 0 bytes at PSN 0x000007, in record 5; record 8 acknowledges it") || !strings.HasPrefix(r.Findings[0].Detail, "write-refused: ") {
		t.Errorf("%+v, %s", v, names(r))
	}
	if got := r.Kept[6].Finding; got != "nak-refuted" {
		t.Errorf("the finding of the NAK is %q", got)
	}
	if m := r.Messages; len(m) != 4 || m[2].Outcome != completed || m[2].Took != 3*time.Microsecond {
		t.Errorf("the messages are %+v", m)
	}
	s = (&scene{t: t}).play(twoDone...).play("7 0 send", "7 2 access", "wait", "300 0 send", "300 1 ack", "301 0 send", "301 2 ack")
	if m := s.explain().Messages; len(m) != 5 || m[2].Outcome != refused || m[2].Took != time.Microsecond || m[3].Outcome != completed {
		t.Errorf("with a new connection the messages are %+v", m)
	}
}

// TestRefusalAfterRefutation refutes one of two NAKs: the message stays refused, and the verdict
// and the packets are those of the other NAK.
func TestRefusalAfterRefutation(t *testing.T) {
	s := (&scene{t: t}).play("5 0 first", "6 0 last", "6 1 ack", "7 0 read", "7 1 access", "8 1 access", "7 2 readfirst")
	if m := s.explain().Messages; len(m) != 2 || m[1].Outcome != refused || m[1].Took != 2*time.Microsecond {
		t.Errorf("the messages are %+v", m)
	}
	s = (&scene{t: t}).play(twoDone...).play("7 0 send", "7 2 access", "7 3 ack")
	for i := range 3 * after {
		s.play(fmt.Sprint(8+i, " 0 send"), fmt.Sprint(8+i, " ", 4+i, " ack"))
	}
	s.play(fmt.Sprint(8+3*after, " 0 send"), fmt.Sprint(8+3*after, " 0 access"))
	r := s.explain()
	last := len(s.frames)
	if rungs, _ := r.Ladder(); r.Verdict.Record != last || len(rungs) == 0 || rungs[len(rungs)-1].Record != last {
		t.Errorf("the verdict is %+v, the packets are %v, the NAK is record %d", r.Verdict, rungs, last)
	}
}

// TestRefutationExplainsMore has a loss before a refuted NAK: the verdict is about the NAK.
func TestRefutationExplainsMore(t *testing.T) {
	s := (&scene{t: t}).play("5 0 send", "wait", "5 0 send", "5 1 ack", "7 0 send", "7 1 access", "7 2 ack")
	if r := s.explain(); len(r.Findings) < 2 || r.Verdict.Cause != "nak-refuted" {
		t.Errorf("%s: %+v", names(r), r.Verdict)
	}
}

// TestChannelGoesOn has an EE context answer after a NAK, as it must: the NAK stays a failure.
func TestChannelGoesOn(t *testing.T) {
	s := &scene{t: t}
	refusedRD(s)
	s.frames = s.frames[:len(s.frames)-1]
	s.add(client, time.Millisecond, &roce.Packet{BTH: bth(roce.RDSendOnly, 0x21, 0x102), RDETH: roce.RDETH{EEC: 0x11}})
	s.add(server, time.Millisecond, &roce.Packet{
		BTH: bth(roce.RDAcknowledge, 0x22, 0x102), RDETH: roce.RDETH{EEC: 0x12}, AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: 2},
	})
	if r := s.explain(); r.Verdict.Cause != "invalid-rd-request" {
		t.Errorf("%s: %+v", names(r), r.Verdict)
	}
}

// TestRefutationInMergedCaptures has each packet captured twice, a millisecond apart: the findings
// that follow from that are dropped, the one about the NAK is not.
func TestRefutationInMergedCaptures(t *testing.T) {
	s := (&scene{t: t}).play(twoDone...).play("7 0 send", "7 2 access", "7 3 ack", "8 0 send", "8 4 ack")
	start := s.frames[0].at
	var twice []frame
	for i, f := range s.frames {
		for k := range 2 {
			f.at = start.Add(time.Duration(2*i+k) * time.Millisecond)
			twice = append(twice, f)
		}
	}
	s.frames = twice
	if r := s.explain(); len(r.Findings) != 1 || r.Verdict.Cause != "nak-refuted" {
		t.Errorf("%s: %+v", names(r), r.Verdict)
	}
}

// TestRefutationIsInDoubt looks at the verdict of a refuted NAK after which the requester sends
// nothing more: it may have believed the NAK. Only what comes too late to be in flight at the
// NAK tells that it did not.
func TestRefutationIsInDoubt(t *testing.T) {
	for _, c := range []struct {
		then  string
		doubt bool
	}{{"7 3 ack", true}, {"7 3 ack, 8 0 send, 8 4 ack", true}, {"7 3 ack, wait, 8 0 send, 8 4 ack", false}, {"wait, 7 0 send, 7 3 ack", true}} {
		s := (&scene{t: t}).play(twoDone...).play("7 0 send", "7 2 access").play(strings.Split(c.then, ", ")...)
		v := s.explain().Verdict
		if got := strings.Contains(strings.Join(v.Caveats, "\n"), "believes each NAK"); got != c.doubt {
			t.Errorf("%s: in doubt %v, want %v: %q", c.then, got, c.doubt, v.Caveats)
		}
	}
}

// TestNewsOfRefutedNAKs tells at once of a NAK that fails a connection, then that it did not
// fail, and of the next NAK.
func TestNewsOfRefutedNAKs(t *testing.T) {
	s := (&scene{t: t}).play(twoDone...).play("7 0 send", "7 2 access", "7 3 ack", "8 0 send", "8 3 access", "wait")
	var told []string
	f := New(Config{Tell: func(n News) { told = append(told, fmt.Sprint(n.Turn, ", ", n.Cause, ", ", n.Record)) }})
	s.follow(f, func() {})
	if got := strings.Join(told, "; "); got != "failed now, write-refused, 6; did not fail, nak-refuted, 6; failed now, write-refused, 9" {
		t.Error(got)
	}
}

// TestManyRefusals has more NAKs than are examined one by one, for different errors: an answer
// refutes all of them, or none while one of them may be true.
func TestManyRefusals(t *testing.T) {
	for _, acked := range []string{"105 103 ack", "8 4 ack"} {
		s := (&scene{t: t}).play(twoDone...)
		for i := range 100 {
			s.play(fmt.Sprint(7+i, " 0 send"))
		}
		for i := range 99 {
			s.play(fmt.Sprint(7+i, " 2 ", []string{"access", "invalid", "operational"}[i%3]))
		}
		f := New(Config{})
		most := 0
		s.play(acked, acked).follow(f, func() {
			for e := f.alive.Front(); e != nil; e = e.Next() {
				most = max(most, len(e.Value.(*conversation).halves[0].refusals))
			}
		})
		r := f.Report()
		if most < maxRefusals || most > maxRefusals+int(nakRefuted-keyInvalidated) {
			t.Errorf("%d NAKs are remembered, want %d", most, maxRefusals)
		}
		if all := acked[:3] == "105"; all != (r.Tally.Failed == 0) {
			t.Errorf("after %q: %+v, %s", acked, r.Tally, names(r))
		}
	}
}
