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
	join := func() error { return id.joinMulticast(plain(a).Addr(), context) }
	return id.start(fmt.Sprintf("join multicast %v", a.Addr()), join, EventMulticastJoin)
}

func (id *ID) joinMulticast(group netip.Addr, context any) error {
	if err := id.mayJoin(group); err != nil {
		return err
	}
	j := &join{group: group}
	ev := &Event{Type: EventMulticastJoin, Context: context, UD: id.groupParam(group), count: &j.acks}
	err := id.attach(j)
	if err == nil && !group.IsMulticast() {
		err = fmt.Errorf("%v is no group: %w", group, ib.EINVAL)
	}
	if err != nil {
		ev = &Event{Type: EventMulticastError, Status: -1, Err: err, Context: context}
	} else {
		id.joins = append(id.joins, j)
	}
	id.post(ev)
	return nil
}

// mayJoin returns an error if the ID cannot join a group.
func (id *ID) mayJoin(group netip.Addr) error {
	switch {
	case id.typ != ib.UD:
		return fmt.Errorf("an ID of %v: %w", id.ps, ib.EINVAL)
	case id.dev == nil:
		return fmt.Errorf("the ID has no adapter yet: %w", ib.EINVAL)
	case !group.IsValid() || group.IsUnspecified() || group.Is4() != id.src.Addr().Is4():
		return fmt.Errorf("not an address of the family of %v: %w", id.src.Addr(), ib.EINVAL)
	case len(id.joins) >= maxJoins:
		return fmt.Errorf("%d joins are all there can be: %w", len(id.joins), ib.ENOMEM)
	}
	if err := id.room(); err != nil {
		return err
	}
	return id.in(stateBound, stateAddrResolved)
}

// attach attaches the QP, if there is one, to the group.
func (id *ID) attach(j *join) error {
	if id.qp.engine() == nil {
		return nil
	}
	if err := id.qp.qp.AttachMcast(ib.GIDFromAddr(j.group), 0); err != nil {
		return err
	}
	j.attached = true
	return nil
}

// groupParam returns the destination of messages to a group.
func (id *ID) groupParam(group netip.Addr) UDParam {
	sgid, _ := id.dev.index(id.src.Addr())
	return UDParam{QPN: ib.QPNMulticast, QKey: DefaultQKey, AH: ib.AHAttr{
		DGID: ib.GIDFromAddr(group), SGIDIndex: sgid, Port: 1, HopLimit: cm.DefaultHopLimit, TrafficClass: id.settings.tos,
	}}
}

// LeaveMulticast undoes the last join of a group and waits until its event, if it was
// taken, is acknowledged. EADDRNOTAVAIL if the group is not joined.
func (id *ID) LeaveMulticast(a netip.AddrPort) error {
	var j *join
	err := id.run(fmt.Sprintf("leave multicast %v", a.Addr()), func() (err error) {
		j, err = id.leaveMulticast(plain(a).Addr())
		return err
	})
	if err != nil {
		return err
	}
	id.m.mu.Lock()
	taken := j.acks.wait()
	id.m.mu.Unlock()
	id.m.drain(taken)
	return nil
}

func (id *ID) leaveMulticast(group netip.Addr) (*join, error) {
	last := -1
	for i, j := range id.joins {
		if j.group == group {
			last = i
		}
	}
	if last < 0 {
		return nil, fmt.Errorf("not joined: %w", ib.EADDRNOTAVAIL)
	}
	j := id.joins[last]
	id.joins = slices.Delete(id.joins, last, last+1)
	id.m.mu.Lock()
	id.ch.removeOf(id, &j.acks)
	id.release()
	id.m.mu.Unlock()
	still := slices.ContainsFunc(id.joins, func(o *join) bool { return o.group == group && o.attached })
	if !j.attached || still || id.qp.engine() == nil {
		return j, nil
	}
	return j, id.qp.qp.DetachMcast(ib.GIDFromAddr(group), 0)
}
