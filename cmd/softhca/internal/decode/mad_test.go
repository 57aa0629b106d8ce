package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// message is what all CM messages of package mad can do.
type message interface {
	Decode(m *mad.MAD)
	Put(m *mad.MAD)
}

var messages = map[mad.AttrID]func() message{
	mad.AttrREQ: func() message { return new(mad.REQ) }, mad.AttrMRA: func() message { return new(mad.MRA) },
	mad.AttrREJ: func() message { return new(mad.REJ) }, mad.AttrREP: func() message { return new(mad.REP) },
	mad.AttrRTU: func() message { return new(mad.RTU) }, mad.AttrDREQ: func() message { return new(mad.DREQ) },
	mad.AttrDREP: func() message { return new(mad.DREP) }, mad.AttrSIDRREQ: func() message { return new(mad.SIDRREQ) },
	mad.AttrSIDRREP: func() message { return new(mad.SIDRREP) }, mad.AttrLAP: func() message { return new(mad.LAP) },
	mad.AttrAPR: func() message { return new(mad.APR) },
}

// madJSON returns the output for a datagram.
func madJSON(t *testing.T, m *mad.MAD) string {
	t.Helper()
	d := madOf(&roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QPNGSI}, Payload: m[:]})
	if d == nil {
		t.Fatal("the packet is taken for no MAD")
	}
	b, err := json.Marshal(d)
	must.Do(t, err)
	return string(b)
}

// TestC2_EveryBitIsTold changes each bit of each message: the output changes
// unless the bit is reserved.
func TestC2_EveryBitIsTold(t *testing.T) {
	for attr := mad.AttrREQ; attr <= mad.AttrAPR; attr++ {
		// All bits, so that the whole length of the additional information
		// counts and no service has addressing in its private data.
		base := mad.MAD(bytes.Repeat([]byte{0xff}, mad.Size))
		base.PutHeader(mad.CMHeader(attr, 1))
		put := func(m *mad.MAD) mad.MAD {
			v, again := messages[attr](), base
			v.Decode(m)
			v.Put(&again)
			again.PutHeader(m.Header())
			return again
		}
		before, told := put(&base), madJSON(t, &base)
		for bit := range mad.Size * 8 {
			m := base
			m[bit/8] ^= 0x80 >> (bit % 8)
			if h := m.Header(); h.IsCM() && put(&m) != before && madJSON(t, &m) == told {
				t.Errorf("%v: byte %d bit %d is not told", attr, bit/8, bit%8)
			}
		}
	}
}

// TestC2_NoMessage shows the header of a datagram that is no CM message.
func TestC2_NoMessage(t *testing.T) {
	var m mad.MAD
	m.PutHeader(mad.Header{BaseVersion: 1, Class: mad.ClassCM, ClassVersion: 2, Method: mad.MethodGetResp, Status: mad.StatusUnsupportedAttribute, TID: 5, AttrID: mad.AttrClassPortInfo})
	want := `{"base_version":1,"class":7,"class_name":"CM","class_version":2,"method":129,"method_name":"GetResp","status":12,"class_specific":0,"tid":"0x5","attr_id":1,"attr_mod":0}`
	if got := madJSON(t, &m); got != want {
		t.Errorf("told is\n%s, want\n%s", got, want)
	}
	for why, p := range map[string]*roce.Packet{
		"another queue pair":  {BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: 2}, Payload: m[:]},
		"too short":           {BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QPNGSI}, Payload: m[:252]},
		"a connected service": {BTH: roce.BTH{Opcode: roce.RCSendOnly, DestQP: ib.QPNGSI}, Payload: m[:]},
	} {
		if d := madOf(p); d != nil {
			t.Errorf("%s: taken for a MAD: %+v", why, d)
		}
	}
}

// TestC11_Addressing shows which private data has an IP header.
func TestC11_Addressing(t *testing.T) {
	for _, c := range []struct {
		service mad.ServiceID
		version byte
		has     bool
	}{
		{mad.IPServiceID(mad.PSTCP, 1), 0x40, true}, {mad.IPServiceID(mad.PSUDP, 1), 0x60, true},
		{mad.IPServiceID(mad.PSTCP, 1), 0x50, false}, {mad.IPServiceID(mad.PSIB, 1), 0x40, false}, {0x0200000000000001, 0x40, false},
	} {
		ip, rest := ipOf(c.service, append([]byte{0, c.version}, make([]byte, 90)...))
		if size := fmt.Sprint(len(rest)); (ip != nil) != c.has || (size == "56") != c.has {
			t.Errorf("service %v with IP version %#x: %v, %s bytes left", c.service, c.version, ip, size)
		}
	}
}
