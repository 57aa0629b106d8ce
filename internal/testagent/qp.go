package testagent

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/ib"
)

// QPConfig describes a queue pair to create.
type QPConfig struct {
	Type           ib.QPType // RC, UC or UD
	SendCQ, RecvCQ *CQ       // a nil RecvCQ means SendCQ
	SRQ            *SRQ      // nil for a receive queue of its own
	Cap            ib.QPCap
	SigAll         bool // every send is signaled
	AtomicWrite    bool // it can post ATOMIC_WRITE; EOPNOTSUPP if the program or its library lacks it
}

// QP is a queue pair.
type QP struct {
	handle
	QPN ib.QPN
	Cap ib.QPCap // the actual sizes
}

// CreateQP returns a queue pair in RESET.
func (p *PD) CreateQP(ctx context.Context, cfg QPConfig) (*QP, error) {
	if cfg.RecvCQ == nil {
		cfg.RecvCQ = cfg.SendCQ
	}
	request := fmt.Sprintf("qp pd=%d type=%s scq=%d rcq=%d %s", p.id, cfg.Type, cfg.SendCQ.id, cfg.RecvCQ.id, capKeys(cfg.Cap))
	if cfg.SRQ != nil {
		request += fmt.Sprintf(" srq=%d", cfg.SRQ.id)
	}
	if cfg.SigAll {
		request += " sigall=1"
	}
	if cfg.AtomicWrite {
		request += " atomic_write=1"
	}
	h, r, err := p.client.create(ctx, request)
	if err != nil {
		return nil, err
	}
	f := fields{r: r}
	return &QP{handle: h, QPN: ib.QPN(f.uint("qpn", 24)), Cap: f.cap()}, f.err
}

func capKeys(c ib.QPCap) string {
	return fmt.Sprintf("swr=%d rwr=%d ssge=%d rsge=%d inline=%d", c.MaxSendWR, c.MaxRecvWR, c.MaxSendSGE, c.MaxRecvSGE, c.MaxInlineData)
}

func (f *fields) cap() ib.QPCap {
	return ib.QPCap{
		MaxSendWR: uint32(f.uint("swr", 32)), MaxRecvWR: uint32(f.uint("rwr", 32)), MaxSendSGE: uint32(f.uint("ssge", 32)),
		MaxRecvSGE: uint32(f.uint("rsge", 32)), MaxInlineData: uint32(f.uint("inline", 32)),
	}
}

func avKeys(prefix string, av ib.AHAttr) string {
	words := []string{
		fmt.Sprintf("dgid=%s", av.DGID), fmt.Sprintf("sgid_index=%d", av.SGIDIndex), fmt.Sprintf("hop_limit=%d", av.HopLimit),
		fmt.Sprintf("traffic_class=%d", av.TrafficClass), fmt.Sprintf("flow_label=%d", av.FlowLabel), fmt.Sprintf("sl=%d", av.SL),
		fmt.Sprintf("rate=%d", av.StaticRate),
	}
	if av.Port != 0 {
		words = append(words, fmt.Sprintf("av_port=%d", av.Port))
	}
	return prefix + strings.Join(words, " "+prefix)
}

// attrKeys returns attributes in the protocol's form.
func attrKeys(a *ib.QPAttr, mask ib.AttrMask) []string {
	var words []string
	for _, k := range []struct {
		bit   ib.AttrMask
		key   string
		value any
	}{
		{ib.AttrState, "state", int(a.State)},
		{ib.AttrCurState, "cur_state", int(a.CurState)},
		{ib.AttrAccessFlags, "access", uint32(a.AccessFlags)},
		{ib.AttrPKeyIndex, "pkey_index", a.PKeyIndex},
		{ib.AttrPort, "port", a.Port},
		{ib.AttrQKey, "qkey", uint32(a.QKey)},
		{ib.AttrPathMTU, "path_mtu", a.PathMTU.Bytes()},
		{ib.AttrTimeout, "timeout", a.Timeout},
		{ib.AttrRetryCnt, "retry_cnt", a.RetryCnt},
		{ib.AttrRNRRetry, "rnr_retry", a.RNRRetry},
		{ib.AttrRQPSN, "rq_psn", a.RQPSN.Value()},
		{ib.AttrMaxRDAtomic, "max_rd_atomic", a.MaxRDAtomic},
		{ib.AttrMinRNRTimer, "min_rnr_timer", a.MinRNRTimer},
		{ib.AttrSQPSN, "sq_psn", a.SQPSN.Value()},
		{ib.AttrMaxDestRDAtomic, "max_dest_rd_atomic", a.MaxDestRDAtomic},
		{ib.AttrDestQPN, "dest_qpn", uint32(a.DestQPN)},
		{ib.AttrPathMigState, "path_mig", int(a.PathMigState)},
		{ib.AttrRateLimit, "rate_limit", a.RateLimit},
	} {
		if mask&k.bit != 0 {
			words = append(words, fmt.Sprintf("%s=%d", k.key, k.value))
		}
	}
	if mask&ib.AttrEnSQDAsyncNotify != 0 {
		notify := 0
		if a.EnSQDAsyncNotify {
			notify = 1
		}
		words = append(words, fmt.Sprintf("sqd_notify=%d", notify))
	}
	if mask&ib.AttrAV != 0 {
		words = append(words, avKeys("", a.AV))
	}
	if mask&ib.AttrAltPath != 0 {
		words = append(words, avKeys("alt_", a.AltAV), fmt.Sprintf("alt_timeout=%d alt_pkey_index=%d", a.AltTimeout, a.AltPKeyIndex))
	}
	if mask&ib.AttrCap != 0 {
		words = append(words, capKeys(a.Cap))
	}
	return words
}

