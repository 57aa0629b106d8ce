package script

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/roce"
)

// inject hands the adapter a packet, as the peer would send it: < QP OPCODE
// and fields, or < CONN MESSAGE and fields.
func (w *world) inject(a *args) error {
	name := a.word("a queue pair or a connection")
	if c, ok := w.objects[name].(*connection); ok {
		return w.connections.injectMAD(c, a)
	}
	q, err := find[*pair](&w.registry, name)
	if name == gsiName && err != nil {
		if len(a.words) > 0 && a.words[0] == madName {
			return w.connections.injectMAD(nil, a)
		}
		q, err = &w.gsi, nil
	}
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	w.cause = "data"
	p, err := w.packet(q, a)
	if err != nil {
		return cmp.Or(a.err, err)
	}
	in := Injection{QP: name, Packet: *p, Pad: -1, Corrupt: -1}
	if a.has("pad") {
		in.Pad = int(a.small("pad", 0, 2))
	}
	in.Cut = int(a.small("cut", 0, 16))
	if a.has("raw") {
		if in.Raw, err = hex.DecodeString(a.str("raw", "")); err != nil {
			return fmt.Errorf("raw: %w", err)
		}
	}
	in.Src, in.Dst = a.addr("src", w.peer), a.addr("dst", w.local)
	in.HopLimit, in.TClass = uint8(a.small("ttl", 61, 8)), uint8(a.small("tos", 0, 8))
	if a.has("corrupt") {
		in.Corrupt = int(a.small("corrupt", 0, 16))
	}
	if err := a.done(); err != nil {
		return err
	}
	w.rec.did("<", Inject{in})
	d := fabric.Datagram{
		Src: in.Src, Dst: in.Dst, SrcPort: 0xc123, DstPort: fabric.RoCEPort, IDKnown: true, HopLimit: in.HopLimit, TClass: in.TClass,
	}
	if d.Bytes, err = in.Bytes(func(n int) roce.Prefix {
		return roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, n).WithID(d.ID)
	}); err != nil {
		return err
	}
	w.deliver(&d)
	return nil
}

// num and service return the number and service of the queue pair, of the EE
// context, or of the adapter's own QP1.
func (q *pair) num() ib.QPN {
	if q.eec != nil {
		return ib.QPN(q.eec.Num())
	}
	if q.QP == nil {
		return ib.QPNGSI
	}
	return q.Num()
}

func (q *pair) service() ib.QPType {
	if q.eec != nil {
		return ib.EEC
	}
	if q.QP == nil {
		return ib.GSI
	}
	return q.Type()
}

// deliver hands a datagram to the adapter, and checks that the adapter does not
// write to the packet's memory, which belongs to the sender.
func (w *world) deliver(d *fabric.Datagram) {
	kept := bytes.Clone(d.Bytes)
	w.HCA.Single().Receive(w.now, d)
	if !bytes.Equal(kept, d.Bytes) {
		w.say("! the adapter changed the datagram")
	}
	w.seen.injected++
	w.settle()
}

// packet makes a packet of the peer, well-formed except for the given fields.
func (w *world) packet(q *pair, a *args) (*roce.Packet, error) {
	op, syndrome, err := parsePacketName(q.service(), a.word("an opcode"))
	if err != nil {
		return nil, err
	}
	info := op.Info()
	p := &roce.Packet{Info: info}
	if n := a.num("len", 0, plainNumber); n > 65000 {
		a.fail(fmt.Errorf("len: a packet has no more than 65000 bytes"))
	} else {
		p.Payload = bytes.Repeat([]byte{'x'}, int(n))
	}
	if a.has("data") {
		p.Payload = a.data("data")
	}
	w.extended(q, a, p, syndrome)
	response := info.Flags&roce.FlagResponse != 0
	psn := q.peerPSN
	if response {
		psn = q.sent
	}
	psn = ib.NewPSN(uint32(a.num("psn", uint64(psn.Value()), plainNumber)))
	reliable, to := info.Service == roce.ServiceRC || info.Service == roce.ServiceXRC, q.num()
	if q.eec != nil {
		reliable, to = true, w.usualRD()
	}
	p.BTH = roce.BTH{
		Opcode: op, SE: a.boolean("se", false), MigReq: a.boolean("migreq", w.migReq),
		TVer: uint8(a.small("tver", 0, 4)), PKey: ib.PKey(a.small("pkey", uint64(ib.PKeyDefault), 16)),
		FECN: a.boolean("fecn", false), BECN: a.boolean("becn", false),
		DestQP: ib.QPN(a.num("destqp", uint64(to), number)), PSN: psn,
		AckReq: a.boolean("ackreq", !response && reliable && info.Flags&roce.FlagEnd != 0),
	}
	if !response && info.Known {
		q.peerPSN = psn.Add(psnsOf(p, q.attr.PathMTU))
	}
	return p, a.err
}

