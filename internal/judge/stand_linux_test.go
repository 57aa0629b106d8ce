package judge

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/udp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/testagent"
	"github.com/softhca/softhca/verbs"
)

// stand speaks the test agent's protocol over an adapter of ours: the
// part of the protocol that a judge needs.
type stand struct {
	hca     *verbs.Context
	objects map[uint64]any
	ids     map[any]uint64
	next    uint64
	words   []string // of the request
	maps    [][]byte
}

// nextAddr counts the addresses that tests have taken, two at a time.
var nextAddr atomic.Uint32

// judgeOf returns a Config for an adapter of ours on a loopback address of its
// own, with rules that make it go wrong.
func judgeOf(t *testing.T, faults string) *Config {
	t.Helper()
	n := nextAddr.Add(2)
	own := netip.AddrFrom4([4]byte{127, 83, byte(n >> 7), byte(n<<1) | 1})
	peer := netip.AddrFrom4([4]byte{127, 83, byte(n >> 7), byte(n<<1) | 3})
	hca, err := verbs.Open(verbs.Config{Addr: peer.String(), InOrderOnly: true, NoChallenge: true, Faults: verbs.Faults{Rules: faults, Seed: 1}})
	must.Do(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	done := sync.WaitGroup{}
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s := &stand{hca: hca, objects: map[uint64]any{}, ids: map[any]uint64{}}
			s.serve(conn)
		}
	})
	c, err := testagent.Dial(context.Background(), l.Addr().String(), nil)
	must.Do(t, err)
	port, err := udp.Open(udp.Config{Addrs: []netip.Addr{own}})
	must.Do(t, err)
	t.Cleanup(func() {
		for _, err := range []error{c.Close(), l.Close(), port.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		done.Wait()
		if err := hca.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Config{Agent: c, Port: port, Local: own, Peer: peer}
}

// serve answers requests until the connection ends.
func (s *stand) serve(conn net.Conn) {
	in := bufio.NewReaderSize(conn, 1<<16)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			s.reset()
			_ = conn.Close() // the other end has gone
			return
		}
		s.words = strings.Fields(line)
		reply, err := s.answer()
		if err != nil {
			errno := syscall.EIO
			errors.As(err, &errno)
			reply = fmt.Sprintf("err %d %v", int(errno), err)
		} else {
			reply = strings.TrimSpace("ok " + reply)
		}
		if _, err := conn.Write([]byte(reply + "\n")); err != nil {
			s.reset()
			_ = conn.Close() // likewise
			return
		}
	}
}

func (s *stand) str(key string) string {
	for _, w := range s.words {
		if k, v, ok := strings.Cut(w, "="); ok && k == key {
			return v
		}
	}
	return ""
}

func (s *stand) num(key string) uint64 {
	n, _ := strconv.ParseUint(s.str(key), 0, 64) // what is not there is 0
	return n
}

func (s *stand) add(o any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s.next++
	s.objects[s.next], s.ids[o] = o, s.next
	return fmt.Sprintf("id=%d", s.next), nil
}

func get[T any](s *stand, key string) T {
	o, _ := s.objects[s.num(key)].(T)
	return o
}

