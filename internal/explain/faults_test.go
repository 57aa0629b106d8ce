package explain

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/fault"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// faultTruth is what a capture with a fault is known to show.
type faultTruth struct {
	rule, at, outcome, cause, seen string
}

// faultTruths reads what is known.
func faultTruths(t testing.TB) (all []faultTruth) {
	t.Helper()
	b, err := os.ReadFile("testdata/faults.txt")
	must.Do(t, err)
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if f := strings.Split(lines.Text(), "|"); len(f) == 5 && !strings.HasPrefix(lines.Text(), "#") {
			all = append(all, faultTruth{
				strings.TrimSpace(f[0]), strings.TrimSpace(f[1]), strings.TrimSpace(f[2]), strings.TrimSpace(f[3]), strings.TrimSpace(f[4]),
			})
		}
	}
	return all
}

// The two sides of a play, and what the requester asks for.
const (
	requester = iota
	responder
	works         = 200 // messages, of four operations in turn
	workBytes     = 3000
	datagramBytes = 1000
	workAtOnce    = 4
	playSeed      = 5
	playLimit     = 20 * time.Second // of virtual time
	playTick      = time.Millisecond
	playStop      = 100 * time.Millisecond
	playIdle      = 350 // ticks without a packet that end a play: more than a rule delays
	playSteps     = 50_000
	recvsPosted   = 64
)

// playCap is the size of the queues.
var playCap = ib.QPCap{MaxSendWR: 16, MaxRecvWR: recvsPosted, MaxSendSGE: 1, MaxRecvSGE: 1}

// play is a requester and a responder in virtual time, one of which has a fault and
// captures.
type play struct {
	playConfig
	t     *testing.T
	rig   *rig.Rig
	ports [2]fabric.Port
	live  *fault.Live
	ah    ib.AHHandle // of the requester, for UD
	channel
	timed  bool // it waits for a time, and has not acted
	file   bytes.Buffer
	posted int
	done   int
	failed bool           // a work request did
	status [2]ib.WCStatus // the first of each side that is neither success nor of a flush
	away   clock.Instant  // until then, the process of the side with the fault does not run
}

// playConfig says what happens in a play.
type playConfig struct {
	rule              string
	side              int  // with the fault
	far               bool // the capture is at the other side, which knows nothing of the fault
	typ               ib.QPType
	retry, rnr        uint8 // retry_cnt and rnr_retry
	timeout, rnrTimer uint8 // as codes
	recvs             int   // posted before the first message
	badKey, badRange  int   // message with a wrong key, or beyond the region; -1 for none
	shortRecv         int   // receive that is too short; -1 for none
}

// newPlay returns a play with a rule at a side. UC is for rules that do nothing to RC.
func newPlay(t *testing.T, rule string, side int) *play {
	c := playConfig{rule: rule, side: side, typ: ib.RC, retry: 3, rnr: 3, timeout: 14, rnrTimer: 12, recvs: recvsPosted, badKey: -1, badRange: -1, shortRecv: -1}
	if strings.Contains(rule, "SQE") {
		c.typ = ib.UC
	}
	return c.play(t)
}

func (c playConfig) play(t *testing.T) *play {
	t.Helper()
	parsed, err := fault.Parse(c.rule)
	must.Do(t, err)
	p := &play{playConfig: c, t: t, live: fault.NewLive(parsed[0], playSeed, 0)}
	if c.typ == ib.RD {
		p.rig = rig.New(t, ib.RC, playCap)
		p.channel = newChannel(p)
	} else {
		p.rig = rig.New(t, c.typ, playCap)
		for i := range p.rig.Sides {
			p.rig.Walk(i, p.attrs(i), ib.RTS)
		}
	}
	av := p.rig.Attrs(requester, ib.MTU1024).AV
	if p.ah, err = p.rig.Sides[requester].PD.CreateAH(&av); err != nil {
		t.Fatal(err)
	}
	p.connect()
	switch p.live.Action.Layer() {
	case fault.Responder:
		p.rig.Sides[c.side].HCA.Inject(p.inject, nil)
	case fault.Requests:
		p.rig.Sides[c.side].HCA.Inject(nil, p.fail)
	case fault.Verbs:
		p.timed = p.live.Timed()
	case fault.Packets, fault.Connections:
	}
	for k := range c.recvs {
		n := 4096
		if k == c.shortRecv {
			n = 100
		}
		p.rig.Recv(responder, ib.RecvWR{SGList: []ib.SGE{p.rig.Sides[responder].SGE(1<<20, n)}})
	}
	return p
}

// attrs returns the attributes of a side.
func (p *play) attrs(side int) ib.QPAttr {
	a := p.rig.Attrs(side, ib.MTU1024)
	a.QKey = rig.QKey
	a.RetryCnt, a.RNRRetry, a.Timeout, a.MinRNRTimer = p.retry, p.rnr, p.timeout, p.rnrTimer
	return a
}

