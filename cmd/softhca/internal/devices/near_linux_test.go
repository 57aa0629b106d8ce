//go:build !portable

package devices

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// talker is an adapter with a UD queue pair.
type talker struct {
	*verbs.Context
	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP
}

func newTalker(t *testing.T, addr string, w verbs.Wire) *talker {
	t.Helper()
	c, err := verbs.Open(verbs.Config{Addr: addr, Wire: w})
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	k := &talker{Context: c}
	k.pd, err = c.AllocPD()
	must.Do(t, err)
	k.cq, err = c.CreateCQ(64, nil)
	must.Do(t, err)
	k.qp, err = k.pd.CreateQP(&verbs.QPInitAttr{Type: ib.UD, SendCQ: k.cq, RecvCQ: k.cq, SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must.Do(t, err)
	for _, m := range []struct {
		attr verbs.QPAttr
		mask ib.AttrMask
	}{
		{verbs.QPAttr{State: ib.INIT, Port: 1, QKey: 7}, ib.AttrPKeyIndex | ib.AttrPort | ib.AttrQKey},
		{verbs.QPAttr{State: ib.RTR}, 0},
		{verbs.QPAttr{State: ib.RTS}, ib.AttrSQPSN},
	} {
		must.Do(t, k.qp.Modify(&m.attr, m.mask|ib.AttrState))
	}
	return k
}

// send sends an empty message.
func (k *talker) send(t *testing.T, to *talker) {
	t.Helper()
	ah, err := k.pd.CreateAH(verbs.AHAttr{DGID: to.QueryGID(0), HopLimit: 64, Port: 1})
	must.Do(t, err)
	must.Do(t, k.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, AH: ah, RemoteQPN: to.qp.QPN(), RemoteQKey: 7}))
	for wc := make([]verbs.WC, 1); ; {
		n, err := k.cq.Poll(wc)
		must.Do(t, err)
		if n == 1 {
			break
		}
	}
	must.Do(t, ah.Destroy())
}

// TestNearProcesses opens an address in three processes, of which two use shared memory.
// The description says which, and when the two have met.
func TestNearProcesses(t *testing.T) {
	const addr = "127.83.19.12"
	a := newTalker(t, addr, verbs.WireAuto)
	newTalker(t, addr, verbs.WireUDP)
	b := newTalker(t, addr, verbs.WireAuto)
	d := probe(t, addr)
	if want := []Near{{0, 0, device.NearLimit}, {2, 0, device.NearLimit}}; !slices.Equal(d.Share.Near, want) {
		t.Fatalf("%+v use shared memory, want %+v", d.Share.Near, want)
	}
	want := []Near{{0, 1, device.NearLimit}, {2, 1, device.NearLimit}}
	for end := time.Now().Add(time.Minute); !slices.Equal(d.Share.Near, want); d = probe(t, addr) {
		a.send(t, b)
		if time.Now().After(end) {
			t.Fatalf("%+v use shared memory, want %+v", d.Share.Near, want)
		}
	}
	var text strings.Builder
	must.Do(t, Text(&text, []Device{d}, true))
	if n := strings.Count(text.String(), "listens on 0 services, shares memory with 1 process, of at most 64\n"); n != 2 {
		t.Errorf("the text says of %d processes that they share memory with one:\n%s", n, &text)
	}
}

// TestToThisHost describes adapters that may use shared memory, and some that do not.
func TestToThisHost(t *testing.T) {
	for _, c := range []struct {
		env  string
		cfg  verbs.Config
		want string
	}{
		{"", verbs.Config{}, "shared memory with processes of this user that use it, others as to other hosts"},
		{"udp", verbs.Config{}, "as to other hosts (see --wire)"},
		{"", verbs.Config{Wire: verbs.WireAuto}, "shared memory with processes of this user that use it, others as to other hosts"},
		{"auto", verbs.Config{}, "shared memory with processes of this user that use it, others as to other hosts"},
		{"auto", verbs.Config{Wire: verbs.WireUDP}, "as to other hosts (see --wire)"},
		{"", verbs.Config{Network: verbs.NewNetwork()}, "as to other hosts (see --wire)"},
		{"auto", verbs.Config{Network: verbs.NewNetwork()}, "as to other hosts (see --wire)"},
	} {
		t.Setenv(verbs.WireEnv, c.env)
		c.cfg.Addr = "127.83.19.13"
		d, err := Probe("it", c.cfg)
		must.Do(t, err)
		var text strings.Builder
		must.Do(t, Text(&text, []Device{d}, true))
		if want := "        to this host:          " + c.want + "\n"; !strings.Contains(text.String(), want) {
			t.Errorf("%+v, %q: no %q in\n%s", c.cfg, c.env, want, &text)
		}
	}
}

// TestReason shows why an adapter does not use shared memory although it should.
func TestReason(t *testing.T) {
	p := Port{Wire: "udp", WireReason: "packets are shaped"}
	if got, want := p.toThisHost(), "as to other hosts, although --wire is auto: packets are shaped"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