func (s *stand) answer() (string, error) {
	switch s.words[0] {
	case "hello":
		gid := s.hca.QueryGID(0)
		return fmt.Sprintf("protocol=1 device=stand kernel=none active_mtu=4096 gid=0,2,%v", gid), nil
	case "reset":
		s.reset()
		return "", nil
	case "pd":
		pd, err := s.hca.AllocPD()
		return s.add(pd, err)
	case "cq":
		cq, err := s.hca.CreateCQ(int(s.num("cqe")), nil)
		id, err := s.add(cq, err)
		return id + " cqe=" + s.str("cqe"), err
	case "srq":
		srq, err := get[*verbs.PD](s, "pd").CreateSRQ(&verbs.SRQInitAttr{
			MaxWR: uint32(s.num("wr")), MaxSGE: uint32(s.num("sge")), Limit: uint32(s.num("limit")),
		})
		return s.add(srq, err)
	case "srq_limit":
		return "", get[*verbs.SRQ](s, "srq").SetLimit(uint32(s.num("limit")))
	case "ah":
		ah, err := get[*verbs.PD](s, "pd").CreateAH(s.vector())
		return s.add(ah, err)
	case "mr", "sum", "read", "write":
		return s.memory()
	case "qp":
		return s.createQP()
	case "modify":
		return "", s.modify()
	case "query":
		at, err := get[*verbs.QP](s, "qp").Query()
		return fmt.Sprintf("state=%d cur_state=0 path_mtu=256 path_mig=0 qkey=0 rq_psn=0 sq_psn=0 dest_qpn=0 access=0 pkey_index=0 sq_draining=0"+
			" max_rd_atomic=0 max_dest_rd_atomic=0 min_rnr_timer=0 port=1 timeout=0 retry_cnt=0 rnr_retry=0 swr=0 rwr=0 ssge=0 rsge=0 inline=0"+
			" sgid_index=0 hop_limit=0 traffic_class=0", at.State), err
	case "post", "recv":
		return "", s.post()
	case "poll":
		return s.poll()
	case "events":
		return s.events()
	case "destroy":
		return "", s.destroy(s.num("id"))
	}
	return "", fmt.Errorf("no command %s: %w", s.words[0], syscall.ENOSYS)
}

func (s *stand) vector() ib.AHAttr {
	a, err := netip.ParseAddr(s.str("dgid"))
	if err != nil {
		return ib.AHAttr{}
	}
	return ib.AHAttr{DGID: ib.GIDFromAddr(a.Unmap()), HopLimit: uint8(s.num("hop_limit")), Port: 1, TrafficClass: uint8(s.num("traffic_class"))}
}

func (s *stand) memory() (string, error) {
	m := get[*verbs.MR](s, "mr")
	if s.words[0] == "mr" {
		pd, access := get[*verbs.PD](s, "pd"), ib.Access(s.num("access"))
		buf, err := s.mapped(int(s.num("size")))
		if err != nil {
			return "", err
		}
		if iova := s.num("iova"); iova != 0 {
			m, err = pd.RegMREx(&verbs.MRAttr{Buf: buf, IOVA: iova, Access: access})
		} else {
			m, err = pd.RegMR(buf, access)
		}
		id, err := s.add(m, err)
		return fmt.Sprintf("%s addr=%#x lkey=%#x rkey=%#x", id, m.Addr(), uint32(m.LKey()), uint32(m.RKey())), err
	}
	if m == nil {
		return "", syscall.ENOENT
	}
	b := m.Bytes()[s.num("off"):]
	switch s.words[0] {
	case "sum":
		h := fnv.New64a()
		_, _ = h.Write(b[:s.num("len")])
		return fmt.Sprintf("sum=%#x", h.Sum64()), nil
	case "read":
		return "hex=" + hex.EncodeToString(b[:s.num("len")]), nil
	}
	_, err := hex.Decode(b, []byte(s.str("hex")))
	return "", err
}

// mapped returns memory that the race detector does not watch: a peer may write
// to a region while its program reads it, and a judge reads it before a
// completion allows that.
func (s *stand) mapped(n int) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, max(n, 1), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	s.maps = append(s.maps, b)
	return b[:n], nil
}

func (s *stand) createQP() (string, error) {
	a := &verbs.QPInitAttr{
		SendCQ: get[*verbs.CQ](s, "scq"), RecvCQ: get[*verbs.CQ](s, "rcq"), SRQ: get[*verbs.SRQ](s, "srq"), SQSig: ib.SigPerWR,
		Cap: ib.QPCap{
			MaxSendWR: uint32(s.num("swr")), MaxRecvWR: uint32(s.num("rwr")), MaxSendSGE: uint32(s.num("ssge")),
			MaxRecvSGE: uint32(s.num("rsge")), MaxInlineData: uint32(s.num("inline")),
		},
	}
	a.Type = map[string]ib.QPType{"RC": ib.RC, "UC": ib.UC, "UD": ib.UD}[s.str("type")]
	if s.num("sigall") == 1 {
		a.SQSig = ib.SigAll
	}
	q, err := get[*verbs.PD](s, "pd").CreateQP(a)
	id, err := s.add(q, err)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s qpn=%#x swr=1 rwr=1 ssge=1 rsge=1 inline=1", id, uint32(q.QPN())), nil
}

