package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/roce"
)

// stage is the adapter under test while one script is played: its objects by
// the names of the script, and the packets, completions and events so far.
type stage struct {
	cfg  *Config
	c    *testagent.Client
	wire *wire
	plan *Plan

	pds     map[string]*testagent.PD
	cqs     map[string]*testagent.CQ
	srqs    map[string]*testagent.SRQ
	ahs     map[ib.AHHandle]*testagent.AH
	regions []*region
	pairs   []*pair
	byName  map[string]*pair
	scratch *testagent.MR // inline data
	events  []testagent.Event
	result  *Result
}

// region is a region of the script and its counterpart on the adapter.
type region struct {
	script.RegMR
	mr   *testagent.MR // nil: the adapter refused it
	gone bool
	want []byte // its expected content
}

// pair is a queue pair of the script and its counterpart on the adapter.
type pair struct {
	script.CreateQP
	qp      *testagent.QP
	peer    ib.QPN // destination number in its packets
	timer   bool   // its retry timer must run
	rnr     bool   // it was told to wait for a receive
	gone    bool
	stopped bool            // judged no further
	msnOff  bool            // its MSN was found to differ
	seen    map[uint32]bool // PSNs of its requests
	sends   map[uint64]bool // IDs
	recvs   map[uint64]bool
	where   map[uint64]place // of receives
	packets []arrival
	wcs     []ib.WC
	ladder  []string
	sentHex []string // of this step
}

// maxLadder bounds the lines of evidence.
const maxLadder = 14

func (p *pair) note(format string, args ...any) {
	p.ladder = append(p.ladder, fmt.Sprintf(format, args...))
	if n := len(p.ladder); n > maxLadder {
		p.ladder = p.ladder[n-maxLadder:]
	}
}

// move adds a modify call to the ladder; successive ones share a line.
func (p *pair) move(mask ib.AttrMask, to ib.QPState) {
	what := to.String()
	if mask&ib.AttrState == 0 {
		what = mask.String()
	}
	if n := len(p.ladder); n > 0 && strings.HasPrefix(p.ladder[n-1], "modify ") {
		p.ladder[n-1] += " -> " + what
		return
	}
	p.note("modify %s", what)
}

// newStage prepares the adapter for a script.
func newStage(ctx context.Context, cfg *Config, plan *Plan, w *wire) (*stage, error) {
	s := &stage{
		cfg: cfg, c: cfg.Agent, wire: w, plan: plan, result: &Result{},
		pds: map[string]*testagent.PD{}, cqs: map[string]*testagent.CQ{}, srqs: map[string]*testagent.SRQ{},
		ahs: map[ib.AHHandle]*testagent.AH{}, byName: map[string]*pair{},
	}
	if err := s.c.Reset(ctx); err != nil {
		return nil, err
	}
	pd, err := s.c.AllocPD(ctx)
	if err != nil {
		return nil, err
	}
	cq, err := s.c.CreateCQ(ctx, usualCQSize, false)
	if err != nil {
		return nil, err
	}
	s.pds["pd"], s.cqs["cq"] = pd, cq
	return s, nil
}

// usualCQSize is enough for the completions of any script.
const usualCQSize = 1024

