package verbs

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

// secret registers a region of the endpoint without remote rights, to which windows can be bound.
func (e *endpoint) secret(t *testing.T, n int) *MR {
	t.Helper()
	mr, err := e.pd.RegMR(make([]byte, n), ib.AccessLocalWrite|ib.AccessMWBind)
	must.Do(t, err)
	return mr
}

func (e *endpoint) mw(t *testing.T, typ MWType) *MW {
	t.Helper()
	m, err := e.pd.AllocMW(typ)
	must.Do(t, err)
	return m
}

// part binds n bytes from offset off of a region with all rights.
func part(m *MW, mr *MR, off, n uint64) MWBind {
	return MWBind{MW: m, RKey: m.RKey().Inc(), MR: mr, Addr: mr.Addr() + off, Length: n, Access: ib.AccessRemote}
}

// through returns a WRITE of n bytes with the key of a window.
func (e *endpoint) through(key RKey, addr uint64, n uint32) SendWR {
	return SendWR{WRID: 9, Opcode: ib.WRRDMAWrite, SGList: []SGE{e.mr.SGE(0, n)}, RemoteAddr: addr, RKey: key}
}

// TestM1_BindUseRebindFree follows a window of type 1 over the network.
func TestM1_BindUseRebindFree(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	mr, m := b.secret(t, 4096), b.mw(t, ib.MWType1)
	copy(a.mr.Bytes(), bytes.Repeat([]byte("a"), 64))
	first := m.RKey()
	must.Do(t, b.qp.BindMW(1, 0, part(m, mr, 100, 64)))
	if wc := b.wait(t, 1)[0]; wc.WRID != 1 || wc.Opcode != ib.WCBindMW {
		t.Errorf("the bind completed as %+v", wc)
	}
	key := m.RKey()
	if key == first || key>>8 != first>>8 || m.Type() != ib.MWType1 {
		t.Errorf("key %#x after the bind, %#x before, of a window of %v", uint32(key), uint32(first), m.Type())
	}
	must.Do(t, a.qp.PostSend(a.through(key, mr.Addr()+100, 64)))
	a.wait(t, 1)
	b.settle(t)
	if got := mr.Bytes(); !bytes.Equal(got[100:164], a.mr.Bytes()[:64]) || got[99]|got[164] != 0 {
		t.Errorf("the region holds %q around the window", got[96:168])
	}
	must.Fail(t, mr.Dereg(), syscall.EINVAL, "deregister a region with a window")

	must.Do(t, b.qp.BindMW(2, 0, part(m, mr, 200, 64)))
	must.Do(t, b.qp.BindMW(3, 0, MWBind{MW: m}))
	b.wait(t, 2)
	must.Do(t, mr.Dereg())
	must.Do(t, a.qp.PostSend(a.through(m.RKey(), mr.Addr()+200, 8)))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
		t.Errorf("a WRITE through an unbound window: %v", wc.Status)
	}
	must.Do(t, m.Dealloc())
	must.Fail(t, m.Dealloc(), syscall.EINVAL, "deallocate a window twice")
}

// TestM2_TypeTwoOverTheNetwork binds, invalidates from both sides and binds again.
func TestM2_TypeTwoOverTheNetwork(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	mr, m := b.secret(t, 4096), b.mw(t, ib.MWType2)
	bind := func(id uint64) RKey {
		w := part(m, mr, 0, 64)
		must.Do(t, b.qp.PostSend(SendWR{WRID: id, Opcode: ib.WRBindMW, Bind: &w}))
		if wc := b.wait(t, 1)[0]; wc.WRID != id || wc.Opcode != ib.WCBindMW || m.RKey() != w.RKey {
			t.Errorf("the bind completed as %+v, key %#x, want %#x", wc, uint32(m.RKey()), uint32(w.RKey))
		}
		return w.RKey
	}
	key := bind(1)
	must.Do(t, a.qp.PostSend(a.through(key, mr.Addr(), 64)))
	a.wait(t, 1)
	must.Do(t, b.qp.PostSend(SendWR{WRID: 2, Opcode: ib.WRLocalInv, InvRKey: key}))
	if wc := b.wait(t, 1)[0]; wc.WRID != 2 || wc.Opcode != ib.WCLocalInv {
		t.Errorf("LOCAL_INV completed as %+v", wc)
	}
	key = bind(3)
	must.Do(t, b.qp.PostRecv(b.recv(4, 0, 8)))
	must.Do(t, a.qp.PostSend(SendWR{WRID: 5, Opcode: ib.WRSendWithInv, InvRKey: key, SGList: []SGE{a.mr.SGE(0, 8)}}))
	a.wait(t, 1)
	if wc := b.wait(t, 1)[0]; wc.Flags&ib.WCWithInv == 0 || wc.InvRKey != key {
		t.Errorf("the receive completed as %+v, want the invalidated key %#x", wc, uint32(key))
	}
	must.Do(t, mr.Dereg())
	must.Do(t, a.qp.PostSend(a.through(key, mr.Addr(), 8)))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
		t.Errorf("a WRITE through an invalidated window: %v", wc.Status)
	}
}

