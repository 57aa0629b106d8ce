package verbs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"

	"github.com/softhca/softhca/ib"
)

// Sizes of a transfer. The bytes of the stream pass through the region in order; the
// region is reused.
const (
	transferRegion  = 64 << 20
	transferMessage = 1 << 20
)

// channelQPs is the number of queue pairs that share a channel; messages use them in
// turn.
const channelQPs = 4

// order is a command of the test to its peer process, one line of JSON.
type order struct {
	Do     string // "open", "fill", "recv", "take", "hash", "sum" or "close"
	Addr   string
	Faults Faults
	Remote remote // open: the side to connect to
	Bytes  uint64 // open: size of the region; others: bytes of it to use
	RD     bool   // open: use a reliable datagram channel
	Seed   uint64 // fill
}

// remote is the information that one side needs about the other.
type remote struct {
	GID     ib.GID
	QPNs    []ib.QPN
	EECN    ib.EECN // with RD
	PathMTU ib.MTU
	Timeout uint8
	Addr    uint64 // of the region
	RKey    ib.RKey
}

// answer is the peer's reply to an order.
type answer struct {
	Error    string
	Remote   remote
	Sum      string
	Counters map[string]uint64
}

// mover is one side of a transfer: an adapter, a QP, or several QPs with an EE context,
// a region, and a hash of all bytes that passed through it.
type mover struct {
	ctx *Context
	ch  *CompChannel
	cq  *CQ
	qps []*QP
	eec *EEC // RD
	mr  *MR
	sum hash.Hash
}

func openMover(o *order) (m *mover, err error) {
	m = &mover{ch: NewCompChannel(manyCQs), sum: sha256.New()}
	if m.ctx, err = Open(Config{Addr: o.Addr, Wire: WireUDP, Faults: o.Faults}); err != nil {
		return nil, err
	}
	if err := m.fill(o); err != nil {
		return nil, errors.Join(err, m.ctx.Close())
	}
	return m, nil
}

