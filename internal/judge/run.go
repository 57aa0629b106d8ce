package judge

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/roce"
)

// play plays a script once.
func (c *Config) play(ctx context.Context, plan *Plan, w *wire) (*Result, error) {
	began := time.Now()
	s, err := newStage(ctx, c, plan, w)
	if err != nil {
		return nil, err
	}
	r := s.result
	r.Script, r.Title, r.Covers, r.Runs = plan.Script, plan.Title, plan.Covers, 1
	for _, l := range plan.LeftOut {
		if l.QP == "" {
			r.LeftOut = append(r.LeftOut, l)
		}
	}
	for i := range plan.play.Steps {
		st := &plan.play.Steps[i]
		if s.over(st.Line) {
			break
		}
		if err := s.step(ctx, st); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", plan.Script, st.Line, strings.Join(st.Text, " & "), err)
		}
	}
	switch {
	case len(r.Differences) > 0:
		r.Verdict = Differs
	case r.Requester || r.Responder:
		r.Verdict = Agrees
	default:
		r.Verdict, r.Reason = NotJudged, "nothing of it could be played"
		if len(r.LeftOut) > 0 {
			r.Reason = r.LeftOut[0].Reason
		}
	}
	r.Damaged, w.damaged = w.damaged, 0
	r.Milliseconds = time.Since(began).Milliseconds()
	return r, s.c.Reset(ctx)
}

// over reports whether the plan leaves out everything from a line on.
func (s *stage) over(line int) bool {
	return slices.ContainsFunc(s.plan.LeftOut, func(l Left) bool { return l.QP == "" && l.Line <= line })
}

// step carries out a step, waits for the expected packets and events, and
// compares.
func (s *stage) step(ctx context.Context, st *script.PlayStep) error {
	s.leave(st.Line)
	for _, p := range s.pairs {
		p.sentHex = nil
	}
	for i := range st.Acts {
		if err := s.do(ctx, st.Line, &st.Acts[i]); err != nil {
			return err
		}
	}
	for _, r := range s.regions {
		if b := st.Memory[r.Name]; b != nil {
			r.want = b
		}
	}
	s.countUnseen(st)
	if err := s.await(ctx, st); err != nil {
		return err
	}
	for _, p := range s.pairs {
		if !p.stopped && p.qp != nil {
			s.judgePair(st, p)
		}
	}
	s.judgeEvents(st)
	for _, p := range s.pairs {
		if err := s.judgeState(ctx, st, p); err != nil {
			return err
		}
	}
	return s.judgeMemory(ctx, st)
}

// countUnseen counts the output lines that only our own adapter can show.
func (s *stage) countUnseen(st *script.PlayStep) {
	for _, l := range st.Lines {
		word, _, _ := strings.Cut(l, " ")
		if slices.Contains([]string{"count:", "deadline", "no", "notify", "retry", "repair", "cqe", "lost"}, word) {
			s.result.NotSeen++
		}
	}
}

// await waits until everything that the step expects has come, or something
// else has, or the time is over; and then until nothing more comes.
func (s *stage) await(ctx context.Context, st *script.PlayStep) error {
	wants, timeout := s.expects(st), s.timeout(st)
	met, deadline, last := !wants, time.Now().Add(timeout), time.Now().Add(maxExtensions*timeout)
	for !met {
		before := s.count()
		if err := s.collect(ctx, s.cfg.Quiet/8); err != nil {
			return err
		}
		if s.count() != before {
			deadline = time.Now().Add(timeout)
		}
		var contradicted bool
		if met, contradicted = s.met(st); contradicted || time.Now().After(deadline) || time.Now().After(last) {
			break
		}
	}
	rest := s.cfg.Quiet / 4
	if !wants || !met {
		rest = s.cfg.Quiet
	}
	if !s.stimulated(st) {
		rest = 0
	}
	end := time.Now().Add(rest)
	late := end.Add(2 * s.cfg.Quiet) // events arrive through the test agent, later than packets
	for {
		if err := s.collect(ctx, min(max(time.Until(end), 0), s.cfg.Quiet/8)); err != nil {
			return err
		}
		if now := time.Now(); !now.Before(late) || !now.Before(end) && s.eventsCame(st) {
			return nil
		}
	}
}

