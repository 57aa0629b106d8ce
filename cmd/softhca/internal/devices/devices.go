package devices

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/softhca/softhca/cmd/softhca/internal/text"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/verbs"
)

// Device describes an adapter. If Error is set, it cannot be opened, and Port and
// Attr are nil.
type Device struct {
	Name  string            `json:"name"`            // network interface, or addresses
	Error string            `json:"error,omitempty"` // why it cannot be opened
	Port  *Port             `json:"port,omitempty"`  // its only one
	Attr  *verbs.DeviceAttr `json:"attr,omitempty"`  // its limits and abilities
	Share *Share            `json:"share,omitempty"` // processes that share the adapter's address; missing if there are none
}

// Share says which processes have the adapter open that share its address. This
// process is not among them.
type Share struct {
	Slots     int             `json:"slots"`          // maximum number of processes
	Processes []broker.Member `json:"processes"`      // processes that have the adapter open
	Near      []Near          `json:"near,omitempty"` // those of them that use shared memory
}

// Near describes a process that uses shared memory to others of this host (--wire auto).
type Near struct {
	Slot  uint8 `json:"slot"`  // its slot on the address
	Peers int   `json:"peers"` // processes that it shares memory with now
	Max   int   `json:"max"`   // maximum number of them
}

// Port describes the only port of an adapter.
type Port struct {
	State         string   `json:"state"`                 // ACTIVE or DOWN
	LinkLayer     string   `json:"link_layer"`            // Ethernet
	Transport     string   `json:"transport"`             // how packets reach the network
	Wire          string   `json:"wire"`                  // how they reach other adapters of this user on this host: udp, or auto (shared memory)
	WireReason    string   `json:"wire_reason,omitempty"` // why that is udp although auto was asked for
	Interface     string   `json:"interface,omitempty"`   // of the network
	ActiveMTU     int      `json:"active_mtu"`            // bytes of payload
	GSOSegments   int      `json:"gso_segments"`          // packets in one call; 1 without GSO
	GRO           bool     `json:"gro"`                   // arriving packets are merged
	Verification  string   `json:"icrc_ipv4"`             // "full" or "derived-id"; on IPv6 always full
	RecvBuffer    int      `json:"recv_buffer"`           // bytes
	SourceUDPPort uint16   `json:"source_udp_port"`       // 0: each path has its own
	GIDs          []GID    `json:"gids"`                  // the GID table
	PKeys         []uint16 `json:"pkeys"`                 // the P_Key table
}

// GID is an entry of a GID table.
type GID struct {
	Index int    `json:"index"` // in the table
	GID   string `json:"gid"`   // the entry
	Addr  string `json:"addr"`  // the IP address of the GID
}