// fill creates the objects.
func (m *mover) fill(o *order) error {
	pd, err := m.ctx.AllocPD()
	if err != nil {
		return err
	}
	if m.cq, err = m.ctx.CreateCQ(256, m.ch); err != nil {
		return err
	}
	if m.mr, err = pd.RegMR(make([]byte, o.Bytes), ib.AccessLocalWrite|ib.AccessRemote); err != nil {
		return err
	}
	init := &QPInitAttr{
		Type: ib.RC, SendCQ: m.cq, RecvCQ: m.cq, SQSig: ib.SigAll,
		Cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
	n := 1
	if o.RD {
		n, init.Type = channelQPs, ib.RD
		if init.RDD, err = m.ctx.AllocRDD(); err != nil {
			return err
		}
		if m.eec, err = init.RDD.CreateEEC(); err != nil {
			return err
		}
	}
	for range n {
		q, err := pd.CreateQP(init)
		if err != nil {
			return err
		}
		m.qps = append(m.qps, q)
	}
	return nil
}

// connect moves the QP to RTS, or the EE context and all QPs.
func (m *mover) connect(to *remote) error {
	attr := QPAttr{
		Port: 1, AccessFlags: ib.AccessRemote, PathMTU: to.PathMTU, DestQPN: to.QPNs[0],
		RQPSN: ib.NewPSN(0xfffff0), SQPSN: ib.NewPSN(0xfffff0), MaxDestRDAtomic: 8, MaxRDAtomic: 8,
		MinRNRTimer: 12, Timeout: to.Timeout, RetryCnt: 7, RNRRetry: 7, QKey: testQKey,
		AV: AHAttr{DGID: to.GID, HopLimit: 64, Port: 1},
	}
	if m.eec != nil {
		path := attr
		path.DestQPN = ib.QPN(to.EECN)
		if err := m.eec.ModifyToRTS(path); err != nil {
			return err
		}
	}
	for _, q := range m.qps {
		if err := q.ModifyToRTS(attr); err != nil {
			return err
		}
	}
	return nil
}

// at returns the QP that sends or receives the message at an offset.
func (m *mover) at(off uint64) int { return int(off/transferMessage) % len(m.qps) }

// send posts the request of the message at an offset.
func (m *mover) send(to *remote, off uint64, wr SendWR) error {
	i := m.at(off)
	if m.eec != nil {
		wr.EEC, wr.RemoteQPN, wr.RemoteQKey = m.eec, to.QPNs[i], testQKey
	}
	return m.qps[i].PostSend(wr)
}

// local describes this side to the other.
func (m *mover) local() remote {
	r := remote{GID: m.ctx.QueryGID(0), Addr: m.mr.Addr(), RKey: m.mr.RKey(), EECN: m.eec.EECN()}
	for _, q := range m.qps {
		r.QPNs = append(r.QPNs, q.QPN())
	}
	return r
}

// make writes n bytes, derived from seed, to the region and adds them to the hash.
func (m *mover) make(n, seed uint64) {
	b := m.mr.Bytes()[:n]
	src := rand.NewPCG(seed, n)
	for ; len(b) >= 8; b = b[8:] {
		v := src.Uint64()
		b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		b[4], b[5], b[6], b[7] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
	}
	for i := range b {
		b[i] = byte(i)
	}
	m.add(n)
}

// add adds the first n bytes of the region to the hash.
func (m *mover) add(n uint64) { _, _ = m.sum.Write(m.mr.Bytes()[:n]) } // writing to a hash cannot fail

// total returns the hash and begins a new one.
func (m *mover) total() string {
	s := hex.EncodeToString(m.sum.Sum(nil))
	m.sum.Reset()
	return s
}

// take waits for n completions, asleep between them.
func (m *mover) take(n int) error {
	wcs := make([]WC, 16)
	for n > 0 {
		if err := m.cq.ReqNotify(false); err != nil {
			return err
		}
		k, err := m.cq.Poll(wcs)
		if err != nil {
			return err
		}
		for _, wc := range wcs[:k] {
			if wc.Status != ib.WCSuccess {
				return fmt.Errorf("work request %d: %v", wc.WRID, wc.Status)
			}
		}
		if n -= k; n > 0 && k == 0 {
			<-m.ch.C()
		}
	}
	return nil
}

// recv posts a receive for every message of n bytes.
func (m *mover) recv(n uint64) error {
	for off := uint64(0); off < n; off += transferMessage {
		size := uint32(min(n-off, transferMessage))
		if err := m.qps[m.at(off)].PostRecv(RecvWR{WRID: off, SGList: []SGE{m.mr.SGE(off, size)}}); err != nil {
			return err
		}
	}
	return nil
}

// counters returns the counters that are not 0.
func (m *mover) counters() (map[string]uint64, error) {
	all, err := m.ctx.Counters()
	if err != nil {
		return nil, err
	}
	c := make(map[string]uint64)
	for _, e := range all {
		if e.Value != 0 {
			c[e.Name] = e.Value
		}
	}
	return c, nil
}

// servePeer carries out orders until there are no more.
func servePeer(in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	var m *mover
	for {
		var o order
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		var err error
		if o.Do == "open" {
			if m, err = openMover(&o); err == nil {
				a.Remote, err = m.local(), m.connect(&o.Remote)
			}
		} else {
			err = m.obey(&o, &a)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := enc.Encode(&a); err != nil {
			return err
		}
	}
}

// obey carries out one order.
func (m *mover) obey(o *order, a *answer) (err error) {
	switch o.Do {
	case "fill":
		m.make(o.Bytes, o.Seed)
		_, err = m.ctx.Counters() // orders these writes before the adapter's reads
	case "recv":
		err = m.recv(o.Bytes)
	case "take":
		err = m.take(int(messages(o.Bytes)))
		m.add(o.Bytes)
	case "hash":
		_, err = m.ctx.Counters() // orders the adapter's writes before these reads
		m.add(o.Bytes)
	case "sum":
		a.Sum = m.total()
		a.Counters, err = m.counters()
	case "close":
		err = m.ctx.Close()
	default:
		err = fmt.Errorf("order %q", o.Do)
	}
	return err
}

// messages returns the number of messages for n bytes.
func messages(n uint64) uint64 { return (n + transferMessage - 1) / transferMessage }
