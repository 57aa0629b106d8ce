package judge

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/internal/testagent"
)

// do carries out one action. Its error ends the judgement of the script; a
// refusal by the adapter is judged.
func (s *stage) do(ctx context.Context, line int, a *script.Act) error {
	switch d := a.Step.(type) {
	case script.Modify:
		return s.modify(ctx, line, a, &d)
	case script.PostSend:
		return s.postSend(ctx, line, a, &d)
	case script.PostRecv:
		return s.postRecv(ctx, line, a, &d)
	case script.Inject:
		return s.inject(line, &d.Injection)
	case script.Destroy:
		return s.destroy(ctx, a, d.Name)
	case script.DeregMR:
		return s.dereg(ctx, a, d.Name)
	case script.Fill:
		return s.fill(ctx, &d)
	case script.Own:
		return s.own(ctx, d.Words)
	}
	if a.Refused {
		return nil // our adapter refused it, so the script never uses the object
	}
	return s.create(ctx, line, a.Step)
}

// create makes an object. If the adapter refuses it, everything that needs it
// is left out.
func (s *stage) create(ctx context.Context, line int, d script.Step) error {
	var err error
	switch d := d.(type) {
	case script.AllocPD:
		s.pds[d.Name], err = s.c.AllocPD(ctx)
	case script.RegMR:
		err = s.register(ctx, &d)
	case script.CreateCQ:
		s.cqs[d.Name], err = s.c.CreateCQ(ctx, max(int(d.Size), usualCQSize), false)
		if err != nil {
			delete(s.cqs, d.Name)
		}
	case script.CreateSRQ:
		if pd := s.pds[d.PD]; pd != nil {
			s.srqs[d.Name], err = pd.CreateSRQ(ctx, testagent.SRQConfig{MaxWR: d.WR, MaxSGE: d.SGE, Limit: d.Limit})
		}
		if err == nil && d.Limit > 0 && s.srqs[d.Name] != nil {
			err = s.srqs[d.Name].SetLimit(ctx, d.Limit) // creating an SRQ does not arm it on every adapter
		}
	case script.CreateAH:
		if pd := s.pds[d.PD]; pd != nil {
			s.ahs[d.Handle], err = pd.CreateAH(ctx, s.vector(d.Attr))
		}
	case script.CreateQP:
		return s.createQP(ctx, line, &d)
	}
	return fatal(err)
}

func (s *stage) register(ctx context.Context, d *script.RegMR) error {
	r := &region{RegMR: *d, want: make([]byte, d.Len)}
	s.regions = append(s.regions, r)
	pd := s.pds[d.PD]
	if pd == nil {
		return nil
	}
	cfg := testagent.MRConfig{Size: uint64(d.Len), Access: d.Access}
	if d.IOVA != uint64(len(s.regions))<<32 { // the script asks for an IOVA
		cfg.IOVA, cfg.Align = d.IOVA, d.IOVA&4095
	}
	mr, err := pd.RegMR(ctx, cfg)
	if err == nil {
		r.mr = mr
	}
	return err
}

func (s *stage) createQP(ctx context.Context, line int, d *script.CreateQP) error {
	p := &pair{
		CreateQP: *d, peer: d.PeerQPN, seen: map[uint32]bool{}, sends: map[uint64]bool{}, recvs: map[uint64]bool{}, where: map[uint64]place{},
	}
	p.timer = usesTimer(&s.plan.play, d.Name)
	s.pairs, s.byName[d.Name] = append(s.pairs, p), p
	if s.leave(line); p.stopped {
		return nil
	}
	pd, send, recv := s.pds[d.PD], s.cqs[d.SendCQ], s.cqs[d.RecvCQ]
	cfg := testagent.QPConfig{Type: d.Type, SendCQ: send, RecvCQ: recv, SRQ: s.srqs[d.SRQ], Cap: d.Cap, SigAll: d.SigAll}
	if pd == nil || send == nil || recv == nil || d.SRQ != "" && cfg.SRQ == nil {
		s.stop(p, line, "the adapter refused a resource that it needs")
		return nil
	}
	qp, err := pd.CreateQP(ctx, cfg)
	if e := refused(err); e != nil {
		s.stop(p, line, "the adapter refuses it: %v", e)
		return nil
	}
	p.qp = qp
	return err
}