// connect gives both sides ports, of which one has the fault and the capture as
// adapters open them.
func (p *play) connect() {
	n := pipe.NewNetwork(pipe.Options{})
	for i, s := range p.rig.Sides {
		port, err := n.Port(s.Addr)
		must.Do(p.t, err)
		p.ports[i] = port
	}
	var near *capture.Port
	p.ports[p.side] = fault.Wrap(p.ports[p.side], fault.Config{
		Rules: []*fault.Live{p.live}, Now: func() clock.Instant { return p.rig.Now }, Acted: p.acted,
		Mark: func(m *fault.Mark) {
			switch {
			case p.far:
			case m.Dir == fault.In && (m.Lost || m.Changed):
				near.Arrived(&fabric.Datagram{Src: m.Src, Dst: m.Dst, SrcPort: m.SrcPort, DstPort: fabric.RoCEPort, Bytes: m.Bytes}, m.Text, m.Before)
			default:
				near.Note(m.Bytes, m.Text)
			}
		},
	})
	watched := p.watched()
	near, err := capture.Wrap(p.ports[watched], &p.file, capture.Options{Clock: func() time.Time { return time.Unix(1, int64(p.rig.Now)) }})
	must.Do(p.t, err)
	p.ports[watched] = near
}

// acted ends or stops the process of the side with the fault.
func (p *play) acted(l *fault.Live) {
	switch l.Action {
	case fault.Kill, fault.Gone:
		p.away = clock.Never
	case fault.Stop:
		p.away = p.rig.Now.Add(playStop)
	}
}

// watched returns the side whose packets are captured.
func (c *playConfig) watched() int {
	if c.far {
		return 1 - c.side
	}
	return c.side
}

// inject has the rule answer requests.
func (p *play) inject(q *qp.QP, in *qp.Packet) roce.Syndrome {
	s := fault.Subject{Dir: fault.In, Op: in.BTH.Opcode, Readable: true, QPN: q.Num(), PSN: in.BTH.PSN, Src: in.Data.Src, Dst: in.Data.Dst}
	if p.live.Action == fault.RNR && !in.TakesReceive() || !p.live.Fires(p.rig.Now, &s) {
		return 0
	}
	p.live.Applied()
	return p.live.Syndrome()
}

// fail has the rule make requests fail.
func (p *play) fail(q *qp.QP, w qp.Request) ib.WCStatus {
	if !w.CanFail(q.Type(), p.live.Status()) || !p.live.Fires(p.rig.Now, &fault.Subject{QPN: q.Num(), Request: w.Opcode}) {
		return ib.WCSuccess
	}
	p.live.Applied()
	return p.live.Status()
}

// called tells a rule on verbs of a PostSend of the requester, and reports whether it
// lets it pass.
func (p *play) called() bool {
	s := fault.Subject{Call: "PostSend", QPN: p.rig.Sides[requester].QP.Num()}
	if p.live.Action.Layer() != fault.Verbs || p.live.Timed() || p.side != requester || !p.live.Fires(p.rig.Now, &s) {
		return true
	}
	if p.live.Action == fault.Fail {
		return false
	}
	p.act()
	return true
}

// act carries a rule on verbs out.
func (p *play) act() {
	s := p.rig.Sides[p.side]
	switch p.live.Action {
	case fault.QP:
		rig.Must(p.t, s.QP.Force(p.rig.Now, p.live.State()))
	case fault.FillCQ:
		if !s.HCA.CQs().Overflow(p.rig.Now, s.CQ) {
			p.t.Fatal("the completion queue does not overflow")
		}
	case fault.Event: // changes nothing
	default:
		p.t.Fatalf("%v is no rule on verbs that acts", p.live.Action)
	}
}

// post posts the next message, if few enough are outstanding.
func (p *play) post() {
	for !p.failed && p.posted < works && p.posted-p.done < workAtOnce {
		k := p.posted
		p.posted++
		if !p.called() {
			p.done++ // the program goes on with the next
			continue
		}
		near, far := p.rig.Sides[requester], p.rig.Sides[responder]
		wr := ib.SendWR{WRID: uint64(k), SGList: []ib.SGE{near.SGE(0, workBytes)}, RKey: far.MR.RKey(), RemoteAddr: far.MR.Addr()}
		wr.Opcode = [...]ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRRDMARead, ib.WRAtomicFetchAdd}[k%4]
		switch near.QP.Type() {
		case ib.UC:
			wr.Opcode = [...]ib.WROpcode{ib.WRRDMAWrite, ib.WRSend}[k%2]
		case ib.RD:
			wr.EEC, wr.RemoteQPN, wr.RemoteQKey = p.channel[requester].Num(), far.QP.Num(), rig.QKey
		case ib.UD:
			wr.Opcode, wr.SGList[0].Length = ib.WRSend, datagramBytes
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.ah, far.QP.Num(), rig.QKey
		}
		if wr.Opcode == ib.WRAtomicFetchAdd {
			wr.SGList = []ib.SGE{near.SGE(0, 8)}
		}
		if k == p.badKey {
			wr.RKey++
		}
		if k == p.badRange {
			wr.RemoteAddr += uint64(len(far.Buf))
		}
		if _, err := near.QP.PostSend(wr); err != nil {
			p.failed = true // the queue pair is in ERR
			return
		}
		near.HCA.Single().RingDoorbell(near.QP)
	}
}

