//go:build linux

package ucm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/verbs"
)

// where is the data about an ID that queries return: addresses, adapter and path.
type where struct {
	src, dst netip.AddrPort
	dev      *verbs.Context // nil before the ID has one
	guid     be64
	index    uint32 // of the device
	port     uint8
	route    *rdmacm.Route // nil before the ID has one
	service  func(port uint16) mad.ServiceID
}

func (f *File) where(n *node) (w where, err error) {
	w = where{
		src: n.id.LocalAddr(), dst: n.id.PeerAddr(), dev: n.id.Device(), port: n.id.Port(),
		service: func(port uint16) mad.ServiceID { return mad.IPServiceID(n.id.PortSpace(), port) },
	}
	route, ok := n.id.Route()
	f.m.mu.Lock()
	if ok {
		n.route = &route
	}
	w.route = n.route
	f.m.mu.Unlock()
	if w.dev == nil {
		return w, nil
	}
	attr, err := w.dev.QueryDevice()
	if err != nil {
		return w, err
	}
	w.index = f.m.devices[w.dev]
	binary.BigEndian.PutUint64(w.guid[:], uint64(attr.NodeGUID))
	return w, nil
}

// The values of a RoCE path, which needs no query to a subnet manager, in the codes of the IBA.
const (
	exactly     = 2  // a selector
	rate100Gbps = 16 // of the port, as in /sys
	anyPKey     = "\xff\xff"
)

func gidOf(a netip.AddrPort) ib.GID {
	if !a.IsValid() {
		return ib.GID{}
	}
	return ib.GIDFromAddr(a.Addr())
}

// paths returns the number of paths to the peer, and their data.
func (w *where) paths() (n uint32, p userPath) {
	p = userPath{DGID: gidOf(w.dst), SGID: gidOf(w.src), PKey: be16([]byte(anyPKey))}
	r := w.route
	if r == nil {
		return 0, p
	}
	p.Reversible, p.MTU, p.HopLimit, p.NumbPath = 1, uint32(r.MTU), r.HopLimit, 1
	binary.BigEndian.PutUint32(p.FlowLabel[:], r.FlowLabel)
	p.TrafficClass, p.SL = r.TrafficClass, r.SL
	p.MTUSelector, p.RateSelector, p.Rate = exactly, exactly, rate100Gbps
	p.PacketLifeTimeSelector, p.PacketLifeTime = exactly, cmp.Or(r.Lifetime, cm.DefaultLifetime)
	return 1, p
}

func (f *File) queryRoute(n *node, c *query, room int) (a answer, err error) {
	w, err := f.where(n)
	if err != nil {
		return a, err
	}
	r := queryRouteResp{NodeGUID: w.guid, Port: w.port, IBDevIndex: w.index}
	putSockaddr(r.Src[:], w.src)
	putSockaddr(r.Dst[:], w.dst)
	if w.dev != nil {
		r.NumPaths, r.Route[0] = w.paths()
	}
	a.at = c.Response
	a.bytes, err = encode(r, room, binary.Size(r)-indexedBefore)
	return a, err
}

func (f *File) query(n *node, c *query, room int) (a answer, err error) {
	w, err := f.where(n)
	if err != nil {
		return a, err
	}
	a.at = c.Response
	switch c.Option {
	case queryAddr:
		r := w.addrs(putSockaddr)
		a.bytes, err = encode(r, room, binary.Size(r)-indexedBefore)
	case queryPath:
		r := w.pathRecord()
		a.bytes, err = encode(r, room, binary.Size(r)-binary.Size(r.Path)-8)
	case queryGID:
		r := w.addrs(w.putGID)
		a.bytes, err = encode(r, room, binary.Size(r)-indexedBefore)
	default:
		err = fmt.Errorf("query %d: %w", c.Option, unix.ENOSYS)
	}
	return a, err
}

// addrs returns both addresses in the form that put writes.
func (w *where) addrs(put func([]byte, netip.AddrPort) uint16) queryAddrResp {
	r := queryAddrResp{NodeGUID: w.guid, Port: w.port, IBDevIndex: w.index}
	if w.dev != nil {
		r.PKey = be16([]byte(anyPKey))
	}
	r.SrcSize, r.DstSize = put(r.Src[:], w.src), put(r.Dst[:], w.dst)
	return r
}

// sizeIB is the size of an InfiniBand address, AF_IB.
const sizeIB = 48

// putGID writes an address as a GID and the service ID of its port.
func (w *where) putGID(b []byte, a netip.AddrPort) uint16 {
	binary.NativeEndian.PutUint16(b, unix.AF_IB)
	copy(b[2:], anyPKey)
	gid := gidOf(a)
	copy(b[8:], gid[:])
	binary.BigEndian.PutUint64(b[24:], uint64(w.service(a.Port())))
	binary.BigEndian.PutUint64(b[32:], ^uint64(0))
	return sizeIB
}

// pathRecord returns the path as a subnet manager's record.
func (w *where) pathRecord() queryPathResp {
	n, p := w.paths()
	return queryPathResp{NumPaths: n, Flags: pathFlags, Path: recordOf(&p)}
}