// Modify sets the attributes that the mask names, and no others. The adapter
// decides whether that is allowed.
func (q *QP) Modify(ctx context.Context, attr *ib.QPAttr, mask ib.AttrMask) error {
	_, err := q.client.Do(ctx, fmt.Sprintf("modify qp=%d %s", q.id, strings.Join(attrKeys(attr, mask), " ")), 0)
	return err
}

// Query returns the state and the attributes.
func (q *QP) Query(ctx context.Context) (ib.QPAttr, error) {
	r, err := q.client.Do(ctx, fmt.Sprintf("query qp=%d", q.id), 0)
	if err != nil {
		return ib.QPAttr{}, err
	}
	f := fields{r: r}
	mtu, _ := ib.MTUFor(int(f.uint("path_mtu", 16)))
	a := ib.QPAttr{
		State: ib.QPState(f.uint("state", 8)), CurState: ib.QPState(f.uint("cur_state", 8)), PathMTU: mtu,
		PathMigState: ib.MigState(f.uint("path_mig", 8)), QKey: ib.QKey(f.uint("qkey", 32)),
		RQPSN: ib.NewPSN(uint32(f.uint("rq_psn", 32))), SQPSN: ib.NewPSN(uint32(f.uint("sq_psn", 32))),
		DestQPN: ib.QPN(f.uint("dest_qpn", 32)), AccessFlags: ib.Access(f.uint("access", 32)), PKeyIndex: uint16(f.uint("pkey_index", 16)),
		SQDraining: f.uint("sq_draining", 8) != 0, MaxRDAtomic: uint8(f.uint("max_rd_atomic", 8)), MaxDestRDAtomic: uint8(f.uint("max_dest_rd_atomic", 8)),
		MinRNRTimer: uint8(f.uint("min_rnr_timer", 8)), Port: uint8(f.uint("port", 8)), Timeout: uint8(f.uint("timeout", 8)),
		RetryCnt: uint8(f.uint("retry_cnt", 8)), RNRRetry: uint8(f.uint("rnr_retry", 8)), Cap: f.cap(),
	}
	a.AV = ib.AHAttr{SGIDIndex: uint8(f.uint("sgid_index", 8)), HopLimit: uint8(f.uint("hop_limit", 8)), TrafficClass: uint8(f.uint("traffic_class", 8))}
	if s, ok := r.Get("dgid"); ok {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return a, fmt.Errorf("test agent: query: dgid: %w", err)
		}
		a.AV.DGID = ib.GIDFromAddr(addr.WithZone(""))
	}
	return a, f.err
}

// AttachMcast makes a UD queue pair receive packets to a multicast group.
func (q *QP) AttachMcast(ctx context.Context, group ib.GID) error {
	_, err := q.client.Do(ctx, fmt.Sprintf("attach qp=%d gid=%s", q.id, group), 0)
	return err
}

// DetachMcast undoes AttachMcast.
func (q *QP) DetachMcast(ctx context.Context, group ib.GID) error {
	_, err := q.client.Do(ctx, fmt.Sprintf("detach qp=%d gid=%s", q.id, group), 0)
	return err
}

// AH is an address handle.
type AH struct{ handle }

// CreateAH returns an address handle.
func (p *PD) CreateAH(ctx context.Context, attr ib.AHAttr) (*AH, error) {
	h, _, err := p.client.create(ctx, fmt.Sprintf("ah pd=%d %s", p.id, avKeys("", attr)))
	return &AH{h}, err
}