// usesTimer reports whether a queue pair must retry by itself in a script. The
// timer of every other queue pair is off, so that a slow machine cannot make it
// fire.
func usesTimer(play *script.Play, qp string) bool {
	for i := range play.Steps {
		for _, r := range play.Steps[i].Retries {
			if r.QP == qp && r.Cause != retryNAK && r.Cause != retryRNR {
				return true
			}
		}
		for _, c := range play.Steps[i].Completions {
			if c.QP == qp && c.WC.Status == ib.WCRetryExcErr {
				return true
			}
		}
	}
	return false
}

// requesterAttrs belong to the move to RTS. Our adapter accepts them before
// that, others do not.
const requesterAttrs = ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry | ib.AttrMaxRDAtomic | ib.AttrSQPSN

// Causes of retries other than the timer.
const (
	retryNAK = "sequence NAK"
	retryRNR = "receiver not ready"
)

func (s *stage) modify(ctx context.Context, line int, a *script.Act, d *script.Modify) error {
	p := s.live(d.QP)
	if p == nil || p.qp == nil || d.Mask&optionalAttrs != 0 {
		return nil
	}
	at := d.Attr
	at.AV = s.vector(at.AV)
	if d.Mask&ib.AttrTimeout != 0 && !a.Refused {
		at.Timeout = 0
		if p.timer && d.Attr.Timeout != 0 {
			at.Timeout = s.cfg.Timeout
		}
	}
	mask := d.Mask
	if mask&ib.AttrState != 0 && d.Attr.State == ib.RTR {
		mask &^= requesterAttrs // the move to RTS sets them too
	}
	err := p.qp.Modify(ctx, &at, mask)
	p.move(mask, d.Attr.State)
	if err == nil && d.Mask&ib.AttrDestQPN != 0 {
		p.peer = d.Attr.DestQPN
	}
	return s.verb(line, p, a, err)
}

// verb checks whether the adapter accepts or refuses a call as ours does. A
// library may check more or less than ours; but then the script takes another
// course.
func (s *stage) verb(line int, p *pair, a *script.Act, err error) error {
	e := refused(err)
	if err != nil && e == nil {
		return err
	}
	if (e != nil) == a.Refused {
		return nil
	}
	if a.Refused {
		s.stop(p, line, "its verbs accept %s, which ours refuse", a.Verb)
	} else {
		s.stop(p, line, "its verbs refuse %s (%s: %v)", a.Verb, e.Text, e.Errno)
	}
	return nil
}

func (s *stage) postSend(ctx context.Context, line int, a *script.Act, d *script.PostSend) error {
	p := s.live(d.QP)
	if p == nil || p.qp == nil {
		return nil
	}
	var wrs []testagent.SendWR
	for i := range d.WRs {
		w := &d.WRs[i]
		v := testagent.SendWR{
			WRID: w.WRID, Opcode: w.Opcode, Flags: w.Flags, SGList: s.sges(w.SGList), ImmData: w.ImmData, InvRKey: w.InvRKey,
			RemoteAddr: w.RemoteAddr, RKey: w.RKey, CompareAdd: w.CompareAdd, Swap: w.Swap,
			AH: s.ahs[w.AH], RemoteQPN: w.RemoteQPN, RemoteQKey: w.RemoteQKey,
		}
		if p.Type == ib.UD {
			v.RemoteAddr, v.RKey = 0, 0
			if v.AH == nil {
				s.stop(p, line, "it sends with an address handle that is not there")
				return nil
			}
		}
		if w.InlineData != nil {
			e, err := s.inline(ctx, w.InlineData)
			if err != nil {
				return err
			}
			v.SGList = []testagent.SGE{e}
		}
		wrs, p.sends[w.WRID] = append(wrs, v), true
	}
	err := post(ctx, wrs, p.qp.PostSend)
	p.note("post %d * %v, id %d", len(d.WRs), d.WRs[0].Opcode, d.WRs[0].WRID)
	return s.verb(line, p, a, err)
}

// maxPosts bounds the requests of one call, which is one line to the test
// agent.
const maxPosts = 128