// step moves packets, and reports whether any moved.
func (p *play) step() (moved bool) {
	ds := make([]fabric.Datagram, 16)
	for i, s := range p.rig.Sides {
		if i == p.side && p.rig.Now < p.away {
			continue
		}
		s.HCA.Single().Transmit(p.rig.Now, s.Batch)
		moved = moved || len(s.Batch.Pending()) > 0
		if err := p.ports[i].Send(s.Batch); p.away != clock.Never { // also what a rule held back until now
			rig.Must(p.t, err)
		}
		s.Batch.Reset()
	}
	p.rig.Now = p.rig.Now.Add(rig.Latency)
	for i, s := range p.rig.Sides {
		if i == p.side && p.rig.Now < p.away {
			p.failed = p.failed || p.away == clock.Never
			continue
		}
		n, err := p.ports[i].Receive(ds)
		rig.Must(p.t, err)
		for k := range ds[:n] {
			s.HCA.Single().Receive(p.rig.Now, &ds[k])
		}
		moved = moved || n > 0
		for _, wc := range p.rig.Poll(i) {
			if i == requester {
				p.done++
			}
			p.failed = p.failed || wc.Status != ib.WCSuccess
			if p.status[i] == ib.WCSuccess && wc.Status != ib.WCWRFlushErr {
				p.status[i] = wc.Status
			}
		}
	}
	return moved
}

// run plays until all is done or nothing more happens, and explains what was captured.
func (p *play) run() *Report {
	end := p.rig.Now.Add(playLimit)
	maxIdle := 3
	if p.watched() == requester {
		maxIdle = playIdle // for late answers
	}
	for idle, steps := 0, 0; idle < maxIdle && p.rig.Now < end && steps < playSteps; steps++ {
		if p.timed && !p.failed && p.live.Active(p.rig.Now) {
			p.timed = false
			p.act()
		}
		p.post()
		if p.step() {
			idle = 0
			continue
		}
		if p.failed || p.done == works {
			idle++ // delayed packets may still arrive
		}
		next := p.rig.Now.Add(playTick)
		for _, s := range p.rig.Sides {
			next = min(next, max(s.HCA.Single().Deadline(), p.rig.Now))
		}
		p.rig.Now = next
		for _, s := range p.rig.Sides {
			s.HCA.Single().Advance(p.rig.Now)
		}
	}
	must.Do(p.t, p.ports[p.watched()].Close())
	r, err := Read(bytes.NewReader(p.file.Bytes()), Config{})
	must.Do(p.t, err)
	return r
}

// TestFaultCaptures captures two adapters in virtual time, one of which has a fault of
// the catalogue: the verdict is what is known from the rule.
func TestFaultCaptures(t *testing.T) {
	shown := map[fault.Action]bool{}
	for _, k := range faultTruths(t) {
		side := requester
		if k.at == "responder" {
			side = responder
		}
		p := newPlay(t, k.rule, side)
		shown[p.live.Action] = true
		r := p.run()
		if r.Verdict.Outcome != k.outcome || r.Verdict.Cause != k.cause {
			t.Errorf("%s at the %s: %s %s, want %s %s; found %s: %s", k.rule, k.at, r.Verdict.Outcome, r.Verdict.Cause, k.outcome, k.cause, names(r), r.Verdict.Where)
		}
		if marked := p.live.Action.Layer() == fault.Packets; marked != strings.Contains(r.Verdict.Fault, "by rule '"+p.live.String()+"'") {
			t.Errorf("%s at the %s: asked for is said to be %q", k.rule, k.at, r.Verdict.Fault)
		}
		if strings.HasPrefix(r.Verdict.Where, ";") {
			t.Errorf("%s at the %s: the place begins with what divides its parts: %q", k.rule, k.at, r.Verdict.Where)
		}
		if r.Packets < 5 {
			t.Errorf("%s at the %s: only %d packets", k.rule, k.at, r.Packets)
		}
	}
	for a := range fault.NumActions {
		if !shown[a] {
			t.Errorf("no capture shows what %v makes of packets", a)
		}
	}
}
