package rdmacm

import (
	"errors"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// TestM4_Connection connects an XRC initiator with a target. The programs move both.
func TestM4_Connection(t *testing.T) {
	a, b := newPair(t)
	l := b.listen(b.typed(ib.XRCTgt), 0)
	client := a.resolve(a.typed(ib.XRCIni), b.at(port))
	must.Fail(t, client.CreateQP(nil, small()), ib.EINVAL, "CreateQP of XRC")
	pd, err := client.PD()
	must.Do(t, err)
	cq, err := client.Device().CreateCQ(16, nil)
	must.Do(t, err)
	ini, err := pd.CreateQP(&verbs.QPInitAttr{Type: ib.XRCIni, SendCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}})
	must.Do(t, err)
	must.Do(t, client.Connect(&ConnParam{QPN: ini.QPN(), RetryCount: 6, RNRRetryCount: 5, ResponderResources: 3, InitiatorDepth: 2}))
	ev := b.take(EventConnectRequest)
	if p := ev.Param; p.QPN != ini.QPN() || p.ResponderResources != 2 || p.InitiatorDepth != 0 {
		t.Errorf("the request is %+v", p)
	}
	server := ev.ID
	d, err := server.Device().OpenXRCDomain()
	must.Do(t, err)
	tgt, err := d.CreateQP()
	must.Do(t, err)
	walk(t, server, tgt)
	must.Do(t, server.Accept(&ConnParam{QPN: tgt.QPN(), RNRRetryCount: 7, ResponderResources: 2}))
	if p := a.take(EventConnectResponse).Param; p.QPN != tgt.QPN() || !p.SRQ || p.InitiatorDepth != 2 {
		t.Errorf("the response is %+v, want the queue pair %v", p, tgt.QPN())
	}
	walk(t, client, ini)
	must.Do(t, client.Establish())
	b.take(EventEstablished)
	i, err := ini.Query()
	must.Do(t, err)
	g, err := tgt.Query()
	must.Do(t, err)
	if i.DestQPN != tgt.QPN() || i.RetryCnt != 6 || i.RNRRetry != 7 || i.MaxRDAtomic != 2 || g.DestQPN != ini.QPN() || g.MaxDestRDAtomic != 2 || g.SQPSN != i.RQPSN {
		t.Errorf("the initiator has %+v, the target %+v", i, g)
	}
	part(t, a, client, b, server)
	destroy(t, client, server, l)
	must.Do(t, errors.Join(ini.Destroy(), tgt.Destroy(), d.Close()))
}

// TestM4_WrongSide refuses a connection from a target, and one of XRC to a listener of RC.
func TestM4_WrongSide(t *testing.T) {
	a, b := newPair(t)
	l := b.listener(IB, 0)
	target := a.resolve(a.typed(ib.XRCTgt), b.at(port))
	must.Fail(t, target.Connect(&ConnParam{QPN: 2}), ib.EINVAL, "a connection from a target")
	client := a.resolve(a.typed(ib.XRCIni), b.at(port))
	must.Do(t, client.Connect(&ConnParam{QPN: 2}))
	a.take(EventRejected)
	b.quiet("a connection of another service")
	must.Fail(t, a.id(TCP).SetQPType(ib.XRCIni), ib.EINVAL, "XRC in port space TCP")
	destroy(t, target, client, l)
}