// eventsCame reports whether there are as many events as the step expects.
func (s *stage) eventsCame(st *script.PlayStep) bool {
	for _, p := range s.pairs {
		if p.stopped || p.qp == nil {
			continue
		}
		if want, got := s.eventsOf(st, p); len(got) < len(want) {
			return false
		}
	}
	return true
}

// eventsOf returns the names of the events that a step expects of a queue pair,
// and of those that came. It leaves out QP_FATAL: after a completion that
// reports the error, that event may or may not come.
func (s *stage) eventsOf(st *script.PlayStep, p *pair) (want, got []string) {
	for _, e := range st.Events {
		if e.Name == p.Name && e.Type != ib.EventQPFatal {
			want = append(want, e.Type.String())
		}
	}
	for _, e := range s.events {
		if e.Kind == "qp" && e.ID == p.qp.ID() && e.Type != ib.EventQPFatal {
			got = append(got, e.Type.String())
		}
	}
	return want, got
}

// maxExtensions bounds how often an arrival may prolong the wait.
const maxExtensions = 20

// timeout is how long to wait for what a step expects. A timer that is set to
// T may fire after 4T.
func (s *stage) timeout(st *script.PlayStep) time.Duration {
	d := s.cfg.Wait
	timers := slices.ContainsFunc(st.Acts, func(a script.Act) bool { _, ok := a.Step.(script.Pass); return ok })
	for _, r := range st.Retries {
		timers = timers || r.Cause != retryNAK && r.Cause != retryRNR
	}
	if timers {
		d += 4*ackTimeout(s.cfg.Timeout) + rnrWait
	}
	return d
}

// ackTimeout is the time that a code of a retry timer stands for.
func ackTimeout(code uint8) time.Duration { return 4096 * time.Nanosecond << (code & 31) }

// rnrWait is the longest time that an RNR NAK can ask for.
const rnrWait = 656 * time.Millisecond

// count returns the number of packets, completions and events so far.
func (s *stage) count() int {
	n := len(s.events)
	for _, p := range s.pairs {
		n += len(p.packets) + len(p.wcs)
	}
	return n
}

// expects reports whether the step expects anything.
func (s *stage) expects(st *script.PlayStep) bool {
	return slices.ContainsFunc(st.Packets, func(p script.SentPacket) bool { return s.live(p.QP) != nil }) ||
		slices.ContainsFunc(st.Completions, func(c script.Completion) bool { return s.live(c.QP) != nil })
}

// stimulated reports whether the step did something to which an adapter could
// answer at once.
func (s *stage) stimulated(st *script.PlayStep) bool {
	return slices.ContainsFunc(st.Acts, func(a script.Act) bool {
		d, modifies := a.Step.(script.Modify)
		return s.live(affected(a)) != nil && (!modifies || d.Attr.State == ib.ERR || d.Attr.State == ib.RTS)
	})
}

// affected returns the name of the queue pair that an action affects, "" if it
// affects none.
func affected(a script.Act) string {
	switch d := a.Step.(type) {
	case script.Inject:
		return d.QP
	case script.PostSend:
		return d.QP
	case script.Modify:
		return d.QP
	}
	return ""
}

// met reports whether everything expected has come, and whether something wrong
// has.
func (s *stage) met(st *script.PlayStep) (met, contradicted bool) {
	met = true
	for _, p := range s.pairs {
		if p.stopped || p.qp == nil {
			continue
		}
		v := comparePackets(packetsOf(st, p.Name), p.got(), !p.msnOff).verdict
		contradicted = contradicted || v == other || v == surplus
		want := wcsOf(st, p.Name)
		met = met && v == equal && len(p.wcs) >= len(want)
		contradicted = contradicted || len(p.wcs) >= len(want) && p.showWCs(p.wcs) != p.showWCs(want)
	}
	return met && !contradicted, contradicted
}

