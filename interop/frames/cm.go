package frames

import "encoding/binary"

// Message is a message of the connection manager: the attribute ID of its MAD.
type Message uint16

// The messages that cases look for.
const (
	REQ     Message = 0x10
	MRA     Message = 0x11
	REJ     Message = 0x12
	REP     Message = 0x13
	RTU     Message = 0x14
	DREQ    Message = 0x15
	DREP    Message = 0x16
	SIDRREQ Message = 0x17
)

const (
	udSendOnly    = 0x64
	udSendOnlyImm = 0x65
	madAt         = bthLen + 8 // after the DETH
	madLen        = 256
	classAt       = madAt + 1
	attrAt        = madAt + 16
	idsAt         = madAt + 24 // communication IDs: local and, except in a REQ, remote
	cmClass       = 7
	managerQP     = 1 // the queue pair of the connection manager
)

// CM returns which message of the connection manager a frame carries, and false
// if none.
func (f *Frame) CM() (Message, bool) {
	if f.Err != nil || f.Opcode != udSendOnly || f.DestQP != managerQP || len(f.Payload) < madAt+madLen || f.Payload[classAt] != cmClass {
		return 0, false
	}
	return Message(binary.BigEndian.Uint16(f.Payload[attrAt:])), true
}

// CMCount returns how many of the frames, from this host or to it, carry a
// message.
func CMCount(fs []Frame, m Message, out bool) (n int) {
	for i := range fs {
		if got, ok := fs[i].CM(); ok && got == m && fs[i].Out == out {
			n++
		}
	}
	return n
}

// Unconfirmed returns how many REPs came to this host that it answered by
// neither RTU nor REJ, or only after a retransmission.
func Unconfirmed(fs []Frame) (n int) {
	type ids struct{ local, remote [4]byte }
	open := map[ids]bool{}
	for i := range fs {
		f := &fs[i]
		m, ok := f.CM()
		if !ok {
			continue
		}
		local, remote := [4]byte(f.Payload[idsAt:]), [4]byte(f.Payload[idsAt+4:])
		switch {
		case m == REP && !f.Out && open[ids{remote, local}]:
			n++
		case m == REP && !f.Out:
			open[ids{remote, local}] = true
		case (m == RTU || m == REJ) && f.Out:
			delete(open, ids{local, remote})
		}
	}
	return n + len(open)
}