func (s *stand) modify() error {
	var at ib.QPAttr
	var mask ib.AttrMask
	n := func(key string) uint64 { return s.num(key) }
	for _, f := range []struct {
		key string
		bit ib.AttrMask
		set func()
	}{
		{"state", ib.AttrState, func() { at.State = ib.QPState(n("state")) }},
		{"cur_state", ib.AttrCurState, func() { at.CurState = ib.QPState(n("cur_state")) }},
		{"sqd_notify", ib.AttrEnSQDAsyncNotify, func() { at.EnSQDAsyncNotify = n("sqd_notify") == 1 }},
		{"access", ib.AttrAccessFlags, func() { at.AccessFlags = ib.Access(n("access")) }},
		{"pkey_index", ib.AttrPKeyIndex, func() { at.PKeyIndex = uint16(n("pkey_index")) }},
		{"port", ib.AttrPort, func() { at.Port = uint8(n("port")) }},
		{"qkey", ib.AttrQKey, func() { at.QKey = ib.QKey(n("qkey")) }},
		{"path_mtu", ib.AttrPathMTU, func() { at.PathMTU, _ = ib.MTUFor(int(n("path_mtu"))) }},
		{"timeout", ib.AttrTimeout, func() { at.Timeout = uint8(n("timeout")) }},
		{"retry_cnt", ib.AttrRetryCnt, func() { at.RetryCnt = uint8(n("retry_cnt")) }},
		{"rnr_retry", ib.AttrRNRRetry, func() { at.RNRRetry = uint8(n("rnr_retry")) }},
		{"rq_psn", ib.AttrRQPSN, func() { at.RQPSN = ib.NewPSN(uint32(n("rq_psn"))) }},
		{"sq_psn", ib.AttrSQPSN, func() { at.SQPSN = ib.NewPSN(uint32(n("sq_psn"))) }},
		{"max_rd_atomic", ib.AttrMaxRDAtomic, func() { at.MaxRDAtomic = uint8(n("max_rd_atomic")) }},
		{"max_dest_rd_atomic", ib.AttrMaxDestRDAtomic, func() { at.MaxDestRDAtomic = uint8(n("max_dest_rd_atomic")) }},
		{"min_rnr_timer", ib.AttrMinRNRTimer, func() { at.MinRNRTimer = uint8(n("min_rnr_timer")) }},
		{"dest_qpn", ib.AttrDestQPN, func() { at.DestQPN = ib.QPN(n("dest_qpn")) }},
		{"dgid", ib.AttrAV, func() { at.AV = s.vector() }},
		{"rate_limit", ib.AttrRateLimit, func() { at.RateLimit = uint32(n("rate_limit")) }},
	} {
		if s.str(f.key) != "" {
			mask |= f.bit
			f.set()
		}
	}
	return get[*verbs.QP](s, "qp").Modify(&at, mask)
}

// requests splits the words at ";" and calls do for each part.
func (s *stand) requests(do func()) {
	all := s.words
	for len(all) > 0 {
		n := 0
		for n < len(all) && all[n] != ";" {
			n++
		}
		s.words = all[:n]
		do()
		all = all[min(n+1, len(all)):]
	}
}

func (s *stand) sges() (list []ib.SGE) {
	for _, w := range s.words {
		v, ok := strings.CutPrefix(w, "sge=")
		if !ok {
			continue
		}
		raw := strings.HasPrefix(v, "@")
		p := strings.Split(strings.TrimPrefix(v, "@"), ":")
		var n [3]uint64
		for i := range n {
			n[i], _ = strconv.ParseUint(p[i], 0, 64)
		}
		e := ib.SGE{Addr: n[0], LKey: ib.LKey(n[1]), Length: uint32(n[2])}
		if m, _ := s.objects[n[0]].(*verbs.MR); m != nil && !raw {
			e.Addr, e.LKey = m.Addr()+n[1], m.LKey()
		}
		list = append(list, e)
	}
	return list
}

