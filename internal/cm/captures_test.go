package cm

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
	"github.com/softhca/softhca/internal/pcapfile/captures"
	"github.com/softhca/softhca/mad"
)

// frame is a CM message that Linux sent.
type frame struct {
	mad.MAD
	at       time.Time
	src, dst netip.Addr
	psn      uint32
	tclass   uint8
}

// readFrames returns the CM messages of a capture file.
func readFrames(t *testing.T, name string) []frame {
	t.Helper()
	var frames []frame
	captures.Each(t, "../testdata/captures/"+name, func(_ string, p *pcapfile.Packet) {
		const headers, icrc = 12 + 8, 4
		if len(p.Payload) != headers+mad.Size+icrc || binary.BigEndian.Uint32(p.Payload[4:])&0xffffff != 1 {
			return
		}
		tclass := p.IP[1]
		if p.IP[0]>>4 == 6 {
			tclass = uint8(binary.BigEndian.Uint16(p.IP) >> 4)
		}
		frames = append(frames, frame{
			MAD: mad.MAD(p.Payload[headers:]), at: p.Time, src: p.Src, dst: p.Dst,
			psn: binary.BigEndian.Uint32(p.Payload[8:]) & 0xffffff, tclass: tclass,
		})
	})
	return frames
}

// isServer reports whether an address is that of the server guest.
func isServer(a netip.Addr) bool {
	return a == netip.MustParseAddr("10.77.0.2") || a == netip.MustParseAddr("fd00:77::2")
}

// scenario is one capture: the sent messages, and which of them arrived.
type scenario struct {
	name   string
	frames []frame
	lost   map[int]bool // indices in frames
}

// scenarios returns every capture of the connection manager.
func scenarios(t *testing.T) []scenario {
	t.Helper()
	names, err := filepath.Glob("../testdata/captures/*cm_*.pcap")
	if err != nil || len(names) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	var all []scenario
	for _, n := range names {
		n = filepath.Base(n)
		base, isClient := strings.CutSuffix(n, ".client.pcap")
		switch {
		case isClient:
			all = append(all, lossy(t, base))
		case !strings.HasSuffix(n, ".server.pcap"):
			all = append(all, scenario{name: strings.TrimSuffix(n, ".pcap"), frames: readFrames(t, n)})
		}
	}
	return all
}

// lossy joins the captures of both ends: each end's capture has all that it
// sent; messages that are missing in the other's were lost.
func lossy(t *testing.T, base string) scenario {
	t.Helper()
	client, server := readFrames(t, base+".client.pcap"), readFrames(t, base+".server.pcap")
	s := scenario{name: base, lost: map[int]bool{}}
	for _, f := range client {
		if !isServer(f.src) {
			s.frames = append(s.frames, f)
		}
	}
	for _, f := range server {
		if isServer(f.src) {
			s.frames = append(s.frames, f)
		}
	}
	slices.SortStableFunc(s.frames, func(a, b frame) int { return a.at.Compare(b.at) })
	for i, f := range s.frames {
		other := client
		if !isServer(f.src) {
			other = server
		}
		s.lost[i] = !slices.ContainsFunc(other, func(o frame) bool { return o.src == f.src && o.psn == f.psn })
	}
	return s
}

// replay has our two ends repeat a capture.
type replay struct {
	t     *testing.T
	s     scenario
	start time.Time
	now   clock.Instant
	ends  map[netip.Addr]*end
	late  []int    // messages that cross the next one
	extra []string // messages that we repeat and Linux did not
}

// deviations names messages that our ends send and Linux did not, by capture.
var deviations = map[string][]string{
	// Linux does not repeat the DREQ of a connection that its consumer has
	// destroyed. Ours does: otherwise the peer would go on forever.
	"loss_cm_dreq": {"DREQ"},
}

// end is one of them.
type end struct {
	m     *Manager
	out   []frame // sent and not compared yet
	conns []*Conn
	draws []uint32 // what Linux drew
}

// TestC3_C4_C5_C7_C9_LinuxCaptures has our connection manager do what Linux did
// in each capture, with the same parameters and the same random numbers. Every
// message must be Linux's, byte for byte and to the same traffic class; our
// end's own answers and repetitions must be those of Linux.
func TestC3_C4_C5_C7_C9_LinuxCaptures(t *testing.T) {
	compared := 0
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			if len(s.frames) == 0 {
				return // multicast needs no messages
			}
			r := newReplay(t, s)
			for i := range s.frames {
				r.step(i)
				compared++
			}
			r.finish()
		})
	}
	if compared != 150 {
		t.Errorf("%d messages were compared", compared)
	}
}