// Names returns the network interfaces that are up and have an IP address: adapters
// can open on them.
func Names() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var names []string
	for _, ifc := range all {
		if addrs, err := ifc.Addrs(); err == nil && len(addrs) > 0 && ifc.Flags&net.FlagUp != 0 {
			names = append(names, ifc.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no network interface is up: %w", ib.ENODEV)
	}
	return names, nil
}

// Probe describes the adapter cfg under the name, and the processes that have it. The
// error is also in the result.
func Probe(name string, cfg verbs.Config) (Device, error) {
	d := Device{Name: printable.Line(name, printable.Limit)}
	err := d.ask(cfg)
	if err != nil {
		d.Error = printable.Line(err.Error(), 0)
	}
	return d, err
}

// ask fills in the description of the adapter cfg.
func (d *Device) ask(cfg verbs.Config) (err error) {
	if cfg.Network == nil && cfg.Transport == verbs.UDP {
		if d.Share, err = sharing(cfg.Addr); err != nil {
			return err
		}
	}
	is, err := verbs.Describe(cfg)
	if err != nil {
		return err
	}
	d.describe(is)
	d.Port.wire(cfg)
	return nil
}

// wire fills in how packets reach adapters of this host.
func (p *Port) wire(cfg verbs.Config) {
	c := device.Config{Addr: cfg.Addr, Raw: cfg.Transport == verbs.Raw, Wire: device.Wire(cfg.Wire), Env: device.ProcessEnvironment()}
	w, why := device.WireOf(c)
	if cfg.Network != nil {
		w, why = device.WireUDP, nil
	}
	p.Wire = verbs.Wire(w).String()
	if why != nil {
		p.WireReason = printable.Line(why.Error(), 0)
	}
}

// sharing returns the processes on an adapter's address, or nil if there are none with
// which this user could share it.
func sharing(addr string) (*Share, error) {
	env := device.ProcessEnvironment()
	who, err := device.Identify(device.Config{Addr: addr, Env: env})
	if err != nil {
		return nil, nil // the description has the error
	}
	_, slots, all, err := broker.Who(who.Addrs[0], env.Secret())
	if errors.Is(err, broker.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Share{Slots: slots, Processes: shown(all), Near: near(who.Addrs[0], all, env.Secret())}, nil
}

// near asks processes on an address whether they use shared memory. A stopped process delays the answer.
func near(a netip.Addr, all []broker.Member, secret *identity.Secret) (found []Near) {
	answers := make([]*Near, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		asked.Go(func() {
			if n, ok := device.AskNear(secret, a, m.Slot); ok {
				answers[i] = &Near{m.Slot, n, device.NearLimit}
			}
		})
	}
	asked.Wait()
	for _, n := range answers {
		if n != nil {
			found = append(found, *n)
		}
	}
	return found
}

// shown returns processes with names that are safe to print: a process chooses its name.
func shown(all []broker.Member) []broker.Member {
	list := append([]broker.Member{}, all...)
	for i := range list {
		list[i].Program = printable.Line(list[i].Program, printable.Limit)
	}
	return list
}

// describe fills in the adapter's own description.
func (d *Device) describe(is *verbs.Description) {
	p := &is.Port
	d.Attr = &is.Device
	d.Port = &Port{
		State: p.State.String(), LinkLayer: "Ethernet", Transport: p.Transport, Interface: p.Interface,
		ActiveMTU: p.ActiveMTU.Bytes(), GSOSegments: p.MaxSegments, GRO: p.GRO, Verification: p.Verification,
		RecvBuffer: p.RecvBuffer, SourceUDPPort: p.SrcPort, GIDs: []GID{}, PKeys: []uint16{},
	}
	for i, g := range is.GIDs {
		d.Port.GIDs = append(d.Port.GIDs, GID{i, g.String(), g.Addr().String()})
	}
	for _, k := range is.PKeys {
		d.Port.PKeys = append(d.Port.PKeys, uint16(k))
	}
}

// Text prints the devices for people; verbose: with their abilities.
func Text(w io.Writer, devices []Device, verbose bool) error {
	var b strings.Builder
	for i := range devices {
		if i > 0 {
			b.WriteByte('\n')
		}
		devices[i].text(&b, verbose)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d *Device) text(b *strings.Builder, verbose bool) {
	fmt.Fprintf(b, "hca_id: %s\n", d.Name)
	if d.Error != "" {
		fmt.Fprintf(b, "    not usable: %s\n", d.Error)
		d.Share.text(b)
		return
	}
	d.Share.text(b)
	a, p := d.Attr, d.Port
	line := func(indent int, name, format string, args ...any) {
		fmt.Fprintf(b, "%*s%-*s %s\n", indent, "", 30-indent, name+":", fmt.Sprintf(format, args...))
	}
	line(4, "transport", "RoCEv2 (UDP port 4791)")
	line(4, "node_guid", "%v", a.NodeGUID)
	line(4, "max_qp", "%d", a.MaxQP)
	line(4, "max_qp_wr", "%d", a.MaxQPWR)
	line(4, "max_sge", "%d", a.MaxSGE)
	line(4, "max_inline_data", "%d bytes", a.MaxInlineData)
	line(4, "max_cq, max_cqe", "%d, %d", a.MaxCQ, a.MaxCQE)
	line(4, "max_srq, max_srq_wr", "%d, %d", a.MaxSRQ, a.MaxSRQWR)
	line(4, "max_mr, max_mw", "%d, %d", a.MaxMR, a.MaxMW)
	line(4, "max_pd, max_ah", "%d, %d", a.MaxPD, a.MaxAH)
	line(4, "max_dm_size", "%d bytes", a.MaxDMSize)
	line(4, "max_mcast_grp, qp_attach", "%d, %d", a.MaxMcastGrp, a.MaxMcastQPAttach)
	line(4, "max_qp_rd_atom", "%d", a.MaxQPRDAtom)
	line(4, "max_msg_size", "%d bytes", a.MaxMsgSize)
	line(4, "phys_port_cnt", "%d", a.PhysPortCnt)
	if verbose {
		abilities(a, line)
	}
	fmt.Fprintf(b, "    port: 1\n")
	line(8, "state", "%s", p.State)
	line(8, "active_mtu", "%d", p.ActiveMTU)
	line(8, "link_layer", "%s", p.LinkLayer)
	line(8, "port kind", "%s%s", p.Transport, on(p.Interface))
	if verbose {
		line(8, "to this host", "%s", p.toThisHost())
	}
	line(8, "GSO", "%s", gso(p.GSOSegments))
	line(8, "GRO", "%s", text.Yes(p.GRO))
	line(8, "ICRC check", "%s", verification(p.Verification))
	if p.RecvBuffer > 0 {
		line(8, "receive buffer", "%d KiB", p.RecvBuffer>>10)
	}
	if p.SourceUDPPort == 0 {
		line(8, "UDP source port", "each path has its own")
	} else {
		line(8, "UDP source port", "%d", p.SourceUDPPort)
	}
	for _, g := range p.GIDs {
		line(8, fmt.Sprintf("GID[%3d]", g.Index), "%s, %s", g.GID, g.Addr)
	}
	for i, k := range p.PKeys {
		line(8, fmt.Sprintf("PKey[%2d]", i), "%#04x", k)
	}
}

// abilities prints what ibv_devinfo -v shows of an adapter's abilities.
func abilities(a *verbs.DeviceAttr, line func(indent int, name, format string, args ...any)) {
	line(4, "max_mcast, all attached", "%d", a.MaxTotalMcastQPAttach)
	line(4, "max_qp_init_rd_atom", "%d", a.MaxQPInitRD)
	line(4, "max_rdd, max_ee", "%d, %d", a.MaxRDD, a.MaxEE)
	line(4, "max_xrcd", "%d", a.MaxXRCD)
	line(4, "CQ moderation", "up to %d completions, %d µs", a.MaxCQCount, a.MaxCQPeriod)
	for _, can := range []struct {
		name string
		yes  bool
	}{
		{"completion timestamps", a.Timestamps}, {"automatic path migration", a.AutoPathMig}, {"reliable datagrams", a.ReliableDatagram},
		{"XRC", a.XRC}, {"memory windows, type 1", a.MemWindow}, {"memory windows, type 2B", a.MemWindowType2B},
		{"LOCAL_INV, SEND_WITH_INV", a.MemMgtExtensions}, {"ATOMIC WRITE", a.AtomicWrite},
		{"FLUSH, global", a.FlushGlobal}, {"FLUSH, persistent", a.FlushPersistent},
		{"rate limit of a QP", a.RateLimit}, {"resize of an SRQ", a.ResizeSRQ}, {"resize of a QP", a.ResizeQP}, {"change of the port", a.ChangePhyPort},
	} {
		line(4, can.name, "%s", text.Yes(can.yes))
	}
}

func (s *Share) text(b *strings.Builder) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "    open in %s, of at most %d\n", text.Count(len(s.Processes), "process", "processes"), s.Slots)
	for _, m := range s.Processes {
		fmt.Fprintf(b, "        slot %3d: %s (process %d), listens on %s%s\n", m.Slot, strconv.Quote(m.Program), m.PID, text.Count(m.Services, "service", "services"), s.nearText(m.Slot))
	}
}

// toThisHost explains how packets reach other adapters of this host.
func (p *Port) toThisHost() string {
	switch {
	case p.Wire == verbs.WireAuto.String():
		return "shared memory with processes of this user that use it, others as to other hosts"
	case p.WireReason != "":
		return "as to other hosts, although --wire is auto: " + p.WireReason
	}
	return "as to other hosts (see --wire)"
}

// nearText tells how a process reaches others of this host.
func (s *Share) nearText(slot uint8) string {
	i := slices.IndexFunc(s.Near, func(n Near) bool { return n.Slot == slot })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(", shares memory with %s, of at most %d", text.Count(s.Near[i].Peers, "process", "processes"), s.Near[i].Max)
}

func on(ifc string) string {
	if ifc == "" {
		return ""
	}
	return " on " + ifc
}

func gso(segments int) string {
	if segments <= 1 {
		return "no"
	}
	return fmt.Sprintf("up to %d packets in one call", segments)
}

// verification explains how much of the ICRC the port can check.
func verification(kind string) string {
	if kind == "derived-id" {
		return "derived-id on IPv4: 1 damaged packet in 65536 passes (RC and UC from a peer like this one: 1 in 2^26), full on IPv6"
	}
	return kind
}
