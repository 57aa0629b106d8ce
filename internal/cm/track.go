package cm

import (
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/mad"
)

// tracked is the row of a connection in the adapter's table of objects, if there is a table.
type tracked = restrack.Handle[restrack.CMIDInfo, restrack.NoCounts]

// qpTypes are the queue pairs of the transport services.
var qpTypes = [...]ib.QPType{mad.TransportRC: ib.RC, mad.TransportUC: ib.UC, mad.TransportRD: ib.RD}

// report writes what the table says about a connection that the manager knows.
func report(c *Conn) {
	if c.m.cfg.Table == nil {
		return
	}
	i := restrack.CMIDInfo{
		Num: c.localID, RemoteID: c.remoteID, State: uint8(c.state), QPN: uint32(c.ep.localQPN), RemoteQPN: uint32(c.ep.remoteQPN),
		ServiceID: uint64(c.service), Local: restrack.Addr(c.path.Local), Remote: restrack.Addr(c.to.Remote), Type: uint8(ib.UD),
	}
	if t := int(c.ep.transport); c.state < SIDRReqSent && t < len(qpTypes) {
		i.Type = uint8(qpTypes[t])
	}
	if _, port, ok := c.service.IP(); ok {
		if c.role == Passive {
			i.LocalPort, i.RemotePort = port, c.srcPort
		} else {
			i.LocalPort, i.RemotePort = c.srcPort, port
		}
	}
	if c.track.Row == nil {
		c.track = restrack.Add[restrack.CMIDInfo, restrack.NoCounts](c.m.cfg.Table, restrack.KindCMID, &i)
		return
	}
	c.track.Set(&i)
}

// learnPort stores the source port in the private data of the request of a connection, after its
// service.
func learnPort(c *Conn, data []byte) {
	if h, ok := c.service.IPHeader(data); ok {
		c.srcPort = h.SrcPort
	}
}

// report gives a listener its row.
func (l *Listener) report() {
	t := l.m.cfg.Table
	if t == nil {
		return
	}
	l.m.tracked++
	i := restrack.CMIDInfo{Num: l.m.tracked, Listener: 1, State: uint8(Listen), ServiceID: uint64(l.service), Type: uint8(ib.RC)}
	if l.RD {
		i.Type = uint8(ib.RD)
	}
	if len(l.m.cfg.Addrs) > 0 {
		i.Local = restrack.Addr(l.m.cfg.Addrs[0])
	}
	if ps, port, ok := l.service.IP(); ok {
		i.LocalPort = port
		if ps == mad.PSUDP {
			i.Type = uint8(ib.UD)
		}
	}
	l.track = restrack.Add[restrack.CMIDInfo, restrack.NoCounts](t, restrack.KindCMID, &i)
}