func newReplay(t *testing.T, s scenario) *replay {
	r := &replay{t: t, s: s, start: s.frames[0].at, ends: map[netip.Addr]*end{}}
	first := s.frames[0]
	for _, a := range []netip.Addr{first.src, first.dst} {
		e := &end{}
		guid := uint64(0x5054_00ff_fe77_0002)
		if isServer(a) {
			guid--
		}
		agent := first.MAD.Header().TID >> 32
		e.m = New(Config{
			GUID: guid, MTU: ib.MTU1024, Addrs: []netip.Addr{a},
			Rand: func() uint32 {
				if len(e.draws) == 0 {
					t.Fatalf("%v draws a number that Linux did not", a)
				}
				d := e.draws[0]
				e.draws = e.draws[1:]
				return d
			},
			// The number of Linux's MAD agent, and its own copy of the ID, whose
			// bytes are the other way round.
			TID: func(id uint32) uint64 { return agent<<32 | uint64(bits.ReverseBytes32(id)) },
			Send: func(now clock.Instant, to gsi.Address, m *mad.MAD) error {
				e.out = append(e.out, frame{MAD: *m, at: r.start.Add(time.Duration(now)), src: a, dst: to.Remote, tclass: to.TClass})
				return nil
			},
		})
		r.ends[a] = e
	}
	r.listen()
	return r
}

// listen offers the services whose requests Linux took. As rdma_cm, the
// consumer has an MRA ready for a REQ that is repeated.
func (r *replay) listen() {
	for i := range r.s.frames {
		f := &r.s.frames[i]
		var id mad.ServiceID
		refused := false
		switch f.Header().AttrID {
		case mad.AttrREQ:
			id = decode(&mad.REQ{}, &f.MAD).ServiceID
			refused = r.answered(f, func(m *mad.MAD) bool {
				return m.Header().AttrID == mad.AttrREJ && decode(&mad.REJ{}, m).Reason == mad.RejInvalidServiceID
			})
		case mad.AttrSIDRREQ:
			id = decode(&mad.SIDRREQ{}, &f.MAD).ServiceID
			refused = r.answered(f, func(m *mad.MAD) bool {
				return m.Header().AttrID == mad.AttrSIDRREP && decode(&mad.SIDRREP{}, m).Status == mad.SIDRUnsupportedService
			})
		default:
			continue
		}
		e := r.ends[f.dst]
		if refused || e.m.listeners[id] != nil {
			continue
		}
		_, err := e.m.Listen(id, func(now clock.Instant, c *Conn, ev *Event) {
			if ev.Type == REQReceived {
				e.conns = append(e.conns, c)
				r.do(c.PrepareMRA(now, DefaultMRATimeout, nil))
			}
			if ev.Type == SIDRREQReceived {
				e.conns = append(e.conns, c)
			}
		})
		r.do(err)
	}
}

// answered reports whether the capture has an answer to f of that kind.
func (r *replay) answered(f *frame, kind func(*mad.MAD) bool) bool {
	return slices.ContainsFunc(r.s.frames, func(o frame) bool {
		return o.src == f.dst && o.Header().TID == f.Header().TID && kind(&o.MAD)
	})
}

func (r *replay) do(err error) {
	r.t.Helper()
	must.Do(r.t, err)
}

// step has the sender of message i send it, and brings it to its receiver if
// it arrived.
func (r *replay) step(i int) {
	f := &r.s.frames[i]
	e := r.ends[f.src]
	r.now = clock.Instant(f.at.Sub(r.start))
	r.advance(f)
	repeated := slices.ContainsFunc(r.s.frames[:i], func(o frame) bool { return o.src == f.src && o.MAD == f.MAD })
	if len(e.out) == 0 && repeated {
		r.waitFor(e, f)
	}
	if len(e.out) == 0 {
		r.draw(f)
		r.act(e, f)
	}
	if len(e.out) == 0 {
		r.t.Fatalf("%v: nothing was sent, Linux sends\n%s", f.at.Sub(r.start), mad.Describe(&f.MAD))
	}
	got := e.out[0]
	e.out = e.out[1:]
	if got.MAD != f.MAD || got.dst != f.dst || got.tclass != f.tclass {
		r.t.Fatalf("%v: sent to %v, class %d:\n%s\n% x\nLinux sends to %v, class %d:\n%s\n% x", f.at.Sub(r.start),
			got.dst, got.tclass, mad.Describe(&got.MAD), got.MAD, f.dst, f.tclass, mad.Describe(&f.MAD), f.MAD)
	}
	arrived := []int{i}
	switch {
	case r.s.lost[i]:
		arrived = nil
	case r.crosses(i):
		arrived, r.late = nil, arrived
	default:
		arrived, r.late = append(arrived, r.late...), nil
	}
	for _, i := range arrived {
		r.deliver(i)
	}
}

