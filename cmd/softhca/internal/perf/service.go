package perf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// service has the properties of a transport service for measurements.
type service struct {
	name     string
	typ      ib.QPType
	ops      []Op // its operations
	reliable bool // each message arrives or fails
	header   int  // bytes before a received message
	datagram bool // each request names its destination, and is one packet
	channel  bool // each request names its destination and the common EE context
	shared   bool // all queue pairs share one receive queue, which each request names
	windows  bool // the receiving queue pair can bind memory windows
}

// services are the services that perf measures; the first is the default.
var services = [...]service{
	{name: "rc", typ: ib.RC, ops: []Op{Write, WriteImm, Send, Read, CmpSwap, FetchAdd, AtomicWrite, Flush, Bind}, reliable: true, windows: true},
	{name: "uc", typ: ib.UC, ops: []Op{Write, WriteImm, Send, Bind}, windows: true},
	{name: "ud", typ: ib.UD, ops: []Op{Send}, header: grhBytes, datagram: true},
	{name: "rd", typ: ib.RD, ops: []Op{Write, WriteImm, Send, Read, CmpSwap, FetchAdd}, reliable: true, channel: true},
	{name: "xrc", typ: ib.XRCIni, ops: []Op{Write, WriteImm, Send, Read, CmpSwap, FetchAdd, AtomicWrite, Flush}, reliable: true, shared: true},
}

// grhBytes is the size of the GRH that UD places before each message.
const grhBytes = 40

// qKey is the Q_Key of all datagrams.
const qKey ib.QKey = 0x1d30_9ef5

// ParseType returns the type of queue pairs with a name. The error names them
// all.
func ParseType(name string) (ib.QPType, error) {
	for i := range services {
		if services[i].name == name {
			return services[i].typ, nil
		}
	}
	return 0, fmt.Errorf("type %q: want one of %s", name, strings.Join(TypeNames(), ", "))
}

// TypeNames returns the names that ParseType accepts.
func TypeNames() (names []string) {
	for i := range services {
		names = append(names, services[i].name)
	}
	return names
}

// service returns the row of the plan's type, or nil if perf does not measure it.
func (p *Plan) service() *service {
	for i := range services {
		if services[i].typ == p.Type {
			return &services[i]
		}
	}
	return nil
}

// checkService returns an error if the type of queue pairs does not support the plan.
func (p *Plan) checkService() error {
	s := p.service()
	switch {
	case s == nil:
		return fmt.Errorf("queue pairs of type %v cannot be measured: want one of %s", p.Type, strings.Join(TypeNames(), ", "))
	case !slices.Contains(s.ops, p.Op):
		return fmt.Errorf("%s has no %v", strings.ToUpper(s.name), p.Op)
	case s.datagram && p.Size > ib.MTU4096.Bytes():
		return fmt.Errorf("size %d: a datagram has at most %d bytes", p.Size, ib.MTU4096.Bytes())
	case p.Alt && !s.reliable:
		return fmt.Errorf("an alternate path: %s hears no answer, and would not notice that the first one is lost", strings.ToUpper(s.name))
	case s.channel && p.Limit != 0:
		return fmt.Errorf("a rate limit of %s queue pairs: they share a channel, which a static rate of its path paces", strings.ToUpper(s.name))
	}
	return p.checkWindow()
}

// begin returns the common part of all requests of queue pair i.
func (s *localSide) begin(i int, peer *side) verbs.SendWR {
	wr := verbs.SendWR{
		Opcode: s.plan.Op.info().wr, SGList: s.outSGE(i), RemoteAddr: peer.Addr + uint64(i*s.plan.stride()), RKey: ib.RKey(cmp.Or(peer.QPs[i].RKey, peer.RKey)),
		RemoteSRQN: ib.SRQN(peer.SRQN),
	}
	if s.plan.Op == Flush {
		wr.SGList, wr.Flush = nil, verbs.Flush{Length: uint32(s.plan.Size), Type: verbs.FlushGlobal}
	}
	if s.plan.Op == Bind {
		wr.SGList = nil
	}
	switch sv := s.plan.service(); {
	case sv.datagram:
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ahs[i], ib.QPN(peer.QPs[i].QPN), qKey
	case sv.channel:
		wr.EEC, wr.RemoteQPN, wr.RemoteQKey = s.channel.eec, ib.QPN(peer.QPs[i].QPN), qKey
	}
	return wr
}

// address creates the address handles of a peer: one for each queue pair, because a
// static rate applies to each address handle.
func (s *localSide) address(peer netip.Addr) error {
	if !s.plan.service().datagram {
		return nil
	}
	for range s.qps {
		s.ahs = append(s.ahs, s.NewAH(s.pd, s.path(peer, s.gid)))
	}
	return s.Err()
}

// A client does not learn whether the last message of an unreliable service arrives, so
// it sends the message several times. The number and the interval of the copies:
const (
	tailCopies = 16
	tailPause  = 2 * time.Millisecond
)

// tail sends the last message of a lane, whose bytes the receiver checks.
func (s *sprint) tail(l *lane) error {
	if s.own.plan.service().reliable {
		return s.post(l, l.list[len(l.list)-1:])
	}
	for range tailCopies {
		if err := s.post(l, l.list[len(l.list)-1:]); err != nil {
			return err
		}
		for next := time.Now().Add(tailPause); s.busy > 0 || time.Now().Before(next); {
			if err := s.poll(); err != nil {
				return err
			}
		}
	}
	return nil
}

// The limits of a server's wait for packets in flight when the client has finished: a
// time without packets, and a total time.
const (
	quietFor  = 50 * time.Millisecond
	quietFrom = 5 * time.Second
)

// quiet waits until all packets of an unreliable service have arrived or are lost, and
// takes their messages.
func (s *server) quiet() error {
	if s.plan.service().reliable || s.pong != nil {
		return nil
	}
	begin := time.Now()
	last, since := uint64(0), begin
	for now := begin; now.Sub(since) < quietFor && now.Sub(begin) < quietFrom; now = time.Now() {
		if s.sink != nil {
			if _, err := s.sink.poll(); err != nil {
				return err
			}
		}
		r, err := s.own.count(s.before)
		if err != nil {
			return err
		}
		if r.Received != last {
			last, since = r.Received, now
		}
	}
	return nil
}
