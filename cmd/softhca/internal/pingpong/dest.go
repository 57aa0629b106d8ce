package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// dest is one end of a connection as the programs tell it to each other.
type dest struct {
	lid uint16 // 0 on RoCE
	qpn ib.QPN
	psn ib.PSN
	gid ib.GID
}

// destLen is the size of a dest on the TCP connection: hexadecimal LID, QPN,
// PSN and GID between colons, and a NUL.
const destLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

// encode returns the bytes that the peer reads.
func (d *dest) encode() [destLen]byte {
	var b [destLen]byte
	copy(b[:], fmt.Sprintf("%04x:%06x:%06x:%s", d.lid, uint32(d.qpn), d.psn.Value(), hex.EncodeToString(d.gid[:])))
	return b
}

// parseDest reads what a peer sent.
func parseDest(b *[destLen]byte) (dest, error) {
	var d dest
	text, _, ended := bytes.Cut(b[:], []byte{0})
	part := strings.Split(string(text), ":")
	if !ended || len(part) != 4 {
		return d, fmt.Errorf("the peer's address %q is not LID:QPN:PSN:GID", b[:])
	}
	lid, lidErr := strconv.ParseUint(part[0], 16, 16)
	qpn, qpnErr := strconv.ParseUint(part[1], 16, 24)
	psn, psnErr := strconv.ParseUint(part[2], 16, 24)
	gid, gidErr := hex.DecodeString(part[3])
	if lidErr != nil || qpnErr != nil || psnErr != nil || gidErr != nil || len(gid) != len(d.gid) {
		return d, fmt.Errorf("the peer's address %q has a wrong number", text)
	}
	return dest{uint16(lid), ib.QPN(qpn), ib.NewPSN(uint32(psn)), ib.GID(gid)}, nil
}

// String returns the line that the programs print.
func (d *dest) String() string {
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %v", d.lid, uint32(d.qpn), d.psn.Value(), netip.AddrFrom16(d.gid))
}
