package demo

import (
	"bytes"
	"context"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// With these values, the connection gives up a path soon.
const (
	hastyTimeout = 16 // 268 ms
	hastyRetries = 1
)

// PathCut returns the rule that cuts the primary path in the middle of the
// WRITE: WRITE packets to the peer's address are lost from the third on.
func PathCut(peer string) string { return "drop op=RDMA_WRITE dir=out nth=3 every=1 dst=" + peer }

// RunMigration shows automatic path migration. AddrA and AddrB are two addresses
// each, with a comma between; OpenA opens an adapter with the rule of PathCut.
// Otherwise it is like Run.
func RunMigration(ctx context.Context, o Options) error {
	s := &stage{printer: newPrinter(&o)}
	return s.play(ctx, &o, "softhca: a connection survives the loss of its path", "softhca states --type rc (ALT_PATH, PATH_MIG_STATE), softhca faults",
		s.adapters, s.joinQuietly, s.arm, s.cut, s.disconnect)
}

// joinQuietly connects A to B without drawing it. A gives up a path soon.
func (s *stage) joinQuietly(ctx context.Context) error {
	s.a.timeout, s.a.retries = hastyTimeout, hastyRetries
	if err := s.join(ctx); err != nil {
		return err
	}
	attr, err := s.a.qp.Query()
	s.mtu = attr.PathMTU
	s.aTrace.take()
	s.bTrace.take()
	s.a.told, s.b.told = nil, nil
	return err
}

// migrationState returns the state of a node's path migration.
func (n *node) migrationState() string {
	attr, err := n.qp.Query()
	if err != nil {
		return err.Error()
	}
	return attr.PathMigState.String()
}

// arm is the scene in which both sides load their alternate path.
func (s *stage) arm(ctx context.Context) error {
	s.title("Load an alternate path")
	s.text(0, "Both adapters have two addresses. The connection uses the first ones. Each program loads the second ones into its queue "+
		"pair as the alternate path, and requests REARM. From then on its packets have MigReq 0, and the first such packet that "+
		"arrives makes the other queue pair ARMED.")
	for _, p := range [...][2]*node{{s.a, s.b}, {s.b, s.a}} {
		attr := verbs.QPAttr{
			State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: hastyTimeout,
			AltAV: verbs.AHAttr{DGID: p[1].Device.QueryGID(1), SGIDIndex: 1, HopLimit: 64, Port: 1},
		}
		if err := p[0].qp.Modify(&attr, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState); err != nil {
			return err
		}
	}
	s.line("")
	s.text(3, "A %s, B %s", s.a.migrationState(), s.b.migrationState())
	if err := s.b.qp.PostRecv(verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{s.b.mr.SGE(landing, target-landing)}}); err != nil {
		return err
	}
	if err := s.post(ctx, verbs.SendWR{WRID: 1, Opcode: ib.WRSend, SGList: []verbs.SGE{s.a.mr.SGE(source, 100)}}); err != nil {
		return err
	}
	if _, err := s.b.next(ctx); err != nil {
		return err
	}
	a, b := s.a.migrationState(), s.b.migrationState()
	s.check(a == ib.ARMED.String() && b == ib.ARMED.String(), "after a message and its answer A is %s, B is %s", a, b)
	return nil
}

// cut is the scene in which the path fails in the middle of a WRITE.
func (s *stage) cut(ctx context.Context) error {
	size := uint32(3*s.mtu.Bytes() + 1000)
	s.title("Cut the path")
	s.text(0, "A writes %d bytes into B's memory, and from the third packet on all packets are lost on the primary path. A retransmits "+
		"until its retries are used up. Then it migrates instead of failing: it sends over the alternate path with MigReq set, and "+
		"B follows.", size)
	err := s.post(ctx, verbs.SendWR{
		WRID: 2, Opcode: ib.WRRDMAWrite, SGList: []verbs.SGE{s.a.mr.SGE(source, size)},
		RemoteAddr: s.b.mr.Addr() + target, RKey: s.b.mr.RKey(),
	})
	if err != nil {
		return err
	}
	for _, p := range [...][2]*node{{s.a, s.b}, {s.b, s.a}} {
		n := p[0]
		if err := n.event(ctx, ib.EventPathMig); err != nil {
			return err
		}
		attr, err := n.qp.Query()
		if err != nil {
			return err
		}
		s.check(attr.PathMigState == ib.MIGRATED && attr.AV.DGID == p[1].Device.QueryGID(1),
			"%s: event %s, state %v, its path now leads to %v", n.name, s.paint(yellow, ib.EventPathMig.String()), attr.State, attr.AV.DGID.Addr())
	}
	s.check(bytes.Equal(s.a.part(source, int(size)), s.b.part(target, int(size))), "B's memory has the data of A: nothing was lost or written twice")
	return nil
}

// pathOf describes the path between the second addresses of a node and its peer.
func pathOf(n, peer *node) string {
	return secondOf(n.addr) + " – " + secondOf(peer.addr)
}

// secondOf returns the second of two addresses.
func secondOf(addrs string) string {
	_, second, _ := strings.Cut(addrs, ",")
	return strings.TrimSpace(second)
}