// extended takes the fields of the extended headers.
func (w *world) extended(q *pair, a *args, p *roce.Packet, syndrome roce.Syndrome) {
	has := func(h roce.Headers) bool { return p.Info.Headers&h != 0 }
	if has(roce.HasRDETH) {
		p.RDETH.EEC = uint32(a.num("eec", uint64(q.num()), number))
	}
	if has(roce.HasXRCETH) {
		p.XRCETH.SRQN = uint32(a.num("srqn", uint64(w.usualSRQN()), number))
	}
	if has(roce.HasDETH) {
		src, secret := q.attr.DestQPN, q.attr.QKey
		if has(roce.HasRDETH) {
			src = peerQPN + 1
			if to := w.pairOf(ib.QPN(a.num("destqp", uint64(w.usualRD()), number))); to != nil {
				secret = to.attr.QKey
			}
		}
		p.DETH = roce.DETH{
			QKey:  ib.QKey(a.num("qkey", uint64(secret), plainNumber)),
			SrcQP: ib.QPN(a.num("srcqp", uint64(src), number)),
		}
	}
	if has(roce.HasRETH | roce.HasAtomicETH) {
		va, rkey := a.num("va", 0, address), uint64(0)
		if name, _, _ := strings.Cut(a.str("va", ""), "+"); w.objects[name] != nil {
			rkey, _ = w.eval(name, key)
		}
		rkey = a.num("rkey", rkey, key)
		p.RETH = roce.RETH{VA: va, RKey: ib.RKey(rkey), Length: uint32(len(p.Payload))}
		p.AtomicETH = roce.AtomicETH{VA: va, RKey: ib.RKey(rkey)}
	}
	if has(roce.HasFETH) {
		p.FETH = roce.FETH{Placement: uint8(a.small("plt", uint64(roce.PlacementGlobal), 4)), Selectivity: uint8(a.small("sel", uint64(roce.SelectRange), 2))}
	}
	if has(roce.HasRETH) {
		p.RETH.Length = uint32(a.small("dlen", uint64(len(p.Payload)), 32))
	}
	switch {
	case p.Info.Kind == roce.KindFetchAdd:
		p.AtomicETH.SwapAdd = a.num("add", 0, plainNumber)
	case has(roce.HasAtomicETH):
		p.AtomicETH.Compare, p.AtomicETH.SwapAdd = a.num("compare", 0, plainNumber), a.num("swap", 0, plainNumber)
	case has(roce.HasAtomicAckETH):
		p.AtomicAck = a.num("orig", 0, plainNumber)
	case has(roce.HasImmDt):
		p.Imm = uint32(a.small("imm", 0, 32))
	case has(roce.HasIETH):
		p.InvRKey = ib.RKey(a.num("inv", 0, key))
	}
	if has(roce.HasAETH) {
		if syndrome.IsRNR() {
			syndrome = roce.RNRNAK(uint8(a.small("timer", 12, 5)))
		}
		if syndrome.IsACK() {
			syndrome = roce.ACKCredits(uint8(a.small("credits", uint64(syndrome.Value()), 5)))
		}
		p.AETH.Syndrome = roce.Syndrome(a.small("syndrome", uint64(syndrome), 8))
		p.AETH.MSN = ib.MSN(a.small("msn", 0, 24))
	}
}

// acknowledges are the names of ACKNOWLEDGE packets by their syndrome.
var acknowledges = [...]struct {
	name     string
	syndrome roce.Syndrome
}{
	{"ACK", roce.ACKUnlimited}, {"RNR_NAK", roce.RNRNAK(12)}, {"NAK_SEQUENCE", roce.NAKSequence},
	{"NAK_INVALID_REQUEST", roce.NAKInvalidRequest}, {"NAK_REMOTE_ACCESS", roce.NAKRemoteAccess},
	{"NAK_REMOTE_OPERATIONAL", roce.NAKRemoteOperational}, {"NAK_INVALID_RD", roce.NAKInvalidRD},
}

// parsePacketName reads the name of an opcode, without its service if that is
// the queue pair's, or its number, or one of acknowledges.
func parsePacketName(t ib.QPType, s string) (roce.Opcode, roce.Syndrome, error) {
	var known []string
	for _, n := range acknowledges {
		if n.name == s {
			switch t {
			case ib.EEC:
				return roce.RDAcknowledge, n.syndrome, nil
			case ib.XRCIni, ib.XRCTgt:
				return roce.XRCAcknowledge, n.syndrome, nil
			default:
				return roce.RCAcknowledge, n.syndrome, nil
			}
		}
		known = append(known, n.name)
	}
	if strings.HasPrefix(s, "0x") {
		v, err := parseNumber(s)
		if err != nil || v > 255 {
			return 0, 0, fmt.Errorf("%s is no opcode", s)
		}
		return roce.Opcode(v), roce.ACKUnlimited, nil
	}
	service := t.String()
	switch t {
	case ib.GSI:
		service = ib.UD.String()
	case ib.EEC:
		service = ib.RD.String()
	case ib.XRCIni, ib.XRCTgt:
		service = roce.ServiceXRC.String()
	}
	for o := range 256 {
		op := roce.Opcode(o)
		short, mine := strings.CutPrefix(op.String(), service+"_")
		if mine && op.Info().Known {
			known = append(known, short)
		}
		if s == op.String() || mine && s == short {
			return op, roce.ACKUnlimited, nil
		}
	}
	return 0, 0, fmt.Errorf("there is no opcode %s%s", s, hint(s, known))
}
