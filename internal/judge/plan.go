package judge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/roce"
)

// Plan says which part of a script can be played to an adapter other than ours.
type Plan struct {
	Script    string   `json:"script"`             // its name
	Title     string   `json:"title"`              // its title
	Covers    []string `json:"covers"`             // numbers of requirements
	Requester bool     `json:"requester"`          // the adapter is judged as requester
	Responder bool     `json:"responder"`          // the adapter is judged as responder
	Reason    string   `json:"reason,omitempty"`   // why no part can be judged
	LeftOut   []Left   `json:"left_out,omitempty"` // parts that cannot be judged
	play      script.Play
}

// Left is a part of a script that is not judged.
type Left struct {
	QP     string `json:"qp,omitempty"` // empty: every queue pair
	Line   int    `json:"line"`         // from here on
	Reason string `json:"reason"`       // why
}

// planner walks through a script without an adapter.
type planner struct {
	plan    *Plan
	peer    netip.Addr
	local   netip.Addr
	manual  map[string]bool // completion queues
	shared  map[string]bool // shared receive queues
	closed  map[string]bool // queue pairs that are judged no further
	ended   bool
	fast    map[uint32]bool // keys of regions that user space cannot register
	faraway map[ib.AHHandle]bool
	peers   map[ib.QPN]string // the queue pair that sends to it
	known   map[string]bool   // queue pairs that exist
	hostile bool
}

// MakePlan reads a script. Unless hostile is set, it leaves out packets that end
// within their headers, which have crashed the whole machine of some peers. The
// error is for a script that fails on our own adapter.
func MakePlan(name, text string, hostile bool) (*Plan, error) {
	play, err := script.Follow(name, text)
	if err != nil {
		return nil, err
	}
	p := &Plan{Script: name, Title: play.Title, Covers: play.Covers, play: play}
	w := &planner{
		plan: p, manual: map[string]bool{}, shared: map[string]bool{}, closed: map[string]bool{}, fast: map[uint32]bool{}, faraway: map[ib.AHHandle]bool{},
		peers: map[ib.QPN]string{}, known: map[string]bool{}, hostile: hostile,
	}
	if slices.ContainsFunc(p.Covers, isRecovery) {
		p.Reason = "how an adapter recovers from loss beyond what the protocol asks for is its own choice"
	}
	w.peer, _ = netip.ParseAddr(play.Peer) // none in a script without an adapter
	w.local, _ = netip.ParseAddr(play.Local)
	for i := range play.Steps {
		w.step(&play.Steps[i])
	}
	if !p.Requester && !p.Responder && p.Reason == "" {
		p.Reason = "no packet of it is played"
		if len(p.LeftOut) > 0 {
			p.Reason = p.LeftOut[0].Reason
		}
	}
	if p.Reason != "" {
		p.Requester, p.Responder, p.LeftOut = false, false, nil
	}
	return p, nil
}

// isRecovery reports whether a requirement asks for more than any peer
// implements (L1, L2).
func isRecovery(id string) bool { return id[0] == 'L' }

// close leaves out a queue pair from a line on.
func (w *planner) close(qp string, line int, format string, args ...any) {
	if !w.closed[qp] && !w.ended {
		w.closed[qp] = true
		w.plan.LeftOut = append(w.plan.LeftOut, Left{qp, line, fmt.Sprintf(format, args...)})
	}
}

// end leaves out the rest of the script from a line on.
func (w *planner) end(line int, why string) {
	if !w.ended {
		w.ended = true
		w.plan.LeftOut = append(w.plan.LeftOut, Left{"", line, why})
	}
}

