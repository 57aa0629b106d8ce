package mad

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
)

// TestSummaryOfLinuxMessages shows that the beginning of what Linux sent
// is enough for the beginning of its description, whatever follows.
func TestSummaryOfLinuxMessages(t *testing.T) {
	counts := map[AttrID]int{}
	eachCaptured(t, func(c *captured) {
		got, whole := Summary((*[SummarySize]byte)(c.mad[:])), Describe(&c.mad)
		if !strings.HasPrefix(whole+" ", got+" ") {
			t.Errorf("%s record %d is summarized as\n%s, described as\n%s", c.file, c.Record, got, whole)
		}
		counts[c.mad.Header().AttrID]++
	})
	if len(counts) != 9 {
		t.Errorf("the captures hold %d kinds of messages", len(counts))
	}
}

// TestSummaryOfAny is the same for what the captures do not hold.
func TestSummaryOfAny(t *testing.T) {
	const seed = 4
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var m MAD
		for i := range m {
			m[i] = byte(r.Uint32())
		}
		if h := CMHeader(AttrREQ+AttrID(r.IntN(12)), r.Uint64()); r.IntN(10) > 0 {
			m.PutHeader(h)
		}
		got, whole := Summary((*[SummarySize]byte)(m[:])), Describe(&m)
		if !strings.HasPrefix(whole+" ", got+" ") {
			t.Fatalf("seed %d: summarized as\n%s, described as\n%s", seed, got, whole)
		}
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		want string
		attr AttrID
		data message
	}{
		{"REQ comm 0x00000001 service tcp:7472 qp 0x000003 psn 0x000004", AttrREQ,
			&REQ{LocalCommID: 1, ServiceID: IPServiceID(PSTCP, 7472), LocalQPN: 3, StartingPSN: ib.NewPSN(4), PKey: 5}},
		{"DREQ comm 0x00000001 remote 0x00000002 remote qp 0x000003", AttrDREQ,
			&DREQ{LocalCommID: 1, RemoteCommID: 2, RemoteQPN: 3, PrivateData: [DREQPrivateData]byte{1}}},
		{"MAD class CM version 1.2 method Send attribute AttrID(0x1b) modifier 0x00000000 status ok tid 0x0000000000000009", AttrAPR + 1, &RTU{}},
	} {
		var m MAD
		m.PutHeader(CMHeader(c.attr, 9))
		c.data.Put(&m)
		if got := Summary((*[SummarySize]byte)(m[:])); got != c.want {
			t.Errorf("summarized as\n%s, want\n%s", got, c.want)
		}
	}
}
