package devices

import (
	"errors"
	"fmt"
	"net"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/verbs"
)

// Device describes an adapter. If Error is set, it could not be opened and
// the rest is empty.
type Device struct {
	Name  string            `json:"name"` // network interface, or addresses
	Error string            `json:"error,omitempty"`
	Port  *Port             `json:"port,omitempty"`
	Attr  *verbs.DeviceAttr `json:"attr,omitempty"`
}

// Port describes the only port of an adapter.
type Port struct {
	State         string   `json:"state"`
	LinkLayer     string   `json:"link_layer"`
	Transport     string   `json:"transport"` // how packets reach the network
	Interface     string   `json:"interface,omitempty"`
	ActiveMTU     int      `json:"active_mtu"`      // bytes of payload
	GSOSegments   int      `json:"gso_segments"`    // packets in one call; 1 without GSO
	GRO           bool     `json:"gro"`             // arriving packets are merged
	Verification  string   `json:"icrc_ipv4"`       // "full" or "derived-id"; on IPv6 always full
	RecvBuffer    int      `json:"recv_buffer"`     // bytes
	SourceUDPPort uint16   `json:"source_udp_port"` // 0: each path has its own
	GIDs          []GID    `json:"gids"`
	PKeys         []uint16 `json:"pkeys"`
}

// GID is an entry of a GID table.
type GID struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`
	Addr  string `json:"addr"`
}

// Names returns what the adapters of this host can be opened on: the network
// interfaces that are up and have an IP address.
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

// Probe opens the adapter cfg under the name, describes it and closes it. The
// error is also in the result.
func Probe(name string, cfg verbs.Config) (Device, error) {
	hca, err := verbs.Open(cfg)
	if err != nil {
		return Device{Name: name, Error: err.Error()}, err
	}
	d := Device{Name: name}
	err = errors.Join(d.query(hca), hca.Close())
	if err != nil {
		return Device{Name: name, Error: err.Error()}, err
	}
	return d, nil
}

func (d *Device) query(hca *verbs.Context) error {
	attr, err := hca.QueryDevice()
	if err != nil {
		return err
	}
	p, err := hca.QueryPort()
	if err != nil {
		return err
	}
	d.Attr = &attr
	d.Port = &Port{
		State: p.State.String(), LinkLayer: "Ethernet", Transport: p.Transport, Interface: p.Interface,
		ActiveMTU: p.ActiveMTU.Bytes(), GSOSegments: p.MaxSegments, GRO: p.GRO, Verification: p.Verification,
		RecvBuffer: p.RecvBuffer, SourceUDPPort: p.SrcPort, GIDs: []GID{}, PKeys: []uint16{},
	}
	for i := range p.GIDTblLen {
		g := hca.QueryGID(i)
		d.Port.GIDs = append(d.Port.GIDs, GID{i, g.String(), g.Addr().String()})
	}
	for i := range p.PKeyTblLen {
		d.Port.PKeys = append(d.Port.PKeys, uint16(hca.QueryPKey(i)))
	}
	return nil
}