// crosses reports whether the receiver of a DREQ or a DREP sent its own before
// it came.
func (r *replay) crosses(i int) bool {
	f := &r.s.frames[i]
	kind := f.Header().AttrID
	next := slices.IndexFunc(r.s.frames[i:], func(o frame) bool { return o.src == f.dst })
	if next < 0 || kind != mad.AttrDREQ && kind != mad.AttrDREP || r.s.frames[i+next].Header().AttrID != kind {
		return false
	}
	// Both begin with the IDs of sender and receiver.
	return decode(&mad.RTU{}, &f.MAD).RemoteCommID == decode(&mad.RTU{}, &r.s.frames[i+next].MAD).LocalCommID
}

func (r *replay) deliver(i int) {
	f := &r.s.frames[i]
	r.drawPassive(i)
	r.ends[f.dst].m.Receive(r.now, &gsi.Received{
		MAD: &f.MAD, From: gsi.Address{Local: f.dst, Remote: f.src, QPN: 1, PKey: ib.PKeyDefault, TClass: f.tclass},
	})
	for a, e := range r.ends {
		if err := invariants(e.m); err != nil {
			r.t.Fatalf("%v: %v", a, err)
		}
	}
}

// advance lets the timers fire that are due before f.
func (r *replay) advance(f *frame) {
	for a, e := range r.ends {
		prompt := len(e.out)
		for e.m.Deadline() <= r.now {
			e.m.Advance(e.m.Deadline())
		}
		for i := prompt; i < len(e.out); {
			if o := &e.out[i]; a == f.src && o.MAD == f.MAD {
				r.sameTime(o, f)
				i++
				continue
			}
			r.extra = append(r.extra, e.out[i].Header().AttrID.String())
			e.out = slices.Delete(e.out, i, i+1)
		}
	}
}

// waitFor lets timers fire until an end repeats what Linux repeats.
func (r *replay) waitFor(e *end, f *frame) {
	for len(e.out) == 0 {
		at := e.m.Deadline()
		if at == clock.Never {
			r.t.Fatalf("nothing is repeated, Linux repeats\n%s", mad.Describe(&f.MAD))
		}
		e.m.Advance(at)
	}
	r.sameTime(&e.out[0], f)
}

// sameTime checks that a repetition is at about the time of Linux's, which
// rounds the 5-bit codes to powers of two of a millisecond, 5 % less than they
// are, and whose timers are up to 200 ms late.
func (r *replay) sameTime(ours, linux *frame) {
	if diff := ours.at.Sub(linux.at).Abs(); diff > linux.at.Sub(r.start)/20+200*time.Millisecond {
		r.t.Errorf("%v is repeated after %v, by Linux after %v", linux.Header().AttrID, ours.at.Sub(r.start), linux.at.Sub(r.start))
	}
}

// draw gives the sender of a request the numbers that Linux drew for it: the
// communication ID and then the PSN.
func (r *replay) draw(f *frame) {
	e := r.ends[f.src]
	switch f.Header().AttrID {
	case mad.AttrREQ:
		q := decode(&mad.REQ{}, &f.MAD)
		e.draws = append(e.draws, q.LocalCommID, q.StartingPSN.Value())
	case mad.AttrSIDRREQ:
		e.draws = append(e.draws, decode(&mad.SIDRREQ{}, &f.MAD).RequestID)
	}
}

// drawPassive does the same for the receiver of a REQ, from its answers.
func (r *replay) drawPassive(i int) {
	f := &r.s.frames[i]
	e := r.ends[f.dst]
	if f.Header().AttrID != mad.AttrREQ {
		return
	}
	q := decode(&mad.REQ{}, &f.MAD)
	if len(e.draws) > 0 || slices.ContainsFunc(e.conns, func(c *Conn) bool { return c.remoteID == q.LocalCommID }) {
		return
	}
	id, psn := uint32(0x1234_5678), uint32(0) // arbitrary if it never answers
	for _, o := range r.s.frames[i:] {
		if o.src != f.dst || o.Header().TID != f.Header().TID {
			continue
		}
		switch o.Header().AttrID {
		case mad.AttrREP:
			p := decode(&mad.REP{}, &o.MAD)
			id, psn = p.LocalCommID, p.StartingPSN.Value()
		case mad.AttrREJ:
			id = decode(&mad.REJ{}, &o.MAD).LocalCommID
		}
	}
	if id != 0 { // a service without a listener draws nothing
		e.draws = append(e.draws, id, psn)
	}
}