// bytes are what an inline request's elements name.
func (s *stand) bytes(list []ib.SGE) (out []byte) {
	for _, e := range list {
		for _, o := range s.objects {
			if m, ok := o.(*verbs.MR); ok && m.LKey() == e.LKey && e.Addr >= m.Addr() && e.Addr+uint64(e.Length) <= m.Addr()+m.Len() {
				out = append(out, m.Bytes()[e.Addr-m.Addr():][:e.Length]...)
			}
		}
	}
	return out
}

func (s *stand) post() error {
	q, srq, verb := get[*verbs.QP](s, "qp"), get[*verbs.SRQ](s, "srq"), s.words[0]
	var sends []verbs.SendWR
	var recvs []ib.RecvWR
	s.requests(func() {
		list := s.sges()
		if verb == "recv" {
			recvs = append(recvs, ib.RecvWR{WRID: s.num("wr"), SGList: list})
			return
		}
		w := verbs.SendWR{
			WRID: s.num("wr"), Flags: ib.SendFlags(s.num("flags")), SGList: list, ImmData: uint32(s.num("imm")), InvRKey: ib.RKey(s.num("inv")),
			RKey: ib.RKey(s.num("rkey")), RemoteAddr: s.num("raddr"), CompareAdd: s.num("compare_add"), Swap: s.num("swap"),
			AH: get[*verbs.AH](s, "ah"), RemoteQPN: ib.QPN(s.num("rqpn")), RemoteQKey: ib.QKey(s.num("rqkey")),
		}
		for op := ib.WRRDMAWrite; op <= ib.WRAtomicWrite; op++ {
			if op.String() == s.str("op") {
				w.Opcode = op
			}
		}
		if w.Flags&ib.SendInline != 0 {
			w.InlineData, w.SGList = s.bytes(list), nil
		}
		sends = append(sends, w)
	})
	switch {
	case verb == "post":
		return q.PostSend(sends...)
	case srq != nil:
		return srq.PostRecv(recvs...)
	}
	return q.PostRecv(recvs...)
}

func (s *stand) poll() (string, error) {
	var wcs [64]ib.WC
	n, err := get[*verbs.CQ](s, "cq").Poll(wcs[:])
	out := fmt.Sprintf("n=%d", n)
	for i := range n {
		w := &wcs[i]
		imm := w.ImmData
		if w.Flags&ib.WCWithInv != 0 {
			imm = uint32(w.InvRKey)
		}
		out += fmt.Sprintf(" wc=%x,%d,%d,%d,%x,%x,%x,%x,0,%d,0", w.WRID, w.Status, w.Opcode, w.ByteLen, uint8(w.Flags), imm, uint32(w.QPN), uint32(w.SrcQP), w.PKeyIndex)
	}
	return out, err
}

func (s *stand) events() (string, error) {
	out := "lost=0"
	for {
		e, err := s.hca.PollAsyncEvent()
		if err != nil {
			return out, nil // there are no more
		}
		if e.QP != nil {
			out += fmt.Sprintf(" event=%d,qp,%d", e.Type, s.ids[e.QP])
		}
		e.Ack()
	}
}

func (s *stand) destroy(id uint64) error {
	o, ok := s.objects[id]
	if !ok {
		return syscall.ENOENT
	}
	var err error
	switch o := o.(type) {
	case *verbs.QP:
		err = o.Destroy()
	case *verbs.CQ:
		err = o.Destroy()
	case *verbs.SRQ:
		err = o.Destroy()
	case *verbs.AH:
		err = o.Destroy()
	case *verbs.MR:
		err = o.Dereg()
	case *verbs.PD:
		err = o.Dealloc()
	}
	if err == nil {
		delete(s.objects, id)
	}
	return err
}

// reset destroys everything, users before what they use.
func (s *stand) reset() {
	_, _ = s.events() // a queue pair waits for its events to be acknowledged
	for range 4 {
		for id := range s.objects {
			_ = s.destroy(id) // those that others need are destroyed in a later round
		}
	}
	for _, b := range s.maps {
		if len(s.objects) == 0 {
			_ = syscall.Munmap(b) // it is no longer in use
		}
	}
	s.maps = nil
}
