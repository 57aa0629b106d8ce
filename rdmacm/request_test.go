package rdmacm

import (
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// FuzzRequest parses requests of arbitrary bytes: an accepted request has addresses of
// one family, a service, and private data of its full length.
func FuzzRequest(f *testing.F) {
	var m mad.MAD
	req := mad.REQ{ServiceID: mad.IPServiceID(TCP, 7471)}
	req.Put(&m)
	f.Add(m[:], true)
	h := mad.IPHeader{SrcPort: 1, SrcAddr: ib.GID{15: 1}.Addr(), DstAddr: ib.GID{15: 2}.Addr()}
	h.Put((*[mad.IPHeaderSize]byte)(req.PrivateData[:]))
	req.Put(&m)
	f.Add(m[:], true)
	sidr := mad.SIDRREQ{ServiceID: mad.IPServiceID(UDP, 7174)}
	h.Put((*[mad.IPHeaderSize]byte)(sidr.PrivateData[:]))
	sidr.Put(&m)
	f.Add(m[:], false)
	f.Fuzz(func(t *testing.T, b []byte, connected bool) {
		var m mad.MAD
		copy(m[:], b)
		e := &cm.Event{Type: cm.SIDRREQReceived, SIDRREQ: &mad.SIDRREQ{}}
		e.SIDRREQ.Decode(&m)
		if connected {
			e = &cm.Event{Type: cm.REQReceived, REQ: &mad.REQ{}}
			e.REQ.Decode(&m)
		}
		r, ok := parseRequest(e)
		if !ok {
			return
		}
		if !r.head.SrcAddr.IsValid() || !r.head.DstAddr.IsValid() {
			t.Errorf("accepted without addresses: %+v", r.head)
		}
		switch data, ud := r.event.Param.PrivateData, r.event.UD.PrivateData; {
		case connected && (len(data) != reqData || r.typ == ib.UD):
			t.Errorf("%d bytes of private data, service %v", len(data), r.typ)
		case !connected && (len(ud) != sidrREQData || r.typ != ib.UD):
			t.Errorf("%d bytes of private data, service %v", len(ud), r.typ)
		}
	})
}
