package script

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
)

// domainOf takes pd=NAME.
func (r *registry) domainOf(a *args) (*hca.PD, error) {
	d, err := find[*domain](r, a.str("pd", "pd"))
	if err != nil {
		return nil, err
	}
	return d.pd, nil
}

// addPD allocates a protection domain: pd NAME.
func (w *world) addPD(a *args) error {
	name := a.word("a name")
	w.rec.did("pd", AllocPD{name})
	pd, err := w.HCA.AllocPD()
	return w.created(name, &domain{pd}, err)
}

// addMR registers memory: mr NAME len=N access=A|B iova=N fast quiet, or mr NAME null.
func (w *world) addMR(a *args) error {
	name := a.word("a name")
	pd, err := w.domainOf(a)
	if err != nil {
		return err
	}
	if a.flag("null") {
		m := &region{name: name, pd: pd}
		m.mr, err = pd.RegMR(memory.RegionConfig{Form: memory.FormNull, Access: ib.AccessLocalWrite})
		return w.created(name, m, err)
	}
	n := a.num("len", 4096, plainNumber)
	access, err := parseAccess(a.str("access", "local_write|remote_write|remote_read|remote_atomic"))
	if err != nil || a.err != nil {
		return cmp.Or(a.err, err)
	}
	if n > maxBytes {
		return fmt.Errorf("len: a script's region has at most %d bytes", maxBytes)
	}
	iova := uint64(len(w.mrs)+1) << 32
	if access&ib.AccessZeroBased != 0 {
		iova = 0
	}
	m := &region{name: name, pd: pd, buf: make([]byte, n)}
	if !a.flag("quiet") {
		m.last = make([]byte, n)
	}
	c := memory.RegionConfig{
		Buf: m.buf, IOVA: a.num("iova", iova, plainNumber), HasIOVA: true, Access: access, Invalidatable: a.flag("fast"), Durable: a.flag("durable"),
	}
	m.mr, err = pd.RegMR(c)
	w.rec.createdMR(w, m, c)
	if err == nil {
		w.mrs = append(w.mrs, m)
	}
	return w.created(name, m, err)
}

// addMW allocates a memory window: mw NAME type=1|2.
func (w *world) addMW(a *args) error {
	name := a.word("a name")
	pd, err := w.domainOf(a)
	if err != nil {
		return err
	}
	typ := ib.MWType(a.small("type", uint64(ib.MWType2), 8))
	if a.err != nil {
		return a.err
	}
	mw, err := pd.AllocMW(typ)
	return w.created(name, &window{pd, mw}, err)
}

// parseAccess reads rights by their names: remote_write|remote_read, or 0.
func parseAccess(s string) (ib.Access, error) {
	if s == "0" {
		return 0, nil
	}
	var access ib.Access
	var known []string
	for b := ib.Access(1); b <= ib.AccessRelaxedOrdering; b <<= 1 {
		known = append(known, strings.ToLower(b.String()))
	}
	for _, name := range strings.Split(s, "|") {
		found := false
		for i, k := range known {
			if k == name {
				access |= 1 << i
				found = true
			}
		}
		if !found {
			return 0, fmt.Errorf("there is no access right %s%s", name, hint(name, known[:10]))
		}
	}
	return access, nil
}

// addCQ creates a completion queue: cq NAME size=N manual timed.
func (w *world) addCQ(a *args) error {
	k := &queue{name: a.word("a name"), manual: a.flag("manual"), timed: a.flag("timed")}
	size := a.small("size", 1024, 32)
	if a.err != nil {
		return a.err
	}
	return w.newCQ(k, uint32(size))
}

func (w *world) newCQ(k *queue, size uint32) error {
	if k.name != usualCQ {
		w.rec.did("cq", CreateCQ{k.name, size, k.manual})
	}
	var err error
	c := qp.CQConfig{Entries: size, OnEvent: func() { w.say("notify %s", k.name) }}
	if k.timed {
		c.Time = func() clock.Instant { return w.now }
	}
	if k.cq, err = w.HCA.CQs().Create(c); err == nil {
		w.cqs = append(w.cqs, k)
	}
	return w.created(k.name, k, err)
}