// post posts requests, in lists that call takes.
func post[W any](ctx context.Context, wrs []W, call func(context.Context, ...W) error) error {
	for list := range slices.Chunk(wrs, maxPosts) {
		if err := call(ctx, list...); err != nil {
			return err
		}
	}
	return nil
}

// inline writes bytes to memory from which the test agent's post copies them.
func (s *stage) inline(ctx context.Context, b []byte) (testagent.SGE, error) {
	if s.scratch == nil {
		m, err := s.pds["pd"].RegMR(ctx, testagent.MRConfig{Size: 4096, Access: ib.AccessLocalWrite})
		if err != nil {
			return testagent.SGE{}, err
		}
		s.scratch = m
	}
	b = b[:min(len(b), 4096)]
	return s.scratch.SGE(0, uint32(len(b))), s.scratch.Write(ctx, 0, b)
}

func (s *stage) postRecv(ctx context.Context, line int, a *script.Act, d *script.PostRecv) error {
	var wrs []testagent.RecvWR
	for i := range d.WRs {
		wrs = append(wrs, testagent.RecvWR{WRID: d.WRs[i].WRID, SGList: s.sges(d.WRs[i].SGList)})
	}
	p := s.live(d.To)
	if p == nil {
		return s.postShared(ctx, a, d.To, wrs)
	}
	if p.qp == nil {
		return nil
	}
	for i := range d.WRs {
		p.recvs[d.WRs[i].WRID] = true
		if list := d.WRs[i].SGList; len(list) > 0 {
			if r := s.near(list[0].Addr); r != nil && list[0].Addr >= r.IOVA {
				p.where[d.WRs[i].WRID] = place{r, int(list[0].Addr - r.IOVA)}
			}
		}
	}
	err := post(ctx, wrs, p.qp.PostRecv)
	p.note("post %d * receive, id %d", len(d.WRs), d.WRs[0].WRID)
	return s.verb(line, p, a, err)
}

func (s *stage) postShared(ctx context.Context, a *script.Act, to string, wrs []testagent.RecvWR) error {
	q := s.srqs[to]
	if q == nil || a.Refused {
		return nil
	}
	return fatal(post(ctx, wrs, q.PostRecv))
}

func (s *stage) inject(line int, in *script.Injection) error {
	p := s.live(in.QP)
	if p == nil || p.qp == nil {
		return nil
	}
	out := s.packet(in)
	b, err := s.wire.send(in.HopLimit, in.TClass, out.Bytes)
	if errors.Is(err, errOddLength) {
		s.stop(p, line, "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	p.rnr = p.rnr || isAnswer(in) && in.Packet.AETH.Syndrome.IsRNR()
	p.note("> %s%s", s.show(&in.Packet), edits(in))
	p.sentHex = append(p.sentHex, hexOf(b))
	return nil
}

func (s *stage) destroy(ctx context.Context, a *script.Act, name string) error {
	if a.Refused {
		return nil
	}
	var err error
	if p := s.byName[name]; p != nil && p.qp != nil {
		p.gone = true
		err = p.qp.Destroy(ctx)
	} else if q := s.srqs[name]; q != nil {
		delete(s.srqs, name)
		err = q.Destroy(ctx)
	} else if q := s.cqs[name]; q != nil {
		delete(s.cqs, name)
		err = q.Destroy(ctx)
	}
	return fatal(err)
}

func (s *stage) dereg(ctx context.Context, a *script.Act, name string) error {
	for _, r := range s.regions {
		if r.Name != name || r.mr == nil || r.gone || a.Refused {
			continue
		}
		r.gone = true
		if err := fatal(r.mr.Destroy(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) fill(ctx context.Context, d *script.Fill) error {
	for _, r := range s.regions {
		if r.Name == d.Region && r.mr != nil && !r.gone {
			return r.mr.Write(ctx, uint64(d.Offset), d.Bytes)
		}
	}
	return nil
}

// own carries out the only Own command that another adapter can follow.
func (s *stage) own(ctx context.Context, words []string) error {
	if words[0] != "limit" || len(words) != 3 || s.srqs[words[1]] == nil {
		return nil
	}
	n, err := strconv.ParseUint(words[2], 0, 32)
	if err != nil {
		return nil // our adapter refuses this number too
	}
	return fatal(s.srqs[words[1]].SetLimit(ctx, uint32(n)))
}