// conn returns the connection of an end that a message names.
func (e *end) conn(local uint32) *Conn {
	i := slices.IndexFunc(e.conns, func(c *Conn) bool { return c.localID == local && c.state != Idle })
	if i < 0 {
		return &Conn{m: e.m}
	}
	return e.conns[i]
}

// act makes the call that Linux's consumer made to send a message.
func (r *replay) act(e *end, f *frame) {
	switch f.Header().AttrID {
	case mad.AttrREQ:
		c := e.m.NewConn(nil)
		e.conns = append(e.conns, c)
		r.do(c.SendREQ(r.now, paramsOf(decode(&mad.REQ{}, &f.MAD))))
	case mad.AttrREP:
		p := decode(&mad.REP{}, &f.MAD)
		r.do(e.conn(p.LocalCommID).SendREP(r.now, &REPParams{
			QPN: p.LocalQPN, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
			RNRRetryCount: p.RNRRetryCount, FlowControl: p.EndToEndFlowControl, SRQ: p.SRQ, PrivateData: p.PrivateData[:],
		}))
	case mad.AttrRTU:
		p := decode(&mad.RTU{}, &f.MAD)
		r.do(e.conn(p.LocalCommID).SendRTU(r.now, p.PrivateData[:]))
	case mad.AttrDREQ:
		p := decode(&mad.DREQ{}, &f.MAD)
		r.do(e.conn(p.LocalCommID).SendDREQ(r.now, p.PrivateData[:]))
	case mad.AttrDREP:
		p := decode(&mad.DREP{}, &f.MAD)
		r.do(e.conn(p.LocalCommID).SendDREP(r.now, p.PrivateData[:]))
	case mad.AttrREJ:
		r.reject(e, decode(&mad.REJ{}, &f.MAD))
	case mad.AttrSIDRREQ:
		q := decode(&mad.SIDRREQ{}, &f.MAD)
		c := e.m.NewConn(nil)
		e.conns = append(e.conns, c)
		r.do(c.SendSIDRREQ(r.now, &SIDRREQParams{
			Service: q.ServiceID, Path: Path{Local: f.src, Remote: f.dst, PKey: q.PKey, TClass: f.tclass}, PrivateData: q.PrivateData[:],
		}))
	case mad.AttrSIDRREP:
		p := decode(&mad.SIDRREP{}, &f.MAD)
		i := slices.IndexFunc(e.conns, func(c *Conn) bool { return c.remoteID == p.RequestID && c.state == SIDRReqRcvd })
		r.do(e.conns[i].SendSIDRREP(r.now, &SIDRREPParams{
			Status: p.Status, QPN: p.QPN, QKey: p.QKey, Info: p.Info[:p.InfoLength], PrivateData: p.PrivateData[:],
		}))
	}
}

// reject sends the REJ, or returns why not.
func (r *replay) reject(e *end, j *mad.REJ) {
	c := e.conn(j.LocalCommID)
	if j.Reason == mad.RejTimeout { // the consumer gave up
		c.Destroy(r.now)
		return
	}
	r.do(c.SendREJ(r.now, &REJParams{Reason: j.Reason, Info: j.Info[:j.InfoLength], PrivateData: j.PrivateData[:]}))
}

// paramsOf returns the consumer's parameters that lead to a REQ.
func paramsOf(q *mad.REQ) *REQParams {
	p := &q.Primary
	return &REQParams{
		Service: q.ServiceID, Transport: q.Transport, QPN: q.LocalQPN,
		Path: Path{
			Local: p.LocalGID.Addr(), Remote: p.RemoteGID.Addr(), FlowLabel: p.FlowLabel, TClass: p.TrafficClass,
			HopLimit: p.HopLimit, SL: p.SL, MTU: q.PathMTU, PKey: q.PKey, // and the lifetime is the usual one
		},
		ResponderResources: q.ResponderResources, InitiatorDepth: q.InitiatorDepth,
		RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount, FlowControl: q.EndToEndFlowControl, SRQ: q.SRQ,
		ResponseTimeout: q.RemoteResponseTimeout, MaxRetries: q.MaxCMRetries, PrivateData: q.PrivateData[:],
	}
}

// finish checks that our ends sent only messages that Linux sent, except for
// the deviations.
func (r *replay) finish() {
	if want := deviations[r.s.name]; !slices.Equal(r.extra, want) {
		r.t.Errorf("sent %v, which Linux did not send; known are %v", r.extra, want)
	}
	for a, e := range r.ends {
		for _, f := range e.out {
			r.t.Errorf("%v sent what Linux did not: %s", a, mad.Describe(&f.MAD))
		}
		if len(e.draws) > 0 {
			r.t.Errorf("%v did not draw %x as Linux did", a, e.draws)
		}
	}
}