// poll takes a completion out of the queue, with its time if the queue is timed.
func (k *queue) poll() (wc ib.WC, ok bool) {
	var wcs [1]ib.WC
	var at []clock.Instant
	if k.timed {
		at = []clock.Instant{0}
	}
	if k.cq.PollTimes(wcs[:], at) == 0 {
		return ib.WC{}, false
	}
	if k.timed {
		k.at = at[0]
	}
	return wcs[0], true
}

// addSRQ creates a shared receive queue: srq NAME wr=N sge=N limit=N.
func (w *world) addSRQ(a *args) error {
	name := a.word("a name")
	pd, err := w.domainOf(a)
	if err != nil {
		return err
	}
	wr, sge, limit := a.small("wr", 16, 32), a.small("sge", 4, 32), a.small("limit", 0, 32)
	if a.err != nil {
		return a.err
	}
	if a.has("xrcd") {
		d, cq, err := w.xrcOf(a)
		if err != nil {
			return err
		}
		s, err := pd.CreateXRCSRQ(d, cq, uint32(wr), uint32(sge), uint32(limit))
		if err == nil {
			w.srqns = append(w.srqns, s.Num())
		}
		return w.created(name, &sharedQueue{name, pd, s}, err)
	}
	w.rec.did("srq", CreateSRQ{name, w.nameOfPD(pd), uint32(wr), uint32(sge), uint32(limit)})
	s, err := pd.CreateSRQ(uint32(wr), uint32(sge), uint32(limit))
	return w.created(name, &sharedQueue{name, pd, s}, err)
}

// addAH creates an address handle: ah NAME dgid=ADDR and the rest of an
// address vector.
func (w *world) addAH(a *args) error {
	name := a.word("a name")
	pd, err := w.domainOf(a)
	if err != nil {
		return err
	}
	av := vector(a, a.addr("dgid", w.peer))
	if a.err != nil {
		return a.err
	}
	h, err := pd.CreateAH(&av)
	w.rec.did("ah", CreateAH{name, w.nameOfPD(pd), h, av})
	return w.created(name, &handle{pd, h}, err)
}

// vector takes an address vector.
func vector(a *args, dst netip.Addr) ib.AHAttr {
	return ib.AHAttr{
		DGID: ib.GIDFromAddr(dst), HopLimit: uint8(a.small("hop_limit", 64, 8)),
		FlowLabel: uint32(a.small("flow_label", 0, 32)), SGIDIndex: uint8(a.small("sgid_index", 0, 8)),
		TrafficClass: uint8(a.small("traffic_class", 0, 8)), SL: uint8(a.small("sl", 0, 8)),
		Port: uint8(a.small("port", 1, 8)), StaticRate: a.rate("static_rate"),
	}
}

// qpTypes are the services that a script may ask for, including SMI, which the
// adapter refuses.
var qpTypes = [...]ib.QPType{ib.RC, ib.UC, ib.UD, ib.GSI, ib.RD, ib.SMI, ib.XRCIni, ib.XRCTgt}

