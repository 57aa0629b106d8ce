package verbs

import (
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

func TestV1_QueryDeviceAndPort(t *testing.T) {
	a := newEndpoint(t, Config{Addr: "10.0.0.1,fd00::1", Network: NewNetwork()}, ib.RC)
	d, err := a.ctx.QueryDevice()
	must.Do(t, err)
	if d.MaxQP < 10000 || d.MaxQPWR < 16 || d.MaxSGE < 1 || d.MaxCQE < 1 || d.MaxPD < 1 || d.MaxMsgSize != 1<<31 || d.PhysPortCnt != 1 {
		t.Errorf("device attributes %+v", d)
	}
	if d.ResizeQP || !d.AutoPathMig || d.ChangePhyPort || !d.ReliableDatagram || !d.AtomicWrite || !d.FlushGlobal || d.FlushPersistent != (runtime.GOOS == "linux") {
		t.Errorf("the device reports wrong capabilities: %+v", d)
	}
	p, err := a.ctx.QueryPort()
	must.Do(t, err)
	if p.State != ib.PortActive || p.ActiveMTU != ib.MTU4096 || p.GIDTblLen != 2 || p.PKeyTblLen != 1 || p.Transport != "pipe" {
		t.Errorf("port attributes %+v", p)
	}
	for i, s := range []string{"10.0.0.1", "fd00::1"} {
		if g := a.ctx.QueryGID(i); g != ib.GIDFromAddr(netip.MustParseAddr(s)) {
			t.Errorf("GID %d is %v, want that of %s", i, g, s)
		}
	}
	for _, i := range []int{-1, 2, 1 << 20} {
		if g, k := a.ctx.QueryGID(i), a.ctx.QueryPKey(i); !g.IsZero() || k != 0 {
			t.Errorf("index %d is past the tables, yet GID %v, P_Key %#x", i, g, k)
		}
	}
	if k := a.ctx.QueryPKey(0); k != ib.PKeyDefault {
		t.Errorf("P_Key 0 is %#x, want the default", k)
	}
}

func TestV1_OpenErrors(t *testing.T) {
	used := loopback()
	ctx, err := Open(Config{Addr: used})
	must.Do(t, err)
	n := NewNetwork()
	other, err := Open(Config{Addr: "10.0.0.1", Network: n})
	must.Do(t, err)
	defer func() { must.Do(t, other.Close()) }()
	for _, c := range []struct {
		what string
		cfg  Config
		want error
		text string // what the user reads
	}{
		{"an address that is none", Config{Addr: "no-such-thing"}, syscall.EINVAL, "no-such-thing"},
		{"an empty element", Config{Addr: loopback() + ","}, syscall.EINVAL, "neither"},
		{"an address in use", Config{Addr: used, Exclusive: true}, syscall.EADDRINUSE, used},
		{"an address of another host", Config{Addr: "192.0.2.1"}, syscall.EADDRNOTAVAIL, "192.0.2.1"},
		{"loss of more than all", Config{Addr: loopback(), Faults: Faults{Rules: "drop p=1.5"}}, syscall.EINVAL, "1.5"},
		{"a fault that is none", Config{Addr: loopback(), Faults: Faults{Rules: "dorp"}}, syscall.EINVAL, "did you mean drop?"},
		{"rules that are nowhere", Config{Addr: loopback(), Faults: Faults{File: "no-such-file"}}, syscall.ENOENT, "no-such-file"},
		{"an address in use on a network", Config{Addr: "10.0.0.1", Network: n}, syscall.EADDRINUSE, "10.0.0.1"},
		{"a network that is none", Config{Addr: loopback(), Network: new(Network)}, syscall.EINVAL, "NewNetwork"},
	} {
		ctx, err := Open(c.cfg)
		if err == nil {
			t.Errorf("%s: opened", c.what)
			must.Do(t, ctx.Close())
			continue
		}
		must.Fail(t, err, c.want, c.what)
		if !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: the error %q does not name %q", c.what, err, c.text)
		}
		_, described := Describe(c.cfg)
		must.Fail(t, described, c.want, "describe "+c.what)
	}
	must.Do(t, ctx.Close())
	ctx, err = Open(Config{Addr: used})
	if err != nil {
		t.Fatalf("Close did not make the address free: %v", err)
	}
	must.Do(t, ctx.Close())
}

