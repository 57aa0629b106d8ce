package storm

import (
	"bytes"
	"encoding/binary"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/mad"
)

// room is the size of the private data of each message in bytes.
var room = map[mad.AttrID]int{
	mad.AttrREQ: mad.REQPrivateData, mad.AttrMRA: mad.MRAPrivateData, mad.AttrREJ: mad.REJPrivateData, mad.AttrREP: mad.REPPrivateData,
	mad.AttrRTU: mad.RTUPrivateData, mad.AttrDREQ: mad.DREQPrivateData, mad.AttrDREP: mad.DREPPrivateData,
	mad.AttrSIDRREQ: mad.SIDRREQPrivateData, mad.AttrSIDRREP: mad.SIDRREPPrivateData,
	mad.AttrLAP: mad.LAPPrivateData, mad.AttrAPR: mad.APRPrivateData,
}

// titleLen is the size of the title of private data: the number of the side,
// the try, the message and the number of following bytes.
const titleLen = 8 + 4 + 1 + 1

// say returns private data of random length for a message of a side.
func (p *program) say(what mad.AttrID) []byte {
	p.lastTry[what] = p.try
	return script(title{p.id, p.try, what}, p.rand.IntN(room[what]-titleLen+1))
}

// title identifies the source of private data.
type title struct {
	id   uint64
	try  uint32
	what mad.AttrID
}

// script returns private data with n bytes after its title. All bytes after the
// title are derived from it.
func script(t title, n int) []byte {
	b := make([]byte, titleLen+n)
	binary.BigEndian.PutUint64(b, t.id)
	binary.BigEndian.PutUint32(b[8:], t.try)
	b[12], b[13] = byte(t.what), byte(n)
	for i := range n {
		b[titleLen+i] = byte(t.id>>sideBits)*31 + byte(t.id)*17 + byte(t.try)*7 + byte(t.what)*3 + byte(i) | 1
	}
	return b
}

// parse parses the whole private data field of a message. It reports whether
// the field is empty, and ok is false for data that no program gave.
func parse(b []byte) (t title, empty, ok bool) {
	t = title{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), mad.AttrID(b[12])}
	n := int(b[13])
	if t == (title{}) && n == 0 {
		return t, true, zero(b)
	}
	if n > len(b)-titleLen || string(script(t, n)) != string(b[:titleLen+n]) {
		return t, false, false
	}
	return t, false, zero(b[titleLen+n:])
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// privateData returns the private data of an event's message.
func privateData(e *cm.Event) (what mad.AttrID, data []byte) {
	switch {
	case e.REQ != nil:
		return mad.AttrREQ, e.REQ.PrivateData[:]
	case e.MRA != nil:
		return mad.AttrMRA, e.MRA.PrivateData[:]
	case e.REJ != nil:
		return mad.AttrREJ, e.REJ.PrivateData[:]
	case e.REP != nil:
		return mad.AttrREP, e.REP.PrivateData[:]
	case e.RTU != nil:
		return mad.AttrRTU, e.RTU.PrivateData[:]
	case e.DREQ != nil:
		return mad.AttrDREQ, e.DREQ.PrivateData[:]
	case e.DREP != nil:
		return mad.AttrDREP, e.DREP.PrivateData[:]
	case e.SIDRREQ != nil:
		return mad.AttrSIDRREQ, e.SIDRREQ.PrivateData[:]
	case e.SIDRREP != nil:
		return mad.AttrSIDRREP, e.SIDRREP.PrivateData[:]
	case e.LAP != nil:
		return mad.AttrLAP, e.LAP.PrivateData[:]
	case e.APR != nil:
		return mad.AttrAPR, e.APR.PrivateData[:]
	}
	return 0, nil
}

// speaker returns the side whose private data an event carries, nil for none:
// messages that the manager sends by itself have none. Changed private data, or
// data that its side never gave, is a violation.
func (w *world) speaker(h *host, e *cm.Event) (s *side, try uint32) {
	what, data := privateData(e)
	if data == nil {
		return nil, 0
	}
	t, empty, ok := parse(data)
	if ok && empty {
		return nil, 0
	}
	s = w.sides[t.id]
	if !ok || s == nil || t.what != what || s.program.lastTry[what] < t.try || t.try == 0 {
		w.Fail("private data", "adapter %d: %v brings private data that was never given: % x", h.Index, e.Type, data)
		return nil, 0
	}
	return s, t.try
}