// addQP creates a queue pair: qp NAME TYPE and its sizes.
func (w *world) addQP(a *args) error {
	name := a.word("a name")
	typ, err := choose("queue pair type", a.word("a type"), qpTypes[:])
	if err != nil {
		return cmp.Or(a.err, err)
	}
	q := &pair{name: name}
	if q.pd, err = w.domainOf(a); err != nil {
		return err
	}
	both := a.str("cq", usualCQ)
	if q.sendCQ, err = find[*queue](&w.registry, a.str("send_cq", both)); err != nil {
		return err
	}
	if q.recvCQ, err = find[*queue](&w.registry, a.str("recv_cq", both)); err != nil {
		return err
	}
	c := hca.QPConfig{
		Type: typ, SendCQ: q.sendCQ.cq, RecvCQ: q.recvCQ.cq, SigAll: !a.flag("sig_per_wr"),
		Cap: ib.QPCap{
			MaxSendWR: uint32(a.small("send_wr", 16, 32)), MaxRecvWR: uint32(a.small("recv_wr", 16, 32)),
			MaxSendSGE: uint32(a.small("send_sge", 4, 32)), MaxRecvSGE: uint32(a.small("recv_sge", 4, 32)),
			MaxInlineData: uint32(a.small("inline", 64, 32)),
		},
	}
	if typ == ib.RD {
		if c.RDD, err = w.rddOf(a); err != nil {
			return err
		}
	}
	if a.has("srq") {
		s, err := find[*sharedQueue](&w.registry, a.str("srq", ""))
		if err != nil {
			return err
		}
		c.SRQ = s.srq
	}
	if err = w.xrcConfig(a, q, &c); err != nil || a.err != nil {
		return cmp.Or(a.err, err)
	}
	q.QP, err = w.HCA.CreateQP(q.pd, c)
	q.attr = w.defaults(typ)
	w.rec.createdQP(w, q, c)
	if err == nil {
		q.peerPSN = q.attr.RQPSN
		w.qps = append(w.qps, q)
	}
	return w.created(name, q, err)
}

// defaults are the attributes that a script gives where it names none.
func (r *registry) defaults(typ ib.QPType) ib.QPAttr {
	at := ib.QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: ib.MTU256, DestQPN: ib.QPN(peerQPN + len(r.qps) + 1),
		RQPSN: ib.NewPSN(peerPSN), SQPSN: ib.NewPSN(localPSN), QKey: qkey,
		MaxDestRDAtomic: 4, MaxRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 2, RNRRetry: 2,
		AV: ib.AHAttr{DGID: ib.GIDFromAddr(r.peer), HopLimit: 64, Port: 1},
	}
	switch typ {
	case ib.GSI:
		at.QKey = ib.QKeyGSI
	case ib.EEC:
		at.DestQPN = ib.QPN(peerEEC + len(r.eecs) + 1)
	}
	return at
}

// dereg ends a region: dereg NAME. Changes of its bytes are still shown.
func (w *world) dereg(m *region, a *args) error {
	w.rec.did("dereg", DeregMR{m.name})
	return w.outcome(m.pd.DeregMR(m.mr))
}

// rereg changes a region: rereg NAME access=A|B pd=NAME len=N iova=N. With len or iova
// it gets new memory, of zeros.
func (w *world) rereg(m *region, a *args) error {
	var err error
	var what memory.Change
	var c memory.RegionConfig
	to := m.pd
	if a.has("access") {
		what |= memory.ChangeAccess
		if c.Access, err = parseAccess(a.str("access", "")); err != nil {
			return err
		}
	}
	if a.has("pd") {
		what |= memory.ChangePD
		if to, err = w.domainOf(a); err != nil {
			return err
		}
	}
	if a.has("len") || a.has("iova") {
		what |= memory.ChangeTranslation
		n := a.num("len", uint64(len(m.buf)), plainNumber)
		if n > maxBytes {
			return fmt.Errorf("len: a script's region has at most %d bytes", maxBytes)
		}
		c.Buf, c.IOVA, c.HasIOVA = make([]byte, n), a.num("iova", m.mr.Addr(), plainNumber), true
	}
	if err := m.pd.ReregMR(m.mr, what, c, to); err != nil {
		return w.outcome(err)
	}
	if m.pd = to; what&memory.ChangeTranslation != 0 {
		m.buf = c.Buf
		if m.last != nil {
			m.last = make([]byte, len(m.buf))
		}
	}
	return nil
}

