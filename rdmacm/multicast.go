package rdmacm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
)

// maxJoins bounds the joins of an ID.
const maxJoins = 64

// join is a multicast group that an ID has joined. Several joins may be of one
// group.
type join struct {
	group    netip.Addr
	attached bool // the ID's QP is attached for this join
	acks     ackCount
}

// groups are the multicast groups that an ID has joined. The queue pair of its link is
// attached to a group as long as one join of it is attached. ID.call guards them.
type groups struct {
	link  *link
	joins []*join
}

// JoinMulticast joins a group; the port of a is ignored. MULTICAST_JOIN has the
// destination of messages to the group, MULTICAST_ERROR reports a failure. The queue
// pair of CreateQP, if it exists by now, then receives messages to the group, including
// its own. On RoCE no subnet administrator is involved: the address names the group,
// and the network learns of the join by IGMP or MLD. The event returns context. A group
// may be joined several times.
//
// EINVAL for an ID of a connected service, before the ID has an adapter and
// after it resolved a route, for an unspecified address or one of another
// family; ENOMEM beyond 64 joins.
func (id *ID) JoinMulticast(a netip.AddrPort, context any) error {
	if err := disturb(id, "CMJoinMulticast"); err != nil {
		return err
	}
	join := func() error { return id.groups.join(plain(a).Addr(), context) }
	return id.start(fmt.Sprintf("join multicast %v", a.Addr()), join, EventMulticastJoin)
}

// join joins a group, or raises MULTICAST_ERROR.
func (g *groups) join(group netip.Addr, context any) error {
	if err := g.mayJoin(group); err != nil {
		return err
	}
	j := &join{group: group}
	ev := &Event{Type: EventMulticastJoin, Context: context, UD: g.param(group), count: &j.acks}
	err := g.attach(j)
	if err == nil && !group.IsMulticast() {
		err = fmt.Errorf("%v is not a multicast group: %w", group, ib.EINVAL)
	}
	if err != nil {
		ev = &Event{Type: EventMulticastError, Status: -1, Err: err, Context: context}
	} else {
		g.joins = append(g.joins, j)
	}
	g.link.inbox.post(ev)
	return nil
}

// mayJoin returns an error if the ID cannot join a group.
func (g *groups) mayJoin(group netip.Addr) error {
	at := g.link.at
	switch {
	case at.typ != ib.UD:
		return fmt.Errorf("an ID of %v: %w", at.ps, ib.EINVAL)
	case at.dev == nil:
		return fmt.Errorf("the ID has no adapter yet: %w", ib.EINVAL)
	case !group.IsValid() || group.IsUnspecified() || group.Is4() != at.src.Addr().Is4():
		return fmt.Errorf("its address family is not that of %v: %w", at.src.Addr(), ib.EINVAL)
	case len(g.joins) >= maxJoins:
		return fmt.Errorf("%d joins are the maximum: %w", len(g.joins), ib.ENOMEM)
	}
	return g.link.in(stateBound, stateAddrResolved)
}

// attach attaches the QP, if there is one, to the group.
func (g *groups) attach(j *join) error {
	q := g.link.qp
	if q.engine() == nil {
		return nil
	}
	err := q.qp.AttachMcast(ib.GIDFromAddr(j.group), 0)
	j.attached = err == nil
	return err
}

// detached notes that the QP, which was attached, is destroyed.
func (g *groups) detached() {
	for _, j := range g.joins {
		j.attached = false
	}
}

// param returns the destination of messages to a group.
func (g *groups) param(group netip.Addr) UDParam {
	at := g.link.at
	sgid, _ := at.dev.index(at.src.Addr())
	return UDParam{QPN: ib.QPNMulticast, QKey: DefaultQKey, AH: ib.AHAttr{
		DGID: ib.GIDFromAddr(group), SGIDIndex: sgid, Port: 1, HopLimit: cm.DefaultHopLimit, TrafficClass: g.link.settings.tos,
	}}
}

// LeaveMulticast undoes the last join of a group and waits until its event, if it was
// taken, is acknowledged. EADDRNOTAVAIL if the group is not joined.
func (id *ID) LeaveMulticast(a netip.AddrPort) error {
	if err := disturb(id, "CMLeaveMulticast"); err != nil {
		return err
	}
	var taken <-chan struct{}
	err := id.run(fmt.Sprintf("leave multicast %v", a.Addr()), func() error {
		j, err := id.groups.leave(plain(a).Addr())
		if j != nil {
			taken = id.inbox.forget(&j.acks)
		}
		return err
	})
	if err != nil {
		return err
	}
	id.m.drain(taken)
	return nil
}

// leave undoes the last join of a group, which it returns.
func (g *groups) leave(group netip.Addr) (*join, error) {
	last := -1
	for i, j := range g.joins {
		if j.group == group {
			last = i
		}
	}
	if last < 0 {
		return nil, fmt.Errorf("not joined: %w", ib.EADDRNOTAVAIL)
	}
	j := g.joins[last]
	g.joins = slices.Delete(g.joins, last, last+1)
	still := slices.ContainsFunc(g.joins, func(o *join) bool { return o.group == group && o.attached })
	if q := g.link.qp; j.attached && !still && q.engine() != nil {
		return j, q.qp.DetachMcast(ib.GIDFromAddr(group), 0)
	}
	return j, nil
}