// differ adds a difference of a step with its evidence.
func (s *stage) differ(st *script.PlayStep, p *pair, d Difference) {
	d.Line, d.Step, d.QP = st.Line, strings.Join(st.Text, " & "), p.Name
	d.Ladder = slices.Clone(p.ladder)
	d.Sent = slices.Clone(p.sentHex)
	for i := range p.packets {
		if len(d.Hex) < maxLadder {
			d.Hex = append(d.Hex, hexOf(p.packets[i].bytes))
		}
	}
	s.result.Differences = append(s.result.Differences, d)
}

// judgePair compares the packets and the completions of a queue pair.
func (s *stage) judgePair(st *script.PlayStep, p *pair) {
	want, got := packetsOf(st, p.Name), p.got()
	defer func() {
		for _, g := range got {
			if g.Info.Flags&roce.FlagResponse == 0 {
				p.seen[g.BTH.PSN.Value()] = true
			}
		}
		p.packets, p.wcs = nil, nil
	}()
	c := comparePackets(want, got, !p.msnOff)
	if c.verdict == surplus && (p.timer || p.rnr) && p.seen[c.got[c.at].BTH.PSN.Value()] {
		s.stop(p, st.Line, "its timer fired before the step was over")
		return
	}
	requester, responder := roles(st, p.Name)
	s.result.Requester = s.result.Requester || requester && len(want) > 0
	s.result.Responder = s.result.Responder || responder
	if c.verdict != equal {
		s.differ(st, p, Difference{Kind: KindPacket, Want: s.showAll(c.want, c.at), Got: s.showAll(c.got, c.at)})
		if comparePackets(want, got, false).verdict != equal {
			s.stop(p, st.Line, "after the difference in line %d", st.Line)
			return
		}
		p.msnOff = true
	} else if len(want) > 0 || requester || responder {
		s.result.Same++
	}
	wants, gots := wcsOf(st, p.Name), p.wcs
	if a, b := p.showWCs(wants), p.showWCs(gots); a != b {
		s.differ(st, p, Difference{Kind: KindCompletion, Want: a, Got: b})
		if len(wants) != len(gots) {
			s.stop(p, st.Line, "after the difference in line %d", st.Line)
		}
	} else if len(wants) > 0 {
		s.result.Same++
	}
}

// roles reports whether a step involves a queue pair's requester, and its
// responder.
func roles(st *script.PlayStep, qp string) (requester, responder bool) {
	for i := range st.Acts {
		switch d := st.Acts[i].Step.(type) {
		case script.PostSend:
			requester = requester || d.QP == qp && !st.Acts[i].Refused
		case script.Inject:
			if d.QP == qp && isAnswer(&d.Injection) {
				requester = true
			} else if d.QP == qp {
				responder = true
			}
		}
	}
	return requester, responder
}

// judgeEvents compares the asynchronous events of queue pairs.
func (s *stage) judgeEvents(st *script.PlayStep) {
	for _, p := range s.pairs {
		if p.stopped || p.qp == nil {
			continue
		}
		want, got := s.eventsOf(st, p)
		if a, b := listed(want), listed(got); a != b {
			s.differ(st, p, Difference{Kind: KindEvent, Want: a, Got: b})
		} else if len(want) > 0 {
			s.result.Same++
		}
	}
	s.events = nil
}

