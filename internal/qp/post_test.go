package qp_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// TestV4_Inline shows that inline data is copied when it is posted, may be
// longer than the MTU, and needs no key; and which requests are refused.
func TestV4_Inline(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	data := []byte("sixty-four bytes are what this queue pair takes of inline data..")
	wr := ib.SendWR{Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: bytes.Clone(data)}
	_, err := s.QP.PostSend(wr)
	rig.Must(t, err)
	clear(wr.InlineData)
	s.HCA.Single().RingDoorbell(s.QP)
	if got := s.Out(); len(got) != 1 || !bytes.Equal(got[0].Payload, data) {
		t.Errorf("inline data leaves as %q", got[0].Payload)
	}
	for what, wr := range map[string]ib.SendWR{
		"too much":           {Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: make([]byte, 65)},
		"READ":               {Opcode: ib.WRRDMARead, Flags: ib.SendInline, InlineData: data},
		"beside an SGE":      {Opcode: ib.WRSend, Flags: ib.SendInline, InlineData: data, SGList: []ib.SGE{s.SGE(0, 1)}},
		"three SGEs of two":  {Opcode: ib.WRSend, SGList: []ib.SGE{{}, {}, {}}},
		"atomic of 4 bytes":  {Opcode: ib.WRAtomicFetchAdd, SGList: []ib.SGE{s.SGE(0, 4)}},
		"atomic of 16 bytes": {Opcode: ib.WRAtomicCmpAndSwp, SGList: []ib.SGE{s.SGE(0, 16)}},
	} {
		if n, err := s.QP.PostSend(wr); n != 0 || !errors.Is(err, ib.EINVAL) {
			t.Errorf("%s is posted: %d, %v", what, n, err)
		}
	}
}

// TestQ22_QueueFull shows that a full queue refuses requests with ENOMEM, and
// keeps the requests of the list before them.
func TestQ22_QueueFull(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	var wrs []ib.SendWR
	var recvs []ib.RecvWR
	for i := range 20 {
		wrs = append(wrs, s.WR(ib.WRSend, uint64(i), 0, 1))
		recvs = append(recvs, ib.RecvWR{WRID: uint64(i)})
	}
	if n, err := s.QP.PostSend(wrs...); n != 16 || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("20 sends into a queue of 16: %d, %v", n, err)
	}
	if n, err := s.QP.PostRecv(recvs...); n != 16 || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("20 receives into a queue of 16: %d, %v", n, err)
	}
	s.HCA.Single().RingDoorbell(s.QP)
	if got := s.Out(); len(got) != 16 {
		t.Errorf("%d of the 16 that were taken leave", len(got))
	}
	s.Inject(s.AckTo(0x207, roce.ACKUnlimited))
	if n, err := s.QP.PostSend(wrs...); n != 8 || !errors.Is(err, ib.ENOMEM) {
		t.Errorf("after 8 are acknowledged %d fit, %v", n, err)
	}
}

// TestPosted shows the result of posting a list: how many requests were posted,
// and whether the queue had others, acknowledged ones not counted.
func TestPosted(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	post := func(wrs ...ib.SendWR) qp.Posted {
		sends := s.QP.Sends()
		defer sends.Done()
		for i := range wrs {
			if sends.Post(&wrs[i]) != nil {
				break
			}
		}
		return sends.Posted()
	}
	wr := func(n int) ib.SendWR { return s.WR(ib.WRSend, 1, 0, n) }
	for _, c := range []struct {
		why  string
		wrs  []ib.SendWR
		want qp.Posted
	}{
		{"the first", []ib.SendWR{wr(10)}, qp.Posted{Requests: 1, Bytes: 10}},
		{"a list behind it", []ib.SendWR{wr(1), wr(2), wr(3)}, qp.Posted{Requests: 3, Bytes: 6, Behind: true}},
		{"a list of which one is refused", []ib.SendWR{wr(5), {Opcode: ib.WRSend, InlineData: []byte{1}}, wr(7)}, qp.Posted{Requests: 1, Bytes: 5, Behind: true}},
	} {
		if got := post(c.wrs...); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.why, got, c.want)
		}
	}
	s.HCA.Single().RingDoorbell(s.QP)
	s.Out()
	s.Inject(s.AckTo(0x204, roce.ACKUnlimited))
	if got, want := post(wr(8)), (qp.Posted{Requests: 1, Bytes: 8}); got != want {
		t.Errorf("after all are acknowledged: %+v, want %+v", got, want)
	}
}

// TestE2_TooManyElements shows that a work request with more elements than the
// queue allows is refused before anything is written, on both queues and on an
// SRQ, and that those before it in the list stay posted.
func TestE2_TooManyElements(t *testing.T) {
	s := rig.NewSolo(t, rig.SoloConfig{})
	srq, err := s.PD.CreateSRQ(4, 2, 0)
	rig.Must(t, err)
	for _, n := range []int{3, 4, 255, 256, 258, 1 << 16} { // 2 are allowed; some wrap a byte
		list := make([]ib.SGE, n)
		for i := range list {
			list[i] = s.SGE(i%rig.Bytes, 1)
		}
		bad := ib.SendWR{WRID: 2, Opcode: ib.WRSend, SGList: list}
		if k, err := s.QP.PostSend(s.WR(ib.WRSend, 1, 0, 1), bad); k != 1 || !errors.Is(err, ib.EINVAL) {
			t.Errorf("a send of %d elements: %d posted, %v", n, k, err)
		}
		if k, err := s.QP.PostRecv(ib.RecvWR{WRID: 3}, ib.RecvWR{WRID: 4, SGList: list}); k != 1 || !errors.Is(err, ib.EINVAL) {
			t.Errorf("a receive of %d elements: %d posted, %v", n, k, err)
		}
		if err := srq.PostRecv(&ib.RecvWR{SGList: list}); !errors.Is(err, ib.EINVAL) {
			t.Errorf("a receive of %d elements into an SRQ: %v", n, err)
		}
	}
	s.HCA.Single().RingDoorbell(s.QP)
	if got := s.Out(); len(got) != 6 {
		t.Errorf("%d packets are sent, want the 6 requests that were posted", len(got))
	}
}
