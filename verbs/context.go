package verbs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/qp"
)

// errNetwork is returned for a Network that NewNetwork did not create: with it, an
// adapter would open sockets.
var errNetwork = fmt.Errorf("open adapter: the Network was not created by NewNetwork: %w", ib.EINVAL)

// Context is an open adapter.
type Context struct{ door }

// door gives package rdmacm access to the internal object.
type door = device.Door

var _ io.Closer = (*Context)(nil)

// Open opens an adapter. It fails with EADDRINUSE if another adapter has the
// address, with EADDRNOTAVAIL if the address is not one of this host, and with
// EINVAL for a mistake in the fault rules or a Network that NewNetwork did not
// create. The error says what to do.
func Open(cfg Config, opts ...Option) (*Context, error) {
	for _, o := range opts {
		o(&cfg)
	}
	if cfg.Network != nil && cfg.Network.pipe == nil {
		return nil, errNetwork
	}
	asked := cfg.device()
	asked.Check = asked.Check.Recorded(asked.Env.Check, asked.Env.CheckDir)
	d, err := device.Open(asked)
	if err != nil {
		return nil, err
	}
	c := &Context{device.DoorTo(d, nil)}
	c.logOpen(cfg.Log)
	return c, nil
}

// Description is what an adapter says about itself.
type Description struct {
	Device DeviceAttr
	Port   PortAttr
	GIDs   []GID
	PKeys  []PKey
}