// refused returns the refusal in an error, and nil for any other error, which
// ends the judgement.
func refused(err error) *testagent.Error {
	var e *testagent.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// fatal returns an error that ends the judgement, nil for a refusal.
func fatal(err error) error {
	if refused(err) != nil {
		return nil
	}
	return err
}

// live returns the queue pair of a name if it is still judged.
func (s *stage) live(name string) *pair {
	if p := s.byName[name]; p != nil && !p.stopped {
		return p
	}
	return nil
}

// stop ends the judgement of a queue pair, and of those that share its SRQ.
func (s *stage) stop(p *pair, line int, format string, args ...any) {
	if p.stopped {
		return
	}
	p.stopped = true
	s.result.LeftOut = append(s.result.LeftOut, Left{p.Name, line, fmt.Sprintf(format, args...)})
	if p.SRQ == "" {
		return
	}
	for _, o := range s.pairs {
		if o.SRQ == p.SRQ {
			s.stop(o, line, "it shares receives with %s", p.Name)
		}
	}
}

// leave stops the queue pairs that the plan leaves out from a line on.
func (s *stage) leave(line int) {
	for _, l := range s.plan.LeftOut {
		if p := s.live(l.QP); p != nil && l.Line <= line {
			s.stop(p, l.Line, "%s", l.Reason)
		}
	}
}

// near returns the region at or near an address.
func (s *stage) near(addr uint64) *region {
	const margin = 1 << 16
	for _, r := range s.regions {
		if r.mr != nil && addr+margin >= r.IOVA && addr < r.IOVA+uint64(r.Len)+margin {
			return r
		}
	}
	return nil
}

// address translates an address of the script.
func (s *stage) address(addr uint64) uint64 {
	if r := s.near(addr); r != nil {
		return r.mr.Addr + (addr - r.IOVA)
	}
	return addr
}

// key translates a key of the script. A key that differs from a region's only
// in the low byte keeps that difference; any other becomes a key that the
// adapter does not have.
func (s *stage) key(k uint32, of func(*testagent.MR) uint32) uint32 {
	for i := len(s.regions) - 1; i >= 0; i-- {
		if r := s.regions[i]; r.mr != nil && r.Key>>8 == k>>8 {
			return of(r.mr) ^ k ^ r.Key
		}
	}
	for k != 0 && slices.ContainsFunc(s.regions, func(r *region) bool { return r.mr != nil && of(r.mr)>>8 == k>>8 }) {
		k += 1 << 20
	}
	return k
}

func (s *stage) rkey(k ib.RKey) ib.RKey {
	return ib.RKey(s.key(uint32(k), func(m *testagent.MR) uint32 { return uint32(m.RKey) }))
}

func (s *stage) lkey(k ib.LKey) ib.LKey {
	return ib.LKey(s.key(uint32(k), func(m *testagent.MR) uint32 { return uint32(m.LKey) }))
}

// number translates the number of a queue pair; the number of no queue pair
// becomes one that the adapter does not have.
func (s *stage) number(n ib.QPN) ib.QPN {
	if p := s.latest(func(p *pair) bool { return p.Num == n }); p != nil {
		return p.qp.QPN
	}
	for s.owner(n) != nil {
		n = (n + 0x10000) & 0xffffff
	}
	return n
}

func (s *stage) sges(list []ib.SGE) []testagent.SGE {
	var out []testagent.SGE
	for _, e := range list {
		out = append(out, testagent.SGE{Addr: s.address(e.Addr), LKey: s.lkey(e.LKey), Length: e.Length})
	}
	return out
}

// packet translates a packet of the peer.
func (s *stage) packet(in *script.Injection) script.Injection {
	out := *in
	p := &out.Packet
	p.BTH.DestQP = s.number(p.BTH.DestQP)
	p.RETH.VA, p.RETH.RKey = s.address(p.RETH.VA), s.rkey(p.RETH.RKey)
	p.AtomicETH.VA, p.AtomicETH.RKey = s.address(p.AtomicETH.VA), s.rkey(p.AtomicETH.RKey)
	p.InvRKey = s.rkey(p.InvRKey)
	if p.Info.Kind == roce.KindAck && p.AETH.Syndrome.IsRNR() {
		p.AETH.Syndrome = roce.RNRNAK(s.cfg.RNRTimer)
	}
	if len(in.Raw) >= roce.BTHLen {
		out.Raw = append([]byte(nil), in.Raw...)
		n := s.number(ib.QPN(in.Raw[5])<<16 | ib.QPN(in.Raw[6])<<8 | ib.QPN(in.Raw[7]))
		out.Raw[5], out.Raw[6], out.Raw[7] = byte(n>>16), byte(n>>8), byte(n)
	}
	return out
}

// isAnswer reports whether a packet answers a request.
func isAnswer(in *script.Injection) bool {
	info := in.Packet.BTH.Opcode.Info()
	return info.Known && info.Flags&roce.FlagResponse != 0
}

// vector translates an address vector.
func (s *stage) vector(av ib.AHAttr) ib.AHAttr {
	av.DGID = ib.GIDFromAddr(s.wire.local)
	av.SGIDIndex, av.Port = uint8(s.cfg.gidIndex), 0
	return av
}

// route assigns arrived packets to the queue pairs that sent them.
func (s *stage) route() {
	for _, a := range s.wire.drain() {
		if p := s.sender(&a.packet); p != nil && !p.stopped {
			p.packets = append(p.packets, a)
			p.note("< %s", s.show(&a.packet))
		}
	}
}

func (s *stage) sender(k *roce.Packet) *pair {
	return s.latest(func(p *pair) bool {
		if k.Info.Service == roce.ServiceUD {
			return p.Type == ib.UD && k.DETH.SrcQP == p.qp.QPN
		}
		return p.Type != ib.UD && k.BTH.DestQP == p.peer
	})
}

// collect takes in packets, completions and events.
func (s *stage) collect(ctx context.Context, d time.Duration) error {
	if err := s.wire.pump(d); err != nil {
		return err
	}
	s.route()
	for _, cq := range s.cqs {
		wcs, err := cq.Poll(ctx, 0, 0)
		if err != nil {
			return err
		}
		for _, wc := range wcs {
			if p := s.owner(wc.QPN); p != nil && !p.stopped {
				p.wcs = append(p.wcs, wc)
				p.note("  %s", showWC(&wc, p.Type == ib.UD))
			}
		}
	}
	events, err := s.c.Events(ctx, 0)
	s.events = append(s.events, events...)
	return err
}

// owner returns the queue pair with a number of the adapter.
func (s *stage) owner(n ib.QPN) *pair {
	return s.latest(func(p *pair) bool { return p.qp.QPN == n })
}

// latest returns the queue pair that was created last of those for which is
// returns true; nil if the adapter has none.
func (s *stage) latest(is func(*pair) bool) *pair {
	for _, p := range slices.Backward(s.pairs) {
		if p.qp != nil && is(p) {
			return p
		}
	}
	return nil
}