func (w *planner) step(s *script.PlayStep) {
	for i := range s.Acts {
		if w.plan.Reason == "" && !w.ended {
			w.act(s, &s.Acts[i])
		}
	}
	if w.plan.Reason != "" || w.ended {
		return
	}
	for i := range s.Acts {
		a := &s.Acts[i]
		switch d := a.Step.(type) {
		case script.PostSend:
			w.plan.Requester = w.plan.Requester || !a.Refused && w.known[d.QP] && !w.closed[d.QP] && sends(s, d.QP)
		case script.Inject:
			if w.known[d.QP] && !w.closed[d.QP] && !isAnswer(&d.Injection) {
				w.plan.Responder = true
			}
		}
	}
}

// sends reports whether a queue pair transmits in a step.
func sends(s *script.PlayStep, qp string) bool {
	return slices.ContainsFunc(s.Packets, func(p script.SentPacket) bool { return p.QP == qp })
}

// act plans one action.
func (w *planner) act(s *script.PlayStep, a *script.Act) {
	switch d := a.Step.(type) {
	case script.Own:
		w.own(s.Line, d.Words)
	case script.RegMR:
		if d.Access&ib.AccessFlush != 0 {
			w.end(s.Line, "a region for FLUSH is not for every adapter")
		}
		if d.Invalidatable && !a.Refused {
			w.fast[d.Key] = true
		}
	case script.CreateCQ:
		w.manual[d.Name] = d.Manual
	case script.CreateSRQ:
		w.shared[d.Name] = true
	case script.CreateAH:
		if !a.Refused {
			w.faraway[d.Handle] = d.Attr.DGID.Addr() != w.peer || d.Attr.StaticRate != ib.RateMax
		}
	case script.CreateQP:
		if !a.Refused {
			w.create(s.Line, &d)
		}
	case script.Modify:
		w.modify(s.Line, a.Refused, &d)
	case script.PostSend:
		for i := range d.WRs {
			w.post(s.Line, d.QP, &d.WRs[i])
		}
	case script.Inject:
		w.inject(s.Line, &d.Injection)
	}
}

// ownVerbs are the commands that need nothing of an adapter, or nothing that is
// visible from outside.
var ownVerbs = []string{"poll", "arm", "counters", "deadline", "batch", "query", "dump", "resize", "moderate", "limit"}

// own plans an Own command, which only our adapter can carry out.
func (w *planner) own(line int, words []string) {
	switch verb := words[0]; {
	case verb == "adapter":
		for _, o := range words[1:] {
			if o != "migreq=0" && o != "inorder" { // other adapters behave like these two
				w.plan.Reason = "it asks for an option of our own adapter: " + o
			}
		}
	case verb == "resize" && w.shared[words[1]]:
		w.end(line, "it resizes a shared receive queue")
	case slices.Contains(ownVerbs, verb):
	case verb == "net" || verb == "transmit":
		w.end(line, "it blocks the adapter's network")
	case verb == "rate":
		w.end(line, "it limits what a queue pair sends")
	case verb == "address":
		w.end(line, "it takes an address from the adapter")
	case verb == "mr":
		w.end(line, "it has a region without memory")
	case verb == "rereg":
		w.end(line, "it changes a region by rereg_mr")
	case verb == "mw":
		w.plan.Reason = "the keys of memory windows are the adapter's choice"
	case verb == "<":
		w.plan.Reason = "QP1 of the peer belongs to its system"
	default:
		w.plan.Reason = "the connection manager is that of the peer's system"
	}
}

func (w *planner) create(line int, d *script.CreateQP) {
	w.known[d.Name] = true
	switch {
	case d.Type != ib.RC && d.Type != ib.UC && d.Type != ib.UD:
		w.close(d.Name, line, "a program cannot have a queue pair of type %v", d.Type)
	case w.manual[d.SendCQ] || w.manual[d.RecvCQ]:
		w.close(d.Name, line, "its completion queue is polled when the script says so")
	default:
		w.talksTo(line, d.Name, d.Type, d.PeerQPN)
	}
}