// Describe returns the attributes of the adapter that Open opens with the same
// configuration. On Linux it does not open the UDP port, so it does not disturb an
// adapter on the same address. Errors: those of Open.
func Describe(cfg Config) (*Description, error) {
	if cfg.Network != nil && cfg.Network.pipe == nil {
		return nil, errNetwork
	}
	idle := cfg.device()
	idle.Idle = true
	d, err := device.Open(idle)
	if err != nil {
		return nil, err
	}
	c := &Context{device.DoorTo(d, nil)}
	is := new(Description)
	is.Device, err = c.QueryDevice()
	if err == nil {
		is.Port, err = c.QueryPort()
	}
	for i := range is.Port.GIDTblLen {
		is.GIDs = append(is.GIDs, c.QueryGID(i))
	}
	for i := range is.Port.PKeyTblLen {
		is.PKeys = append(is.PKeys, c.QueryPKey(i))
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	return is, nil
}

// dev returns the device; nil for a nil context, which calls treat as closed.
func (c *Context) dev() *device.Device {
	if c == nil {
		return nil
	}
	return device.Of(c)
}

// Close closes the adapter: its port is free again and every call on its
// objects fails with ENODEV. Posted requests are not completed. Received messages are
// acknowledged; a program that ends without Close may leave the last ones
// unacknowledged, because an acknowledgement waits briefly to be sent with the next
// request. Goroutines that sleep on a completion channel wake up. Close returns the
// error of writing Config.Capture, if there was one.
func (c *Context) Close() error {
	k := c.checks()
	if k == nil {
		return c.dev().Close()
	}
	k.Close()
	defer k.Tell()
	err := c.dev().Close()
	k.Closed()
	return err
}

// CaptureErr returns the first error of writing Config.Capture, after which
// nothing more was written; nil without a capture.
func (c *Context) CaptureErr() error { return c.dev().CaptureErr() }

// DeviceAttr describes an adapter, as ibv_query_device does.
type DeviceAttr struct {
	// NodeGUID is the same each time the adapter is opened on its addresses.
	NodeGUID GUID `json:"node_guid"`

	MaxQP         int    `json:"max_qp"`              // queue pairs
	MaxQPWR       uint32 `json:"max_qp_wr"`           // work requests of a queue
	MaxSGE        uint32 `json:"max_sge"`             // entries of a scatter list
	MaxInlineData uint32 `json:"max_inline_data"`     // bytes
	MaxCQ         int    `json:"max_cq"`              // completion queues
	MaxCQE        uint32 `json:"max_cqe"`             // entries of one
	MaxSRQ        int    `json:"max_srq"`             // shared receive queues
	MaxSRQWR      uint32 `json:"max_srq_wr"`          // work requests of one
	MaxMR         int    `json:"max_mr"`              // memory regions
	MaxMW         int    `json:"max_mw"`              // memory windows
	MaxPD         int    `json:"max_pd"`              // protection domains
	MaxAH         int    `json:"max_ah"`              // address handles
	MaxDMSize     uint64 `json:"max_dm_size"`         // bytes of device memory
	MaxRDD        int    `json:"max_rdd"`             // reliable datagram domains
	MaxEE         int    `json:"max_ee"`              // EE contexts
	MaxXRCD       int    `json:"max_xrcd"`            // XRC domains
	MaxQPRDAtom   uint8  `json:"max_qp_rd_atom"`      // as responder
	MaxQPInitRD   uint8  `json:"max_qp_init_rd_atom"` // as requester
	MaxMsgSize    uint64 `json:"max_msg_size"`        // bytes
	PhysPortCnt   uint8  `json:"phys_port_cnt"`       // ports

	MaxMcastGrp           int `json:"max_mcast_grp"`             // multicast groups
	MaxMcastQPAttach      int `json:"max_mcast_qp_attach"`       // QPs of a group
	MaxTotalMcastQPAttach int `json:"max_total_mcast_qp_attach"` // QPs of all groups

	ResizeQP         bool `json:"resize_qp"`          // the queues of a queue pair can be resized
	AutoPathMig      bool `json:"auto_path_mig"`      // automatic path migration
	ChangePhyPort    bool `json:"change_phy_port"`    // a queue pair can move to another port
	ReliableDatagram bool `json:"reliable_datagram"`  // service RD
	XRC              bool `json:"xrc"`                // extended reliable connections
	MemWindow        bool `json:"mem_window"`         // memory windows of type 1
	MemWindowType2B  bool `json:"mem_window_type_2b"` // memory windows of type 2, which check queue pair and protection domain
	MemMgtExtensions bool `json:"mem_mgt_extensions"` // LOCAL_INV, and SEND with invalidate
	ResizeSRQ        bool `json:"resize_srq"`         // shared receive queues can be resized
	Timestamps       bool `json:"timestamps"`         // completion queues can note when completions were made
	RateLimit        bool `json:"rate_limit"`         // a queue pair can have a rate limit
	AtomicWrite      bool `json:"atomic_write"`       // ATOMIC WRITE on RC
	FlushGlobal      bool `json:"flush_global"`       // FLUSH for global visibility on RC
	FlushPersistent  bool `json:"flush_persistent"`   // FLUSH for persistence; regions of mapped files can have the right

	MaxCQCount  int `json:"max_cq_count"`  // of Moderation: completions
	MaxCQPeriod int `json:"max_cq_period"` // of Moderation: microseconds
}

// QueryDevice returns the limits and capabilities of the adapter.
func (c *Context) QueryDevice() (DeviceAttr, error) {
	if !c.dev().Usable() {
		return DeviceAttr{}, ErrInvalidHCA
	}
	l := c.dev().HCA.Limits()
	return DeviceAttr{
		MaxQP: l.MaxQP, MaxQPWR: l.MaxQPWR, MaxSGE: l.MaxSGE, MaxInlineData: l.MaxInlineData,
		MaxCQ: l.MaxCQ, MaxCQE: l.MaxCQE, MaxSRQ: l.MaxSRQ, MaxSRQWR: l.MaxSRQWR,
		MaxMR: l.MaxMR, MaxMW: l.MaxMW, MaxPD: l.MaxPD, MaxAH: l.MaxAH, MaxDMSize: l.MaxDMSize,
		MaxRDD: l.MaxRDD, MaxEE: l.MaxEEC, MaxXRCD: l.MaxXRCD,
		MaxQPRDAtom: l.MaxRDAtomic, MaxQPInitRD: l.MaxRDAtomic, MaxMsgSize: qp.MaxMessage, PhysPortCnt: 1,
		MaxMcastGrp: l.MaxMcastGrp, MaxMcastQPAttach: l.MaxMcastQPAttach, MaxTotalMcastQPAttach: l.MaxTotalMcastQPAttach,
		MaxCQCount: qp.MaxModerationCount, MaxCQPeriod: int(qp.MaxModerationPeriod / time.Microsecond),
		AutoPathMig: true, ReliableDatagram: true, AtomicWrite: true, FlushGlobal: true, FlushPersistent: device.WritesBack,
		ResizeSRQ: true, Timestamps: true, RateLimit: true, XRC: true, MemWindow: true, MemWindowType2B: true, MemMgtExtensions: true,
		NodeGUID: GUID(c.dev().HCA.NodeGUID()),
	}, nil
}

// PortAttr describes the adapter's port, as ibv_query_port does, and how it
// reaches the network.
type PortAttr struct {
	State       PortState
	ActiveMTU   MTU
	GIDTblLen   int
	PKeyTblLen  int
	Transport   string // "udp", "raw" or "pipe"
	Interface   string
	MaxSegments int  // maximum number of packets in one system call; 1 without GSO
	GRO         bool // arriving packets may be merged
	// Verification says how much of the ICRC is checked over IPv4: "full", or
	// "derived-id" where the system hides the IPv4 identification, which the
	// ICRC covers. With "derived-id" 1 damaged packet in 65536 passes, and on RC
	// and UC 1 in 2^26 once the peer is known to number its segments from 0, as
	// these adapters do. Over IPv6 all of the ICRC is always checked.
	Verification string
	RecvBuffer   int    // bytes
	SrcPort      uint16 // UDP source port, 0 if each path has its own
}

// QueryPort returns the attributes of the port, which is number 1.
func (c *Context) QueryPort() (PortAttr, error) {
	if !c.dev().Usable() {
		return PortAttr{}, ErrInvalidHCA
	}
	p := c.dev().Port.Caps()
	state := ib.PortActive
	if c.dev().PortDown() {
		state = ib.PortDown
	}
	return PortAttr{
		State: state, ActiveMTU: c.dev().HCA.ActiveMTU(), GIDTblLen: c.dev().HCA.GIDs(), PKeyTblLen: len(c.dev().HCA.PKeys()),
		Transport: p.Name, Interface: p.Interface, MaxSegments: p.MaxSegments, GRO: p.GRO,
		Verification: p.Verify.String(), RecvBuffer: p.RecvBuffer, SrcPort: p.SrcPort,
	}, nil
}

// GIDIndex returns the index of the first GID that is not link-local, so that
// peers beyond the link can reach it; 0 if all are link-local.
func (c *Context) GIDIndex() int {
	var gids []GID
	for g := c.QueryGID(0); !g.IsZero(); g = c.QueryGID(len(gids)) {
		gids = append(gids, g)
	}
	return routable(gids)
}

// QueryGID returns an entry of the port's GID table, the zero GID if the index
// is past its end.
func (c *Context) QueryGID(index int) GID {
	if !c.dev().Usable() {
		return GID{}
	}
	return c.dev().HCA.GID(index)
}

// QueryPKey returns an entry of the port's P_Key table, 0 past its end.
func (c *Context) QueryPKey(index int) PKey {
	if !c.dev().Usable() || index < 0 || index >= len(c.dev().HCA.PKeys()) {
		return 0
	}
	return c.dev().HCA.PKeys()[index]
}

// Counter is a named count.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// Counters returns the adapter's counters, first those of Linux's Soft-RoCE under
// their Linux names. They never decrease, but for near_peers and near_memory_bytes: processes
// with which the adapter shares memory now (Config.Wire), and how much. It fails if the adapter is closed or has
// failed.
func (c *Context) Counters() (all []Counter, err error) {
	err = c.dev().EachCounter(func(name string, value uint64) { all = append(all, Counter{name, value}) })
	return all, err
}

// Resources are the numbers of objects that an adapter has, as "rdma resource"
// of Linux shows them.
type Resources struct {
	PDs  int `json:"pd"`  // protection domains
	CQs  int `json:"cq"`  // completion queues
	SRQs int `json:"srq"` // shared receive queues
	QPs  int `json:"qp"`  // queue pairs
	MRs  int `json:"mr"`  // memory regions
	MWs  int `json:"mw"`  // memory windows
	// CMIDs is the number of connections that the connection manager holds. A
	// connection may be in TIMEWAIT long after the last call for it.
	CMIDs int `json:"cm_id"`
}

// Resources counts the objects of the adapter. A count that grows shows objects that
// the program does not destroy.
func (c *Context) Resources() (r Resources, err error) {
	err = c.dev().Control(func(clock.Instant) error {
		n := c.dev().HCA.Resources()
		r = Resources{PDs: n.PDs, CQs: n.CQs, SRQs: n.SRQs, QPs: n.QPs, MRs: n.MRs, MWs: n.MWs, CMIDs: n.Conns}
		return nil
	})
	return r, err
}

// wrap adds the failed operation to an error. nil stays nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
