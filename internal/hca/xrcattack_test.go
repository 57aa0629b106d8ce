package hca_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/hca/rig"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/roce"
)

// xrcVictim is an adapter with two XRC domains. The peer is connected to a target of the first,
// which has two shared receive queues of one protection domain; the queue and the region of
// the second domain are none of its business.
type xrcVictim struct {
	*rig.Solo
	domains [2]*qp.XRCD
	target  *qp.QP
	queues  []*qp.SRQ // of the first domain, and last that of the second
	secret  []byte
	key     ib.RKey // of the secret
	attr    ib.QPAttr
	psn     uint32
	jobs    []qp.WriteBack // of FLUSHes, not ended
}

// secretByte fills the memory that the peer has no right to.
const secretByte = 0x5e

func newXRCVictim(t testing.TB) *xrcVictim {
	v := &xrcVictim{secret: bytes.Repeat([]byte{secretByte}, 4096)}
	c := rig.SoloConfig{Type: ib.RC}
	c.HCA.WriteBack = func(job qp.WriteBack) { v.jobs = append(v.jobs, job) }
	v.Solo = rig.NewSolo(t, c)
	pd, err := v.HCA.AllocPD()
	rig.Must(t, err)
	mr, err := pd.RegMR(memory.RegionConfig{Buf: v.secret, IOVA: 2 << 32, Access: ib.AccessLocalWrite | ib.AccessRemote})
	rig.Must(t, err)
	v.key = mr.RKey()
	for i := range v.domains {
		v.domains[i], err = v.HCA.OpenXRCD()
		rig.Must(t, err)
	}
	for i := range 3 {
		d, p, e := v.domains[0], v.PD, v.SGE(i*1024, 512)
		if i == 2 {
			d, p, e = v.domains[1], pd, ib.SGE{Addr: mr.Addr(), Length: 512, LKey: mr.LKey()}
		}
		s, err := p.CreateXRCSRQ(d, v.CQ, 4, 1, 0)
		rig.Must(t, err)
		v.queues = append(v.queues, s)
		rig.Must(t, s.PostRecv(&ib.RecvWR{WRID: uint64(i), SGList: []ib.SGE{e}}))
	}
	v.target, err = v.HCA.CreateQP(nil, hca.QPConfig{Type: ib.XRCTgt, XRCD: v.domains[0]})
	rig.Must(t, err)
	v.attr = v.Attr
	v.connect()
	return v
}

// connect moves the target to RTS.
func (v *xrcVictim) connect() {
	rig.Must(v.T, v.target.Modify(v.Now, &ib.QPAttr{State: ib.RESET}, ib.AttrState))
	for st := ib.INIT; st <= ib.RTS; st++ {
		v.attr.State = st
		rig.Must(v.T, v.target.Modify(v.Now, &v.attr, rig.WalkMask(ib.XRCTgt, st)))
	}
	v.psn = rig.PeerPSN
}

// step lets eight bytes of a program act.
func (v *xrcVictim) step(b [8]byte) {
	switch b[0] % 32 {
	case 0: // the program's own doings
		if s := v.queues[b[1]%2]; s != nil && b[2]%4 == 0 {
			rig.Must(v.T, v.PD.DestroySRQ(s))
			v.queues[b[1]%2] = nil
		}
	case 1:
		v.connect()
	case 2:
		if s := v.queues[b[1]%2]; s != nil {
			_ = s.PostRecv(&ib.RecvWR{WRID: uint64(b[2]), SGList: []ib.SGE{v.SGE(int(b[3])*16, 512)}}) // it may be full
		}
	case 3:
		v.look(v.Pass(time.Duration(b[1]) * time.Millisecond))
	case 4:
		if len(v.jobs) > 0 {
			v.HCA.WrittenBack(v.Now, v.jobs[0], b[1]%4 != 0)
			v.jobs = v.jobs[b[2]%2:]
			v.look(v.Out())
		}
	default:
		v.look(v.Inject(v.attack(b)))
		if v.target.State() == ib.ERR {
			v.connect()
		}
	}
	v.Poll()
}

// attack returns a request or an answer of any kind, which names any queue, key and length.
func (v *xrcVictim) attack(b [8]byte) roce.Packet {
	p := v.Packet(roce.XRCSendFirst+roce.Opcode(b[1]%32), v.psn+uint32(int8(b[2]))/64, bytes.Repeat([]byte{1}, int(b[3])*2))
	if p.BTH.PSN.Value() == v.psn {
		v.psn++
	}
	p.BTH.DestQP = v.target.Num()
	p.RETH = roce.RETH{VA: 1<<32 + uint64(b[4])*8, RKey: v.MR.RKey(), Length: uint32(len(p.Payload))}
	if b[5]%4 == 0 {
		p.RETH.VA, p.RETH.RKey = 2<<32+uint64(b[4])*8, v.key
	}
	p.AtomicETH = roce.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey, SwapAdd: 1}
	p.InvRKey = p.RETH.RKey
	p.FETH = roce.FETH{Placement: b[0] >> 5, Selectivity: b[5] >> 6}
	p.XRCETH.SRQN = uint32(b[6]) << b[7]
	if s := v.queues[int(b[6])%3]; s != nil && b[7]%8 != 0 {
		p.XRCETH.SRQN = uint32(s.Num())
	}
	return p
}

// look checks what the adapter sent, and that the peer reached nothing of the other domain.
func (v *xrcVictim) look(sent []roce.Packet) {
	v.T.Helper()
	for i := range sent {
		if bytes.IndexByte(sent[i].Payload, secretByte) >= 0 {
			v.T.Fatalf("%v has memory of another protection domain", sent[i].BTH.Opcode)
		}
	}
	if n := len(bytes.TrimRight(v.secret, string(rune(secretByte)))); n != 0 {
		v.T.Fatalf("memory of another protection domain changed up to byte %d", n)
	}
	if head := v.queues[2].Queue(); head.Prod.Load()-head.Cons.Load() != 1 {
		v.T.Fatal("a receive of another XRC domain was taken")
	}
}

func xrcAttack(t testing.TB, program []byte) {
	v := newXRCVictim(t)
	for ; len(program) >= 8; program = program[8:] {
		v.step([8]byte(program))
	}
	v.HCA.DestroyQP(nil, v.target)
	for _, s := range v.queues[:2] {
		if s != nil {
			rig.Must(t, v.PD.DestroySRQ(s))
		}
	}
	rig.Must(t, v.HCA.CloseXRCD(v.domains[0]))
}

// FuzzXRC lets arbitrary programs attack a target: requests that name any queue, in any order,
// while queues are destroyed and the target is connected anew. The peer reaches only the queues
// and the memory of its own domain, and afterwards nothing holds the domain.
func FuzzXRC(f *testing.F) {
	f.Add([]byte{5, 4, 0, 9, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 4, 0, 9, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) { xrcAttack(t, b) })
}

// TestM4_Attacks runs FuzzXRC's programs as a seeded source makes them.
func TestM4_Attacks(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 40))
		program := make([]byte, 8*300)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		if xrcAttack(t, program); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
