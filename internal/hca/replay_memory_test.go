package hca_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/roce"
)

// remember fills the regions with what they must have held before the first
// request: what READs returned and atomics found, except where a WRITE of
// the same flow came before. What a WRITE placed must be read back from what
// our responder wrote.
func (f *flow) remember(t testing.TB) {
	t.Helper()
	mtu := uint64(f.mtu().Bytes())
	var write roce.Packet
	for i := range f.requests {
		p := &f.requests[i].p
		switch p.Info.Kind {
		case roce.KindWrite:
			if p.Info.Flags&roce.FlagStart != 0 {
				write = *p
			}
			va := write.RETH.VA + uint64(p.BTH.PSN.Distance(write.BTH.PSN))*mtu
			_, known := f.regions[write.RETH.RKey].at(va, len(p.Payload))
			for k := range known {
				known[k] = true
			}
		case roce.KindReadRequest:
			f.rememberRead(p, mtu)
		case roce.KindCompareSwap, roce.KindFetchAdd:
			f.rememberAtomic(p)
		}
	}
}

// rememberRead settles the bytes that the responses to a READ carried.
func (f *flow) rememberRead(p *roce.Packet, mtu uint64) {
	n := p.PSNs(int(mtu))
	for i := range f.replies {
		r := &f.replies[i].p
		if r.Info.Kind != roce.KindReadResponse || !r.BTH.PSN.InWindow(p.BTH.PSN, n) {
			continue
		}
		va := p.RETH.VA + uint64(r.BTH.PSN.Distance(p.BTH.PSN))*mtu
		settle(f.regions[p.RETH.RKey], va, r.Payload)
	}
}

// rememberAtomic settles the number that an atomic found.
func (f *flow) rememberAtomic(p *roce.Packet) {
	for i := range f.replies {
		r := &f.replies[i].p
		if r.Info.Kind == roce.KindAtomicAck && r.BTH.PSN == p.BTH.PSN {
			var b [8]byte
			binary.NativeEndian.PutUint64(b[:], r.AtomicAck)
			settle(f.regions[p.AtomicETH.RKey], p.AtomicETH.VA, b[:])
		}
	}
}

func settle(r *replayRegion, va uint64, b []byte) {
	buf, known := r.at(va, len(b))
	for i := range buf {
		if !known[i] {
			buf[i], known[i] = b[i], true
		}
	}
}

// provide posts a receive for a request that takes one, unless Linux had none
// at that time.
func (f *flow) provide(s *rig.Solo, r *captured) {
	flags := r.p.Info.Flags
	takes := r.p.Info.Kind == roce.KindSend && flags&roce.FlagStart != 0 || r.p.Info.Kind == roce.KindWrite && flags&roce.FlagImm != 0
	switch st := s.QP.State(); {
	case !takes || f.posted > 0 || st != ib.RTR && st != ib.RTS:
		return
	case f.service == roce.ServiceRC && s.QP.Query().RQPSN != r.p.BTH.PSN:
		return // a duplicate, or ahead
	case f.rnrLeft[r.p.BTH.PSN] > 0:
		f.rnrLeft[r.p.BTH.PSN]--
		return
	case f.skipped < f.scenario().noRecv:
		f.skipped++
		return
	}
	sc := f.scenario()
	n := len(f.inbox)
	if sc.recvLen != 0 {
		n = sc.recvLen
	}
	sge := ib.SGE{Addr: f.inboxMR.Addr(), Length: uint32(n), LKey: f.inboxMR.LKey()}
	if sc.badLKey {
		sge.LKey++
	}
	_, err := s.QP.PostRecv(ib.RecvWR{SGList: []ib.SGE{sge}})
	rig.Must(s.T, err)
	f.posted++
}

// datagram makes a captured request one for our queue pair: its number and
// our keys in place of those of Linux, and the ICRC that they take.
func (f *flow) datagram(s *rig.Solo, r *captured) fabric.Datagram {
	p := r.p
	p.BTH.DestQP = s.QP.Num()
	ours := func(key ib.RKey) ib.RKey {
		if mr := f.regions[key]; mr != nil {
			return mr.mr.RKey()
		}
		return key
	}
	p.RETH.RKey, p.AtomicETH.RKey, p.InvRKey = ours(p.RETH.RKey), ours(p.AtomicETH.RKey), ours(p.InvRKey)
	if f.service == roce.ServiceUD && p.DETH.QKey == ib.QKey(0x11111111) {
		p.DETH.QKey = s.Attr.QKey
	}
	s.ID = r.id
	return s.Datagram(p)
}

// collect takes the completions of our side and checks that a receive holds
// the bytes of the message that ended it, and that a WRITE placed its own.
func (f *flow) collect(t *testing.T, s *rig.Solo, last int) {
	t.Helper()
	body, ok := f.message(last)
	p := &f.requests[last].p
	for _, wc := range s.Poll() {
		f.posted--
		if wc.Status != ib.WCSuccess {
			continue
		}
		got := f.inbox[:wc.ByteLen]
		if f.service == roce.ServiceUD {
			got = got[40:]
		}
		if p.Info.Kind == roce.KindSend && (!ok || !bytes.Equal(got, body.data)) {
			t.Errorf("%s: the receive that request %d ended holds other bytes than were sent", f.name, last)
		}
		f.delivered++
	}
	if !ok || p.Info.Kind != roce.KindWrite || p.Info.Flags&roce.FlagEnd == 0 {
		return
	}
	if placed, _ := f.regions[body.rkey].at(body.va, len(body.data)); bytes.Equal(placed, body.data) && placed != nil {
		f.placed++
	}
}

// message is what the packets of one message carry.
type message struct {
	data []byte
	rkey ib.RKey
	va   uint64
}

// message returns the message that request i is the last packet of, if all
// of it is there.
func (f *flow) message(i int) (m message, ok bool) {
	psn := f.requests[i].p.BTH.PSN
	var parts [][]byte
	for ; ; psn = psn.Prev() {
		k := slices.IndexFunc(f.requests[:i+1], func(c captured) bool {
			return c.p.BTH.PSN == psn && (c.p.Info.Kind == roce.KindSend || c.p.Info.Kind == roce.KindWrite)
		})
		if k < 0 {
			return m, false
		}
		p := &f.requests[k].p
		parts = append(parts, p.Payload)
		if p.Info.Flags&roce.FlagStart != 0 {
			slices.Reverse(parts)
			return message{bytes.Join(parts, nil), p.RETH.RKey, p.RETH.VA}, true
		}
	}
}