// talksTo remembers the destination number by which a queue pair's packets are
// recognised.
func (w *planner) talksTo(line int, qp string, t ib.QPType, peer ib.QPN) {
	if t == ib.UD {
		return // the sender's number is in the packet
	}
	if other := w.peers[peer]; other != "" && other != qp && !w.closed[other] {
		w.close(qp, line, "its peer is that of %s too", other)
		return
	}
	w.peers[peer] = qp
}

// optionalAttrs are attributes that many adapters do not support.
const optionalAttrs = ib.AttrAltPath | ib.AttrCap | ib.AttrPathMigState

func (w *planner) modify(line int, refused bool, d *script.Modify) {
	switch {
	case refused:
	case d.Mask&optionalAttrs != 0:
		w.close(d.QP, line, "it sets %v", d.Mask&optionalAttrs)
	case d.Mask&ib.AttrPKeyIndex != 0 && d.Attr.PKeyIndex != 0:
		w.close(d.QP, line, "it needs a second P_Key")
	case d.Mask&ib.AttrAV != 0 && d.Attr.AV.StaticRate != ib.RateMax:
		w.close(d.QP, line, "when its packets leave depends on the rate of the peer's port")
	case d.Mask&ib.AttrAV != 0 && d.Attr.AV.DGID.Addr() != w.peer:
		w.close(d.QP, line, "its peer has another address")
	case d.Mask&ib.AttrDestQPN != 0:
		w.talksTo(line, d.QP, ib.RC, d.Attr.DestQPN)
	}
}

func (w *planner) post(line int, qp string, wr *ib.SendWR) {
	switch {
	case wr.Opcode > ib.WRAtomicFetchAdd && wr.Opcode != ib.WRSendWithInv:
		w.close(qp, line, "%v is not for every adapter", wr.Opcode)
	case w.faraway[wr.AH]:
		w.close(qp, line, "it sends to another address, or at a static rate")
	case slices.ContainsFunc(wr.SGList, func(e ib.SGE) bool { return w.fast[uint32(e.LKey)] }):
		w.close(qp, line, "it needs a region that a peer may invalidate")
	}
}

func (w *planner) inject(line int, in *script.Injection) {
	p := &in.Packet
	switch {
	case !w.known[in.QP]:
		w.end(line, "QP1 of the peer belongs to its system")
	case !w.hostile && endsInHeaders(in):
		w.close(in.QP, line, "a packet ends within its headers, which has brought peers down: --hostile sends it")
	case in.Src != w.peer || in.Dst != w.local:
		w.close(in.QP, line, "it needs a packet from another address")
	case p.Info.Kind == roce.KindFlush || p.Info.Kind == roce.KindAtomicWrite:
		w.close(in.QP, line, "peers serve %v since Linux 6.2: the runner does not try it", p.BTH.Opcode)
	case w.fast[uint32(p.RETH.RKey)] || w.fast[uint32(p.AtomicETH.RKey)] || w.fast[uint32(p.InvRKey)]:
		w.close(in.QP, line, "it needs a region that a peer may invalidate")
	}
}

// endsInHeaders reports whether a packet is too short for the headers of its
// opcode.
func endsInHeaders(in *script.Injection) bool {
	if in.Raw != nil {
		return len(in.Raw) < roce.BTHLen || len(in.Raw)+4 < roce.Size(roce.Opcode(in.Raw[0]), 0)
	}
	op := in.Packet.BTH.Opcode
	return roce.Size(op, len(in.Packet.Payload))-in.Cut < roce.Size(op, 0)
}

// String returns the plan in a line.
func (p *Plan) String() string {
	var roles []string
	if p.Responder {
		roles = append(roles, "responder")
	}
	if p.Requester {
		roles = append(roles, "requester")
	}
	text := strings.Join(roles, ", ")
	if p.Reason != "" {
		return "not judged: " + p.Reason
	}
	for _, l := range p.LeftOut {
		who := l.QP
		if who == "" {
			who = "all"
		}
		text += fmt.Sprintf("; not %s from line %d: %s", who, l.Line, l.Reason)
	}
	return text
}
