package verbs

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/driver"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/fault"
	"github.com/softhca/softhca/internal/gsi"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// ErrInvalidHCA is returned for a device context that is nil or closed (V6).
// It unwraps to ENODEV.
var ErrInvalidHCA = fmt.Errorf("invalid HCA: the device context is nil or closed: %w", ib.ENODEV)

// Context is an open adapter (V1).
type Context struct {
	port   fabric.Port
	hca    *hca.HCA
	drv    *driver.Driver
	events eventQueue
	faults *injector // nil without rules
	closed atomic.Bool

	watchers watchers
}

// Open opens an adapter. Errors say what to do: an address that another
// adapter has gives EADDRINUSE, one that is not this host's EADDRNOTAVAIL,
// a mistake in the rules of faults EINVAL.
func Open(cfg Config, opts ...Option) (*Context, error) {
	for _, o := range opts {
		o(&cfg)
	}
	faults, err := newInjector(&cfg)
	if err != nil {
		return nil, err
	}
	port, err := cfg.openPort(faults)
	if err != nil {
		return nil, err
	}
	guid, err := cfg.guid(port.Caps().Addrs[0])
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	c := &Context{port: port, faults: faults}
	c.events.init()
	c.hca, err = hca.New(hca.Config{
		Caps: port.Caps(), Rand: cfg.source(), QPNSlot: cfg.QPNSlot, NodeGUID: guid, Raise: c.events.raise,
		Settings: qp.Settings{MigReq: !cfg.ClearMigReq, Credits: cfg.Credits},
		Trace:    cfg.Trace, Privileged: cfg.Privileged,
	})
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	faults.attach(c.hca)
	c.drv = driver.Start(port, c.hca.Shard(), c.fatal)
	faults.begin(c)
	return c, nil
}

// Close closes the adapter: its port is free again and every call on its
// objects fails with ENODEV. What was posted is not completed. If packets were
// captured and the capture could not be written, that is the error.
func (c *Context) Close() error {
	if c == nil || c.closed.Swap(true) {
		return ErrInvalidHCA
	}
	c.faults.stop()
	// An adapter that has failed has told its watchers already.
	_ = c.drv.Do(func(now clock.Instant) { c.watchers.tell(now, nil) })
	err := c.drv.Close()
	c.events.close()
	return err
}

// fatal is called by the driver, on the adapter's thread, when it dies.
func (c *Context) fatal(cause error) {
	c.events.fatal(cause)
	c.watchers.tell(0, cause)
}

// usable reports whether c is open.
func (c *Context) usable() bool { return c != nil && !c.closed.Load() }

// alive returns why calls on objects of c fail, nil if they do not.
func (c *Context) alive() error {
	switch {
	case !c.usable():
		return ErrInvalidHCA
	case c.drv.Failed():
		return driver.ErrDead
	}
	return nil
}

// do runs f as the shard's thread.
func (c *Context) do(f func(now clock.Instant) error) error {
	if !c.usable() {
		return ErrInvalidHCA
	}
	var err error
	if e := c.drv.Do(func(now clock.Instant) { err = f(now) }); e != nil {
		return e
	}
	return err
}

// call is do for a verb, which the rules of faults may make fail.
func (c *Context) call(v fault.Verb, s subject, f func(now clock.Instant) error) error {
	if !c.usable() {
		return ErrInvalidHCA
	}
	if err := c.called(v, s); err != nil {
		return err
	}
	return c.do(f)
}

// DeviceAttr describes an adapter, as ibv_query_device does.
type DeviceAttr struct {
	// NodeGUID is the same each time the adapter is opened on its addresses.
	NodeGUID ib.GUID `json:"node_guid"`

	MaxQP         int    `json:"max_qp"`
	MaxQPWR       uint32 `json:"max_qp_wr"`
	MaxSGE        uint32 `json:"max_sge"`
	MaxInlineData uint32 `json:"max_inline_data"` // bytes
	MaxCQ         int    `json:"max_cq"`
	MaxCQE        uint32 `json:"max_cqe"`
	MaxSRQ        int    `json:"max_srq"`
	MaxSRQWR      uint32 `json:"max_srq_wr"`
	MaxMR         int    `json:"max_mr"`
	MaxPD         int    `json:"max_pd"`
	MaxAH         int    `json:"max_ah"`
	MaxQPRDAtom   uint8  `json:"max_qp_rd_atom"`      // as responder
	MaxQPInitRD   uint8  `json:"max_qp_init_rd_atom"` // as requester
	MaxMsgSize    uint64 `json:"max_msg_size"`        // bytes
	PhysPortCnt   uint8  `json:"phys_port_cnt"`

	MaxMcastGrp           int `json:"max_mcast_grp"`             // multicast groups
	MaxMcastQPAttach      int `json:"max_mcast_qp_attach"`       // QPs of a group
	MaxTotalMcastQPAttach int `json:"max_total_mcast_qp_attach"` // QPs of all groups

	// The optional abilities (V1); none is there yet.
	ResizeQP         bool `json:"resize_qp"`
	AutoPathMig      bool `json:"auto_path_mig"`
	ChangePhyPort    bool `json:"change_phy_port"`
	ReliableDatagram bool `json:"reliable_datagram"`
}