func listed(words []string) string {
	if len(words) == 0 {
		return "no event"
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// judgeState compares the state of a queue pair that the step concerns.
func (s *stage) judgeState(ctx context.Context, st *script.PlayStep, p *pair) error {
	want, ok := st.States[p.Name]
	if !ok || p.stopped || p.qp == nil || p.gone || !concerns(st, p.Name) {
		return nil
	}
	at, err := p.qp.Query(ctx)
	for end := time.Now().Add(s.cfg.Wait); err == nil && at.State != want && time.Now().Before(end); {
		if err := s.wire.pump(s.cfg.Quiet / 8); err != nil {
			return err
		}
		at, err = p.qp.Query(ctx)
	}
	if refused(err) != nil {
		s.stop(p, st.Line, "it cannot be queried: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if at.State != want {
		s.differ(st, p, Difference{Kind: KindState, Want: want.String(), Got: at.State.String()})
		s.stop(p, st.Line, "after the difference in line %d", st.Line)
		return nil
	}
	s.result.Same++
	return nil
}

// concerns reports whether a step affects a queue pair.
func concerns(st *script.PlayStep, qp string) bool {
	return slices.ContainsFunc(st.Acts, func(a script.Act) bool { return affected(a) == qp })
}

// judgeMemory compares the regions with the script's, and writes the script's
// content to them.
func (s *stage) judgeMemory(ctx context.Context, st *script.PlayStep) error {
	p := s.cause(st)
	for _, r := range s.regions {
		if r.mr == nil || r.gone || r.Unseen || p == nil && st.Memory[r.Name] == nil {
			continue
		}
		if err := s.judgeRegion(ctx, st, p, r); err != nil {
			return err
		}
	}
	return nil
}

// cause is the queue pair that may have written in a step; nil if there is none.
func (s *stage) cause(st *script.PlayStep) *pair {
	for i := range st.Acts {
		if d, ok := st.Acts[i].Step.(script.Inject); ok {
			if p := s.byName[d.QP]; p != nil && p.qp != nil {
				return p
			}
		}
	}
	return nil
}

func (s *stage) judgeRegion(ctx context.Context, st *script.PlayStep, p *pair, r *region) error {
	judged := p != nil && !p.stopped
	met, err := s.settled(ctx, st, r, judged && p.Type != ib.UD)
	if err != nil {
		return err
	}
	if met {
		if judged && st.Memory[r.Name] != nil {
			s.result.Same++
		}
		return nil
	}
	got, err := r.mr.Read(ctx, 0, uint64(r.Len))
	if err != nil {
		return err
	}
	if judged && p.Type == ib.UD {
		copyGRH(st, p, r, got)
	}
	from, to, differs := firstChange(r.want, got)
	switch {
	case !judged:
	case differs:
		s.differ(st, p, Difference{
			Kind: KindMemory, Want: fmt.Sprintf("%s+%d: %s", r.Name, from, script.ShowData(r.want[from:to])),
			Got: script.ShowData(got[from:to]),
		})
	default:
		s.result.Same++
	}
	return r.mr.Write(ctx, 0, r.want)
}

// settled waits until a region has the expected content; only a region that the
// step changes gets time for that.
func (s *stage) settled(ctx context.Context, st *script.PlayStep, r *region, wait bool) (bool, error) {
	h := fnv.New64a()
	_, _ = h.Write(r.want) // a hash never fails
	end := time.Now()
	if wait && st.Memory[r.Name] != nil {
		end = end.Add(s.cfg.Wait)
	}
	for {
		sum, err := r.mr.Sum(ctx, 0, uint64(r.Len))
		if err != nil || sum == h.Sum64() || !time.Now().Before(end) {
			return err == nil && sum == h.Sum64(), err
		}
		if err := s.wire.pump(s.cfg.Quiet / 8); err != nil {
			return false, err
		}
	}
}

// grhLen is the room for the GRH in front of a UD receive's payload. Over IPv4
// half of it is undefined, and the rest depends on the path.
const grhLen = 40

// copyGRH leaves the routing headers of datagrams out of a comparison. They are
// where the script's memory changed first.
func copyGRH(st *script.PlayStep, p *pair, r *region, got []byte) {
	for i := range st.Completions {
		c := &st.Completions[i]
		if c.QP != p.Name || c.WC.Flags&ib.WCGRH == 0 {
			continue
		}
		if off, ok := p.where[c.WC.WRID]; ok && off.region == r {
			lo, hi := min(off.offset, len(got)), min(off.offset+grhLen, len(got))
			copy(got[lo:hi], r.want[lo:hi])
		}
	}
}

// firstChange returns the first run of bytes that differ.
func firstChange(want, got []byte) (from, to int, ok bool) {
	for from < len(want) && want[from] == got[from] {
		from++
	}
	if from == len(want) {
		return 0, 0, false
	}
	for to = from + 1; to < len(want) && to < from+32 && want[to] != got[to]; {
		to++
	}
	return from, to, true
}

// place is where a receive puts its first byte.
type place struct {
	region *region
	offset int
}