// TestM2_WindowsOfADeadQueuePair shows that the destruction of the queue pair frees the region, and that
// the next queue pair does not serve the key.
func TestM2_WindowsOfADeadQueuePair(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	mr, m := b.secret(t, 64), b.mw(t, ib.MWType2)
	w := part(m, mr, 0, 64)
	must.Do(t, b.qp.PostSend(SendWR{WRID: 1, Opcode: ib.WRBindMW, Bind: &w}))
	b.wait(t, 1)
	must.Do(t, b.qp.Destroy())
	var err error
	b.qp, err = b.pd.CreateQP(b.init(ib.RC))
	must.Do(t, err)
	a.move(t, ib.RESET)
	connect(t, a, b, nil)
	must.Do(t, a.qp.PostSend(a.through(m.RKey(), mr.Addr(), 8)))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
		t.Errorf("a WRITE through the window of a dead queue pair: %v", wc.Status)
	}
	must.Do(t, mr.Dereg())
	must.Fail(t, b.pd.Dealloc(), syscall.EBUSY, "deallocate a domain with a window")
	must.Do(t, m.Dealloc())
}

// TestM1_M2_BindsRefused shows what the calls refuse, and what they leave to the completion.
func TestM1_M2_BindsRefused(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	ud, _ := newConnected(t, ib.UD)
	mr, one, two := a.secret(t, 64), a.mw(t, ib.MWType1), a.mw(t, ib.MWType2)
	_, err := a.pd.AllocMW(3)
	must.Fail(t, err, syscall.EINVAL, "a window of type 3")
	foreign, foreignMR := b.mw(t, ib.MWType1), b.secret(t, 64)
	for what, w := range map[string]MWBind{
		"no window": {}, "a window of another adapter": part(foreign, mr, 0, 64), "a window of type 2": part(two, mr, 0, 64),
		"a range without a region": {MW: one, Length: 1}, "a region of another adapter": part(one, foreignMR, 0, 64),
	} {
		must.Fail(t, a.qp.BindMW(1, 0, w), syscall.EINVAL, what)
	}
	first := part(one, mr, 0, 64)
	for what, w := range map[string]*MWBind{"no bind": nil, "a window of type 1": &first} {
		must.Fail(t, a.qp.PostSend(SendWR{Opcode: ib.WRBindMW, Bind: w}), syscall.EINVAL, what)
	}
	must.Fail(t, ud.qp.PostSend(SendWR{Opcode: ib.WRLocalInv}), syscall.EINVAL, "LOCAL_INV on UD")
	a.quiet(t, "refused binds")

	key := one.RKey()
	must.Do(t, a.qp.BindMW(7, 0, part(one, mr, 1, 64)))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCMWBindErr || wc.WRID != 7 || one.RKey() != key {
		t.Errorf("a bind beyond the region: %+v, key %#x, want MW_BIND_ERR and key %#x", wc, uint32(one.RKey()), uint32(key))
	}
	must.Do(t, a.qp.Destroy())
	must.Fail(t, a.qp.BindMW(1, 0, first), syscall.EINVAL, "a bind on a queue pair that is destroyed")
}

// TestM1_TagsDiffer shows that no bind has the tag of the window or of the bind before it, and that tags are
// not counted up.
func TestM1_TagsDiffer(t *testing.T) {
	a, _ := newConnected(t, ib.RC)
	m := a.mw(t, ib.MWType1)
	last, ups := m.RKey(), 0
	for range 2000 {
		key := m.obj.DrawKey()
		if key == last || key == m.RKey() || key>>8 != m.RKey()>>8 {
			t.Fatalf("key %#x follows %#x, the window has %#x", uint32(key), uint32(last), uint32(m.RKey()))
		}
		if key == last.Inc() {
			ups++
		}
		last = key
	}
	if ups > 100 {
		t.Errorf("%d of 2000 tags are one more than the last", ups)
	}
}

// TestM2_SeveralWindowsOnOneRegion binds windows to parts of one region.
func TestM2_SeveralWindowsOnOneRegion(t *testing.T) {
	a, b := newConnected(t, ib.RC)
	mr := b.secret(t, 1024)
	for i := range uint64(8) {
		m := b.mw(t, ib.MWType2)
		w := part(m, mr, i*128, 128)
		must.Do(t, b.qp.PostSend(SendWR{WRID: i, Opcode: ib.WRBindMW, Bind: &w}))
		b.wait(t, 1)
		a.mr.Bytes()[0] = byte('A' + i)
		must.Do(t, a.qp.PostSend(a.through(m.RKey(), mr.Addr()+i*128, 1)))
		a.wait(t, 1)
	}
	b.settle(t)
	for i := range 8 {
		if c := mr.Bytes()[i*128]; c != byte('A'+i) {
			t.Errorf("window %d has %q", i, c)
		}
	}
	r, err := b.ctx.Resources()
	must.Do(t, err)
	if r.MWs != 8 {
		t.Errorf("%d windows, want 8", r.MWs)
	}
}