// QueryDevice returns the limits and abilities of the adapter.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	if !c.usable() {
		return DeviceAttr{}, ErrInvalidHCA
	}
	l := c.hca.Limits()
	return DeviceAttr{
		MaxQP: l.MaxQP, MaxQPWR: l.MaxQPWR, MaxSGE: l.MaxSGE, MaxInlineData: l.MaxInlineData,
		MaxCQ: l.MaxCQ, MaxCQE: l.MaxCQE, MaxSRQ: l.MaxSRQ, MaxSRQWR: l.MaxSRQWR,
		MaxMR: l.MaxMR, MaxPD: l.MaxPD, MaxAH: l.MaxAH,
		MaxQPRDAtom: l.MaxRDAtomic, MaxQPInitRD: l.MaxRDAtomic, MaxMsgSize: qp.MaxMessage, PhysPortCnt: 1,
		MaxMcastGrp: l.MaxMcastGrp, MaxMcastQPAttach: l.MaxMcastQPAttach, MaxTotalMcastQPAttach: l.MaxTotalMcastQPAttach,
		NodeGUID: ib.GUID(c.hca.NodeGUID()),
	}, nil
}

// PortAttr describes the adapter's port, as ibv_query_port does, and how it
// reaches the network.
type PortAttr struct {
	State       ib.PortState
	ActiveMTU   ib.MTU
	GIDTblLen   int
	PKeyTblLen  int
	Transport   string // "udp", "raw" or "pipe"
	Interface   string
	MaxSegments int  // packets that one system call's run may hold; 1 without GSO
	GRO         bool // arriving packets may be merged
	// Verification says how much of the ICRC is checked on IPv4; on IPv6 it is
	// always all. "full", or "derived-id" where the system hides the IPv4
	// identification, which the ICRC covers: 1 damaged packet in 65536 passes,
	// and on RC and UC 1 in 2^26 once the peer is known to number its segments
	// from 0, as these adapters do.
	Verification string
	RecvBuffer   int    // bytes
	SrcPort      uint16 // UDP source port, 0 if each path has its own
}

// QueryPort returns the attributes of the port, which is number 1.
func (c *Context) QueryPort() (PortAttr, error) {
	if !c.usable() {
		return PortAttr{}, ErrInvalidHCA
	}
	p := c.port.Caps()
	return PortAttr{
		State: ib.PortActive, ActiveMTU: c.hca.ActiveMTU(), GIDTblLen: c.hca.GIDs(), PKeyTblLen: len(c.hca.PKeys()),
		Transport: p.Name, Interface: p.Interface, MaxSegments: p.MaxSegments, GRO: p.GRO,
		Verification: p.Verify.String(), RecvBuffer: p.RecvBuffer, SrcPort: p.SrcPort,
	}, nil
}

// QueryGID returns an entry of the port's GID table, the zero GID if the index
// is past its end.
func (c *Context) QueryGID(index int) ib.GID {
	if !c.usable() {
		return ib.GID{}
	}
	return c.hca.GID(index)
}

// QueryPKey returns an entry of the port's P_Key table, 0 past its end.
func (c *Context) QueryPKey(index int) ib.PKey {
	if !c.usable() || index < 0 || index >= len(c.hca.PKeys()) {
		return 0
	}
	return c.hca.PKeys()[index]
}

// Counter is a named count.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Counters returns the adapter's counters, those of Linux's Soft-RoCE under
// their own names first. They only grow.
func (c *Context) Counters() ([]Counter, error) {
	var n counters.Set
	var m gsi.Counters
	var k cm.Counters
	err := c.do(func(clock.Instant) error {
		n, m, k = c.hca.Counters(), c.hca.GSI().Counters(), c.hca.CM().Counters()
		return nil
	})
	if err != nil {
		return nil, err
	}
	port := c.port.Stats()
	n.SendErr += port.SendErrors
	n.EventsLost = c.events.lostCount()
	var all []Counter
	add := func(name string, v uint64) { all = append(all, Counter{name, v}) }
	n.Each(add)
	m.Each(add)
	k.Each(add)
	return append(all, Counter{"port_truncated", port.Truncated}, Counter{"port_overflows", port.Overflows},
		Counter{"port_bad_checksums", port.BadChecksums}), nil
}

var _ io.Closer = (*Context)(nil)
