package verbs

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// datagram returns a SEND of 8 bytes to peer by an address handle.
func (e *endpoint) datagram(id uint64, ah *AH, peer *endpoint) SendWR {
	wr := e.send(id, 8)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peer.qp.QPN(), testQKey
	return wr
}

// TestUDHandleDestroyed sends by handles that are destroyed or of another PD: the result
// is LOC_QP_OP_ERR and SQE, from which the QP recovers.
func TestUDHandleDestroyed(t *testing.T) {
	a, b := newConnected(t, ib.UD)
	good, gone := a.ah(t, b), a.ah(t, b)
	must.Do(t, gone.Destroy())
	must.Fail(t, gone.Destroy(), syscall.EINVAL, "destroy an address handle again")
	other := a.sibling(t, ib.UD).ah(t, b)
	reused := a.ah(t, b) // reuses the slot of the destroyed handle
	for _, bad := range []*AH{gone, other} {
		for i := range uint64(2) {
			must.Do(t, b.qp.PostRecv(b.recv(i, 0, 48)))
		}
		must.Do(t, a.qp.PostSend(a.datagram(1, good, b), a.datagram(2, bad, b), a.datagram(3, good, b)))
		must.Do(t, a.qp.PostSend(a.datagram(4, reused, b)))
		for i, want := range []ib.WCStatus{ib.WCSuccess, ib.WCLocQPOpErr, ib.WCWRFlushErr, ib.WCWRFlushErr} {
			if wc := a.take(t, 1)[0]; wc.WRID != uint64(i+1) || wc.Status != want {
				t.Errorf("completion %+v, want request %d with %v", wc, i+1, want)
			}
		}
		if st := a.qp.State(); st != ib.SQE {
			t.Errorf("the QP is %v, want SQE", st)
		}
		a.move(t, ib.RTS)
		must.Do(t, a.qp.PostSend(a.datagram(5, reused, b)))
		a.wait(t, 1)
		b.wait(t, 2)
	}
}

// TestUDHandleOfAnotherAdapter posts with a handle whose number names another
// peer in the adapter of the queue pair: EINVAL, and nothing is sent there.
func TestUDHandleOfAnotherAdapter(t *testing.T) {
	a, b := newConnected(t, ib.UD)
	a.ah(t, b)
	must.Do(t, b.qp.PostRecv(b.recv(1, 0, 48)))
	for what, foreign := range map[string]*AH{"of another adapter": b.ah(t, a), "that was not created": new(AH)} {
		must.Fail(t, a.qp.PostSend(a.datagram(1, foreign, b)), syscall.EINVAL, "post with a handle "+what)
	}
	a.quiet(t, "a refused request completed")
	b.quiet(t, "a refused request was sent")
}

func TestUDMessageRules(t *testing.T) {
	a, b := newConnected(t, ib.UD)
	ah := a.ah(t, b)
	wrong := a.datagram(1, ah, b)
	wrong.RemoteQKey++
	must.Do(t, a.qp.PostSend(wrong))
	b.reaches(t, "drop_qkey_violations", 1)
	must.Do(t, a.qp.PostSend(a.datagram(2, ah, b))) // no receive is posted
	b.reaches(t, "drop_no_wqe", 1)
	must.Do(t, b.qp.PostRecv(b.recv(1, 0, 47))) // 40 bytes of GRH and 8 do not fit
	must.Do(t, a.qp.PostSend(a.datagram(3, ah, b)))
	b.reaches(t, "drop_length", 1)
	b.quiet(t, "a message that must be dropped arrived")
	a.wait(t, 3) // the sender gets no error
	long := a.datagram(4, ah, b)
	long.SGList = []SGE{a.mr.SGE(0, 4097)}
	must.Do(t, a.qp.PostSend(long))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCLocLenErr {
		t.Errorf("a message over the MTU: %v, want LOC_LEN_ERR", wc.Status)
	}
	if b.qp.State() != ib.RTS {
		t.Errorf("dropped messages moved the receiver to %v", b.qp.State())
	}
}

// TestInitAHFromWC replies to the sender of a message, over either IP version, and
// checks that completions without a valid GRH are refused.
func TestInitAHFromWC(t *testing.T) {
	n := NewNetwork()
	a := newEndpoint(t, Config{Addr: "10.0.0.1,fd00::1", Network: n}, ib.UD)
	b := newEndpoint(t, Config{Addr: "192.0.2.1,10.0.0.2,fd00::2", Network: n}, ib.UD)
	connect(t, a, b, nil)
	for _, c := range []struct {
		to, reply AHAttr
	}{
		{
			AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("10.0.0.2")), HopLimit: 9, Port: 1, TrafficClass: 0x68},
			AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("10.0.0.1")), HopLimit: 64, Port: 1, TrafficClass: 0x68, SGIDIndex: 1},
		},
		{
			AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("fd00::2")), SGIDIndex: 1, HopLimit: 9, Port: 1, TrafficClass: 0x68},
			AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("fd00::1")), HopLimit: 64, Port: 1, TrafficClass: 0x68, SGIDIndex: 2},
		},
	} {
		ah, err := a.pd.CreateAH(c.to)
		must.Do(t, err)
		must.Do(t, b.qp.PostRecv(b.recv(1, 0, 48)))
		must.Do(t, a.qp.PostSend(a.datagram(1, ah, b)))
		a.wait(t, 1)
		wc := b.take(t, 1)[0]
		grh := b.mr.Bytes()[:40]
		got, err := b.ctx.InitAHFromWC(&wc, grh)
		if err != nil || got != c.reply {
			t.Errorf("reply to %+v, %v, want %+v", got, err, c.reply)
		}
		_, err = a.ctx.InitAHFromWC(&wc, grh)
		must.Fail(t, err, syscall.EINVAL, "a message to another adapter")
		_, err = b.ctx.InitAHFromWC(&wc, grh[:39])
		must.Fail(t, err, syscall.EINVAL, "a GRH that is cut")
		_, err = b.ctx.InitAHFromWC(&wc, make([]byte, 40))
		must.Fail(t, err, syscall.EINVAL, "a GRH of no IP version")
		wc.Flags = 0
		_, err = b.ctx.InitAHFromWC(&wc, grh)
		must.Fail(t, err, syscall.EINVAL, "a completion without GRH")
	}
}

func TestCreateAHRefuses(t *testing.T) {
	a, b := newPair(t, ib.UD)
	for what, spoil := range map[string]func(*AHAttr){
		"port 0":           func(v *AHAttr) { v.Port = 0 },
		"port 2":           func(v *AHAttr) { v.Port = 2 },
		"an SGID index":    func(v *AHAttr) { v.SGIDIndex = 1 },
		"hop limit 0":      func(v *AHAttr) { v.HopLimit = 0 },
		"no destination":   func(v *AHAttr) { v.DGID = ib.GID{} },
		"the wrong family": func(v *AHAttr) { v.DGID = ib.GID{0xfd, 15: 1} },
		"a group of it":    func(v *AHAttr) { v.DGID = ib.GID{0xff, 0x0e, 15: 1} },
	} {
		av := a.attrs(b).AV
		spoil(&av)
		_, err := a.pd.CreateAH(av)
		must.Fail(t, err, syscall.EINVAL, "address handle with "+what)
	}
}