func TestSeedRepeats(t *testing.T) {
	var qpns [2]ib.QPN
	var keys [2]ib.LKey
	for i := range qpns {
		e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork(), Seed: 42, QPNSlot: 7}, ib.RC)
		qpns[i], keys[i] = e.qp.QPN(), e.mr.LKey()
	}
	if qpns[0] != qpns[1] || keys[0] != keys[1] {
		t.Errorf("the same seed gave QPNs %v and keys %v", qpns, keys)
	}
	if qpns[0]>>16 != 7 {
		t.Errorf("QPN %v is not in slot 7", qpns[0])
	}
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	f := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	if e.qp.QPN() == f.qp.QPN() && e.mr.LKey() == f.mr.LKey() {
		t.Error("without a seed two adapters drew the same QPN and the same key")
	}
}

func TestV2_DeallocInUse(t *testing.T) {
	e := newEndpoint(t, Config{Addr: "10.0.0.1", Network: NewNetwork()}, ib.RC)
	pd, err := e.ctx.AllocPD()
	must.Do(t, err)
	mr, err := pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
	must.Do(t, err)
	ah, err := pd.CreateAH(e.attrs(e).AV)
	must.Do(t, err)
	srq, err := pd.CreateSRQ(&SRQInitAttr{MaxWR: 4, MaxSGE: 1})
	must.Do(t, err)
	qp, err := pd.CreateQP(e.init(ib.UD))
	must.Do(t, err)
	for _, o := range []struct {
		name string
		end  func() error
	}{{"MR", mr.Dereg}, {"AH", ah.Destroy}, {"SRQ", srq.Destroy}, {"QP", qp.Destroy}} {
		must.Fail(t, pd.Dealloc(), syscall.EBUSY, "deallocate a PD that holds a "+o.name)
		must.Fail(t, pd.Dealloc(), ErrBusy, "deallocate a PD that holds a "+o.name)
		must.Do(t, o.end())
		if err := o.end(); err == nil {
			t.Errorf("the %s ended twice", o.name)
		}
	}
	must.Do(t, pd.Dealloc())
	must.Fail(t, pd.Dealloc(), ErrInvalidPD, "deallocate a PD again")
	_, err = pd.RegMR(make([]byte, 8), 0)
	must.Fail(t, err, ErrInvalidPD, "register in a PD that is gone")
	_, err = pd.CreateAH(e.attrs(e).AV)
	must.Fail(t, err, ErrInvalidPD, "AH in a PD that is gone")
	_, err = pd.CreateSRQ(&SRQInitAttr{MaxWR: 1, MaxSGE: 1})
	must.Fail(t, err, ErrInvalidPD, "SRQ in a PD that is gone")
	must.Fail(t, e.mr.ReregPD(pd), ErrInvalidPD, "move an MR to a PD that is gone")
}

func TestV2_PDsRunOut(t *testing.T) {
	ctx, err := Open(Config{Addr: "10.0.0.1", Network: NewNetwork()})
	must.Do(t, err)
	defer func() { must.Do(t, ctx.Close()) }()
	d, err := ctx.QueryDevice()
	must.Do(t, err)
	pds := make([]*PD, d.MaxPD)
	for i := range pds {
		pds[i], err = ctx.AllocPD()
		must.Do(t, err)
	}
	_, err = ctx.AllocPD()
	must.Fail(t, err, ErrInsufficientResources, "one PD more than max_pd")
	must.Fail(t, err, syscall.ENOMEM, "one PD more than max_pd")
	must.Do(t, pds[17].Dealloc())
	_, err = ctx.AllocPD()
	must.Do(t, err)
}
