package judge

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/script"
	"github.com/softhca/softhca/roce"
)

// show writes a packet with the fields that are compared, as scripts do.
// Addresses and keys in the script's regions have their names.
func (s *stage) show(p *roce.Packet) string {
	f := []string{p.BTH.Opcode.String(), fmt.Sprintf("psn=%d", p.BTH.PSN.Value())}
	add := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	has := func(h roce.Headers) bool { return p.Info.Headers&h != 0 }
	if p.BTH.SE {
		add("se")
	}
	if p.BTH.PKey != ib.PKeyDefault {
		add("pkey=%#x", uint16(p.BTH.PKey))
	}
	if has(roce.HasDETH) {
		add("destqp=%#x qkey=%#x", uint32(p.BTH.DestQP), uint32(p.DETH.QKey))
	}
	q := *p
	if q.AETH.Syndrome.IsACK() {
		q.AETH.Syndrome = roce.ACKUnlimited // credits are not compared
	}
	return strings.Join(append(f, script.ShowExtended(&q, s.target, s.keyName)...), " ")
}

func (s *stage) target(va uint64, k ib.RKey) string {
	at := fmt.Sprintf("%#x", va)
	if r := s.near(va); r != nil {
		at = fmt.Sprintf("%s%+d", r.Name, int64(va-r.IOVA))
	}
	return fmt.Sprintf("va=%s rkey=%s", at, s.keyName(uint32(k)))
}

func (s *stage) keyName(k uint32) string {
	for i := len(s.regions) - 1; i >= 0; i-- {
		if s.regions[i].Key == k && k != 0 {
			return s.regions[i].Name
		}
	}
	return fmt.Sprintf("%#x", k)
}

// showWC writes a completion with the fields that are compared.
func showWC(wc *ib.WC, datagram bool) string {
	if wc.Status != ib.WCSuccess {
		return fmt.Sprintf("wc %d %v", wc.WRID, wc.Status)
	}
	s := fmt.Sprintf("wc %d SUCCESS %v", wc.WRID, wc.Opcode)
	if wc.Opcode >= ib.WCRecv || wc.Opcode == ib.WCRDMARead {
		s += fmt.Sprintf(" len=%d", wc.ByteLen) // of other sends it means nothing
	}
	if wc.Opcode >= ib.WCRecv && wc.Flags&ib.WCWithImm != 0 {
		s += fmt.Sprintf(" imm=%#x", wc.ImmData)
	}
	if wc.Opcode >= ib.WCRecv && datagram {
		s += fmt.Sprintf(" src=%#x", uint32(wc.SrcQP))
	}
	return s
}
