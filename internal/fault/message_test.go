package fault

import (
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// datagram returns a packet to QP1.
func datagram(h mad.Header) roce.Packet {
	var m mad.MAD
	m.PutHeader(h)
	return roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QPNGSI}, Payload: m[:]}
}

func message(a mad.AttrID) roce.Packet { return datagram(mad.CMHeader(a, 1)) }

// send sends packets in one run through the faults, and returns the names of
// those that arrive.
func (x *bench) send(packets ...roce.Packet) string {
	x.t.Helper()
	path := fabric.Path{Src: x.src, Dst: x.dst, SrcPort: 0xc000, HopLimit: 64}
	for i := range packets {
		p := &packets[i]
		size := roce.Size(p.BTH.Opcode, len(p.Payload))
		seg, id := x.batch.Append(&path, size)
		if seg == nil {
			x.t.Fatal("the batch is full")
		}
		p.Build(seg)
		roce.Seal(seg, roce.NewPrefix(path.Src, path.Dst, path.SrcPort, fabric.RoCEPort, size).WithID(uint16(id)))
	}
	must.Do(x.t, x.port.Send(x.batch))
	var names []string
	ds := make([]fabric.Datagram, 32)
	n, err := x.far.Receive(ds)
	must.Do(x.t, err)
	for i := range ds[:n] {
		names = append(names, x.names(&ds[i])...)
	}
	return strings.Join(names, " ")
}

func (x *bench) names(d *fabric.Datagram) (names []string) {
	for off, k := 0, 0; off < len(d.Bytes); k++ {
		var seg []byte
		seg, off = d.Segment(off)
		var p roce.Packet
		if p.Parse(seg) != roce.FaultNone || !roce.Check(seg, roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(seg)).WithID(d.ID+uint16(k))) {
			x.t.Fatalf("packet %d is damaged: % x", k, seg)
		}
		if len(p.Payload) == mad.Size {
			names = append(names, (*mad.MAD)(p.Payload).Header().AttrID.String())
		} else {
			names = append(names, p.BTH.Opcode.String())
		}
	}
	return names
}

// TestMessages chooses packets by the CM message in them.
func TestMessages(t *testing.T) {
	all := make([]roce.Packet, 0, 13)
	for a := mad.AttrREQ; a <= mad.AttrAPR; a++ {
		all = append(all, message(a))
	}
	all = append(all, message(mad.AttrREP), roce.Packet{BTH: roce.BTH{Opcode: roce.RCAcknowledge, DestQP: 9}})
	for rule, want := range map[string]string{
		"drop op=CM":                "RC_ACKNOWLEDGE",
		"drop op=CM,ACK":            "",
		"drop op=REP":               "REQ MRA REJ RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR RC_ACKNOWLEDGE",
		"drop op=REP nth=1":         "REQ MRA REJ RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR REP RC_ACKNOWLEDGE",
		"drop op=REP nth=2 dir=out": "REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR RC_ACKNOWLEDGE",
		"drop op=REP dir=in":        "REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR REP RC_ACKNOWLEDGE",
		"drop op=SIDR,NAK,REQ,REJ":  "MRA REP RTU DREQ DREP LAP APR REP RC_ACKNOWLEDGE",
		"drop op=SIDR_REQ":          "REQ MRA REJ REP RTU DREQ DREP SIDR_REP LAP APR REP RC_ACKNOWLEDGE",
		"drop op=LAP,APR,MRA,RTU":   "REQ REJ REP DREQ DREP SIDR_REQ SIDR_REP REP RC_ACKNOWLEDGE",
		"drop op=DREQ,DREP,ACK":     "REQ MRA REJ REP RTU SIDR_REQ SIDR_REP LAP APR REP",
		"drop op=REP qpn=2":         "REQ MRA REJ REP RTU DREQ DREP SIDR_REQ SIDR_REP LAP APR REP RC_ACKNOWLEDGE",
		"drop op=UD_SEND_ONLY":      "RC_ACKNOWLEDGE",
		"dup op=DREP":               "REQ MRA REJ REP RTU DREQ DREP DREP SIDR_REQ SIDR_REP LAP APR REP RC_ACKNOWLEDGE",
		// The attribute is bytes 36 and 37: a DREQ becomes a DREP.
		"corrupt byte=37 xor=3 reseal op=DREQ": "REQ MRA REJ REP RTU DREP DREP SIDR_REQ SIDR_REP LAP APR REP RC_ACKNOWLEDGE",
	} {
		if got := newBench(t, rule, false).send(all...); got != want {
			t.Errorf("%s: what arrives is %s, want %s", rule, got, want)
		}
	}
}

// TestNoMessages shows datagrams that are no message.
func TestNoMessages(t *testing.T) {
	elsewhere, short, long, connected := message(mad.AttrREP), message(mad.AttrREP), message(mad.AttrREP), message(mad.AttrREP)
	elsewhere.BTH.DestQP = 2
	short.Payload = short.Payload[:mad.Size-4]
	long.Payload = append(long.Payload, 0, 0, 0, 0)
	connected.BTH.Opcode = roce.RCSendOnly
	version, class, method, below, above := mad.CMHeader(mad.AttrREP, 1), mad.CMHeader(mad.AttrREP, 1), mad.CMHeader(mad.AttrREP, 1),
		mad.CMHeader(mad.AttrREQ-1, 1), mad.CMHeader(mad.AttrAPR+1, 1)
	version.ClassVersion, class.Class, method.Method = 1, mad.ClassSA, mad.MethodGet
	for why, p := range map[string]roce.Packet{
		"another queue pair": elsewhere, "too short": short, "too long": long, "a connected service": connected,
		"another version": datagram(version), "another class": datagram(class), "another method": datagram(method),
		"an attribute below": datagram(below), "an attribute above": datagram(above),
	} {
		if got := newBench(t, "drop op=CM", false).send(p); got == "" {
			t.Errorf("%s: taken for a CM message", why)
		}
	}
}