// destroy ends an object of any other kind: destroy NAME. A queue pair and a
// connection keep their names, so that packets can still be sent to them.
func (w *world) destroy(a *args) error {
	name := a.word("a name")
	w.rec.did("destroy", Destroy{name})
	var err error
	switch o := w.objects[name].(type) {
	case *pair:
		if o.gone {
			return fmt.Errorf("%s is destroyed already", name)
		}
		if o.gone = true; o.eec != nil {
			w.HCA.DestroyEEC(w.now, o.eec)
		} else {
			w.HCA.DestroyQP(o.pd, o.QP)
		}
		w.settle()
		return nil
	case *connection:
		return w.connections.destroyConn(o)
	case *listening:
		o.l.Close()
	case *queue:
		if err = w.HCA.CQs().Destroy(o.cq); err == nil {
			w.cqs = slices.DeleteFunc(w.cqs, func(k *queue) bool { return k == o })
		}
	case *sharedQueue:
		err = o.pd.DestroySRQ(o.srq)
	case *window:
		return w.outcome(o.pd.DeallocMW(o.mw)) // the name stays, for packets with its key
	case *handle:
		return w.outcome(o.pd.DestroyAH(o.ah)) // the name stays, for requests that outlive the handle
	case *domain:
		err = o.pd.Dealloc()
	case *domainRD:
		err = w.HCA.DeallocRDD(o.rdd)
	case *domainXRC:
		err = w.HCA.CloseXRCD(o.xrcd)
	default:
		return fmt.Errorf("there is nothing called %q to destroy", name)
	}
	if err == nil {
		delete(w.objects, name)
	}
	return w.outcome(err)
}

// outcome notes a refusal.
func (w *world) outcome(err error) error {
	if err != nil {
		w.refused(err)
	}
	return nil
}

// resize changes a completion queue or a shared receive queue: resize NAME SIZE.
func (w *world) resize(a *args) error {
	name := a.word("a completion queue or a shared receive queue")
	n, err := parseWord(a, "a size")
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	switch o := w.objects[name].(type) {
	case *queue:
		return w.outcome(w.HCA.CQs().Resize(o.cq, uint32(n)))
	case *sharedQueue:
		return w.outcome(o.pd.ResizeSRQ(o.srq, uint32(n)))
	default:
		return fmt.Errorf("%s is neither a completion queue nor a shared receive queue", name)
	}
}

// moderate delays the events of a completion queue: moderate NAME count=N period=DURATION.
func (w *world) moderate(k *queue, a *args) error {
	n, s := a.small("count", 0, 32), a.str("period", "0s")
	period, err := time.ParseDuration(s)
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	return w.outcome(w.HCA.CQs().Moderate(w.now, k.cq, qp.Moderation{Count: uint32(n), Period: period}))
}

// limit arms SRQ_LIMIT_REACHED: limit NAME N.
func (w *world) limit(s *sharedQueue, a *args) error {
	n, err := parseWord(a, "a number")
	if err != nil {
		return err
	}
	return w.outcome(s.srq.SetLimit(uint32(n)))
}

// parseWord takes the next word as a number.
func parseWord(a *args, what string) (uint64, error) {
	s := a.word(what)
	if a.err != nil {
		return 0, a.err
	}
	return parseNumber(s)
}

// poll takes completions out of a queue that the script polls: poll NAME [N].
func (w *world) poll(k *queue, a *args) error {
	var err error
	n := uint64(1 << 20)
	if len(a.words) > 0 {
		if n, err = parseWord(a, "a number"); err != nil {
			return err
		}
	}
	w.settle()
	for ; n > 0; n-- {
		wc, ok := k.poll()
		if !ok {
			break
		}
		w.say("%s", w.showWC(k, &wc))
	}
	w.settle()
	return nil
}

// arm asks a completion queue for a notification: arm NAME [solicited].
func (w *world) arm(k *queue, a *args) error {
	k.cq.Arm(a.flag("solicited"))
	return nil
}

// ahOf returns the address handle that a key names, none without one.
func (r *registry) ahOf(a *args) (ib.AHHandle, error) {
	name := a.str("ah", "")
	if name == "" {
		return 0, nil
	}
	h, err := find[*handle](r, name)
	if err != nil {
		return 0, err
	}
	return h.ah, nil
}
