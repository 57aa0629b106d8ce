//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/rdmacm"
)

// The purposes of a path: management datagrams, data, both directions. The kernel only accepts
// paths that have all of them.
const (
	pathGMP     = 1
	pathPrimary = 1 << 1
	pathBoth    = 1<<3 | 1<<5

	pathFlags = pathGMP | pathPrimary | pathBoth
)

// pathRecord is a path record of InfiniBand's subnet administration. A selector has two bits,
// followed by a value of six bits.
type pathRecord [64]byte

func recordOf(p *userPath) (b pathRecord) {
	copy(b[8:], p.DGID[:])
	copy(b[24:], p.SGID[:])
	// after the LIDs, which RoCE does not have
	binary.BigEndian.PutUint32(b[44:], binary.BigEndian.Uint32(p.FlowLabel[:])<<8|uint32(p.HopLimit))
	b[48], b[49] = p.TrafficClass, 1<<7|p.NumbPath
	copy(b[50:], p.PKey[:])
	b[53] = p.SL
	b[54], b[55], b[56] = exactly<<6|uint8(p.MTU), exactly<<6|p.Rate, exactly<<6|p.PacketLifeTime
	return b
}

// ends returns the source and the destination of a path.
func (b *pathRecord) ends() (dst, src ib.GID) { return ib.GID(b[8:24]), ib.GID(b[24:40]) }

func (b *pathRecord) route() rdmacm.Route {
	const sixBits = 1<<6 - 1
	label := binary.BigEndian.Uint32(b[44:])
	return rdmacm.Route{
		FlowLabel: label >> 8 & 0xfffff, HopLimit: uint8(label), TrafficClass: b[48], SL: b[53] & 0xf,
		MTU: ib.MTU(b[54] & sixBits), Lifetime: b[56] & sixBits,
	}
}

// pathData is struct ibv_path_data.
type pathData struct {
	Flags uint32
	_     uint32
	Path  pathRecord
}

// setPath gives an ID the first path that has all purposes: that is its route.
func (n *node) setPath(v []byte) error {
	const size = 72
	if len(v)%size != 0 {
		return fmt.Errorf("%d bytes of paths of %d each: %w", len(v), size, ib.EINVAL)
	}
	for ; len(v) > 0; v = v[size:] {
		var d pathData
		if _, err := binary.Decode(v, binary.NativeEndian, &d); err != nil {
			return err
		}
		if d.Flags != pathFlags {
			continue
		}
		if n.id.Device() == nil {
			return fmt.Errorf("a path for an ID without an adapter: %w", ib.EINVAL)
		}
		dst, src := d.Path.ends()
		if dst != gidOf(n.id.PeerAddr()) || src != gidOf(n.id.LocalAddr()) {
			return fmt.Errorf("the path from %v to %v does not match the addresses of the ID: %w", src, dst, ib.EINVAL)
		}
		return n.id.SetRoute(d.Path.route())
	}
	return fmt.Errorf("no path for both directions: %w", ib.EINVAL)
}
