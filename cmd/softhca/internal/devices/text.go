package devices

import (
	"fmt"
	"io"
	"strings"
)

// Text prints the devices for people.
func Text(w io.Writer, devices []Device) error {
	var b strings.Builder
	for i := range devices {
		if i > 0 {
			b.WriteByte('\n')
		}
		devices[i].text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (d *Device) text(b *strings.Builder) {
	fmt.Fprintf(b, "hca_id: %s\n", d.Name)
	if d.Error != "" {
		fmt.Fprintf(b, "    not usable: %s\n", d.Error)
		return
	}
	a, p := d.Attr, d.Port
	line := func(indent int, name, format string, args ...any) {
		fmt.Fprintf(b, "%*s%-*s %s\n", indent, "", 30-indent, name+":", fmt.Sprintf(format, args...))
	}
	line(4, "transport", "RoCEv2 (UDP port 4791)")
	line(4, "node_guid", "%v", a.NodeGUID)
	line(4, "max_qp", "%d", a.MaxQP)
	line(4, "max_qp_wr", "%d", a.MaxQPWR)
	line(4, "max_sge", "%d", a.MaxSGE)
	line(4, "max_inline_data", "%d bytes", a.MaxInlineData)
	line(4, "max_cq, max_cqe", "%d, %d", a.MaxCQ, a.MaxCQE)
	line(4, "max_srq, max_srq_wr", "%d, %d", a.MaxSRQ, a.MaxSRQWR)
	line(4, "max_mr, max_pd, max_ah", "%d, %d, %d", a.MaxMR, a.MaxPD, a.MaxAH)
	line(4, "max_mcast_grp, qp_attach", "%d, %d", a.MaxMcastGrp, a.MaxMcastQPAttach)
	line(4, "max_qp_rd_atom", "%d", a.MaxQPRDAtom)
	line(4, "max_msg_size", "%d bytes", a.MaxMsgSize)
	line(4, "phys_port_cnt", "%d", a.PhysPortCnt)
	fmt.Fprintf(b, "    port: 1\n")
	line(8, "state", "%s", p.State)
	line(8, "active_mtu", "%d", p.ActiveMTU)
	line(8, "link_layer", "%s", p.LinkLayer)
	line(8, "port kind", "%s%s", p.Transport, on(p.Interface))
	line(8, "GSO", "%s", gso(p.GSOSegments))
	line(8, "GRO", "%s", yes(p.GRO))
	line(8, "ICRC check", "%s", verification(p.Verification))
	if p.RecvBuffer > 0 {
		line(8, "receive buffer", "%d KiB", p.RecvBuffer>>10)
	}
	if p.SourceUDPPort == 0 {
		line(8, "UDP source port", "each path has its own")
	} else {
		line(8, "UDP source port", "%d", p.SourceUDPPort)
	}
	for _, g := range p.GIDs {
		line(8, fmt.Sprintf("GID[%3d]", g.Index), "%s, %s", g.GID, g.Addr)
	}
	for i, k := range p.PKeys {
		line(8, fmt.Sprintf("PKey[%2d]", i), "%#04x", k)
	}
}

func on(ifc string) string {
	if ifc == "" {
		return ""
	}
	return " on " + ifc
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func gso(segments int) string {
	if segments <= 1 {
		return "no"
	}
	return fmt.Sprintf("up to %d packets in one call", segments)
}

// verification explains how much of the ICRC the port can check.
func verification(kind string) string {
	if kind == "derived-id" {
		return "derived-id on IPv4: 1 damaged packet in 65536 passes (RC and UC from a peer like this one: 1 in 2^26), full on IPv6"
	}
	return kind
}
