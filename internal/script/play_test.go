package script

import (
	"errors"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/must"
)

// TestFollow shows that a script in the form for other adapters has all that
// its text has: each packet, completion, event, retry and drop of the output,
// and a action for each command.
func TestFollow(t *testing.T) {
	for _, name := range Names() {
		text, err := Text(name)
		must.Do(t, err)
		p, err := Follow(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, s := range p.Steps {
			if len(s.Acts) == 0 {
				t.Errorf("%s:%d: %v is no action", name, s.Line, s.Text)
			}
			refused := 0
			for _, a := range s.Acts {
				if a.Refused {
					refused++
				}
			}
			for _, c := range []struct {
				what, prefix string
				n            int
			}{
				{"completions", "wc ", len(s.Completions)}, {"retries", "retry ", len(s.Retries)}, {"drops", "drop ", len(s.Dropped)},
			} {
				if lines := count(s.Lines, c.prefix); lines != c.n {
					t.Errorf("%s:%d: %d %s, the output has %d", name, s.Line, c.n, c.what, lines)
				}
			}
			if lines := count(s.Lines, "refused: "); lines < refused {
				t.Errorf("%s:%d: %d actions are refused, the output has %d", name, s.Line, refused, lines)
			}
		}
	}
}

// count counts the lines that begin so.
func count(lines []string, prefix string) (n int) {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

// TestFollowNames shows actions and outcomes with everything resolved.
func TestFollowNames(t *testing.T) {
	p, err := Follow("t", head+`mr m len=64 access=remote_read
cq k manual
srq s wr=3
qp a RC srq=s recv_cq=k
walk a RTS
    a: RESET -> INIT -> RTR -> RTS (modify)
recv s id=4..5 m:8
< a RDMA_READ_REQUEST va=m+8 dlen=4 cut=1
    count: drop_malformed +1
fill m+2 "xy"
post a SEND id=1 m:4
    > a RC_SEND_ONLY psn=200 ackreq len=4 data=0x00007879
modify a SQE
    refused: modify from RTS to SQE: the device moves queue pairs there, a program cannot: invalid argument
`)
	var mismatch *Mismatch
	if err != nil && !errors.As(err, &mismatch) {
		t.Fatal(err)
	}
	action := func(step, n int) Step { return p.Steps[step].Acts[n].Step }
	mr := action(0, 0).(RegMR)
	if mr.Name != "m" || mr.PD != "pd" || mr.Len != 64 || mr.Key == 0 || mr.IOVA != 1<<32 {
		t.Errorf("the region is %+v", mr)
	}
	if k := action(1, 0).(CreateCQ); !k.Manual || k.Name != "k" {
		t.Errorf("the queue is %+v", k)
	}
	qp := action(3, 0).(CreateQP)
	if qp.SRQ != "s" || qp.SendCQ != "cq" || qp.RecvCQ != "k" || qp.PD != "pd" || qp.Num == 0 || qp.PeerQPN != 0x777701 {
		t.Errorf("the queue pair is %+v", qp)
	}
	if n := len(p.Steps[4].Acts); n != 3 {
		t.Errorf("a walk to RTS is %d calls", n)
	}
	if r := action(5, 0).(PostRecv); r.To != "s" || len(r.WRs) != 2 || r.WRs[1].WRID != 5 {
		t.Errorf("the receives are %+v", r)
	}
	in := action(6, 0).(Inject)
	if in.Cut != 1 || in.Packet.RETH.VA != mr.IOVA+8 || uint32(in.Packet.RETH.RKey) != mr.Key || in.Packet.BTH.DestQP != qp.Num {
		t.Errorf("the packet is %+v", in)
	}
	if m := p.Steps[7].Memory["m"]; string(m[2:4]) != "xy" {
		t.Errorf("the region holds %q", m)
	}
	if s := p.Steps[8].Packets; len(s) != 1 || s[0].QP != "a" {
		t.Errorf("the packets sent are %+v", s)
	}
	if a := p.Steps[9].Acts[0]; !a.Refused || a.Verb != "modify" {
		t.Errorf("the refused call is %+v", a)
	}
}
