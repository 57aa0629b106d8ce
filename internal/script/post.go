package script

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// maxPosts bounds the requests of one command.
const maxPosts = 1 << 16

// ids takes id=N or id=N..M.
func (a *args) ids() (lo, hi uint64) {
	s := a.str("id", "")
	if s == "" {
		a.fail(fmt.Errorf("want id=N, or id=N..M for several requests"))
		return 0, 0
	}
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		to = from
	}
	var err1, err2 error
	lo, err1 = a.w.eval(from, plainNumber)
	hi, err2 = a.w.eval(to, plainNumber)
	if err := cmp.Or(err1, err2); err != nil {
		a.fail(fmt.Errorf("id: %w", err))
	} else if hi < lo || hi-lo >= maxPosts {
		a.fail(fmt.Errorf("id: %s is no range of at most %d requests", s, maxPosts))
	}
	return lo, hi
}

// sges takes the remaining words as scatter/gather elements ADDR[:LEN[:KEY]]. A
// region's name as ADDR gives its key and, without LEN, the length to the
// region's end.
func (a *args) sges() []ib.SGE {
	var list []ib.SGE
	force := a.has("lkey")
	lkey := ib.LKey(a.num("lkey", 0, key))
	for _, word := range a.words {
		e, err := a.w.element(word)
		if err != nil {
			a.fail(fmt.Errorf("%s: %w", word, err))
		}
		if force {
			e.LKey = lkey
		}
		list = append(list, e)
	}
	a.words = nil
	return list
}

func (r *registry) element(word string) (e ib.SGE, err error) {
	parts := strings.Split(word, ":")
	if len(parts) > 3 {
		return e, fmt.Errorf("want ADDR[:LEN[:KEY]]")
	}
	if e.Addr, err = r.eval(parts[0], address); err != nil {
		return e, err
	}
	name, _, _ := strings.Cut(strings.NewReplacer("-", "+", "^", "+").Replace(parts[0]), "+")
	m, _ := r.objects[name].(*region)
	if m != nil {
		e.LKey = m.mr.LKey()
		e.Length = uint32(m.mr.Addr() + m.mr.Len() - e.Addr)
	}
	if len(parts) > 1 {
		n, err := r.eval(parts[1], plainNumber)
		if err != nil {
			return e, err
		}
		e.Length = uint32(n)
	} else if m == nil {
		return e, fmt.Errorf("a plain address needs its length")
	}
	if len(parts) > 2 {
		k, err := r.eval(parts[2], key)
		if err != nil {
			return e, err
		}
		e.LKey = ib.LKey(k)
	}
	return e, nil
}

// post posts send requests: post QP OPERATION id=N ELEMENT... and fields.
func (w *world) post(q *pair, a *args) error {
	op, err := parseOperation(a.word("an operation"))
	if err != nil {
		return cmp.Or(a.err, err)
	}
	wr := ib.SendWR{Opcode: op}
	for _, f := range [...]struct {
		name string
		bit  ib.SendFlags
	}{{"signaled", ib.SendSignaled}, {"fence", ib.SendFence}, {"solicited", ib.SendSolicited}, {"inlined", ib.SendInline}} {
		if a.flag(f.name) {
			wr.Flags |= f.bit
		}
	}
	if a.has("inline") {
		wr.InlineData = a.data("inline")
		wr.Flags |= ib.SendInline
	}
	wr.ImmData = uint32(a.small("imm", 0, 32))
	wr.InvRKey = ib.RKey(a.num("inv", 0, key))
	wr.RKey, wr.RemoteAddr = ib.RKey(a.num("rkey", peerKey, key)), a.num("va", peerAddr, address)
	wr.CompareAdd, wr.Swap = a.num("compare", 0, plainNumber), a.num("swap", 0, plainNumber)
	if op == ib.WRFlush {
		wr.Flush = ib.Flush{
			Length: uint32(a.small("dlen", 0, 32)), Type: ib.FlushType(a.small("plt", uint64(ib.FlushGlobal), 8)), Level: ib.FlushLevel(a.small("sel", 0, 8)),
		}
	}
	if op == ib.WRAtomicFetchAdd {
		wr.CompareAdd = a.num("add", 0, plainNumber)
	}
	if q.Type() == ib.UD || q.Type() == ib.GSI {
		wr.RemoteQPN = ib.QPN(a.num("dest", uint64(q.attr.DestQPN), number))
		wr.RemoteQKey = ib.QKey(a.num("qkey", uint64(q.attr.QKey), plainNumber))
		if wr.AH, err = w.ahOf(a); err != nil {
			return err
		}
	}
	if q.Type() == ib.RD {
		wr.RemoteQPN = ib.QPN(a.num("dest", peerQPN+1, number))
		wr.RemoteQKey = ib.QKey(a.num("qkey", uint64(q.attr.QKey), plainNumber))
		wr.EEC = ib.EECN(a.num("eec", uint64(w.usualEEC()), number))
	}
	if q.Type() == ib.XRCIni {
		wr.RemoteSRQN = ib.SRQN(a.num("srqn", peerSRQN, number))
	}
	lo, hi := a.ids()
	wr.SGList = a.sges()
	if op == ib.WRBindMW {
		if err := bind(a, &wr); err != nil {
			return err
		}
	}
	if err := a.done(); err != nil {
		return err
	}
	wrs := make([]ib.SendWR, 0, hi-lo+1)
	for wr.WRID = lo; wr.WRID <= hi; wr.WRID++ {
		wrs = append(wrs, wr)
	}
	w.rec.did("post", PostSend{q.name, wrs})
	if n, err := q.PostSend(wrs...); err != nil {
		w.refusedAt(lo+uint64(n), err)
	}
	w.HCA.Single().RingDoorbell(q.QP)
	return nil
}

// bind takes the fields of a BIND_MW; its element says what the window is bound to, and no element
// unbinds it.
func bind(a *args, wr *ib.SendWR) error {
	access, err := parseAccess(a.str("access", "remote_write|remote_read|remote_atomic"))
	if err != nil {
		return err
	}
	b := &ib.MWBind{RKey: ib.RKey(a.num("mw", 0, key)), Access: access}
	b.NewRKey = ib.RKey(a.num("tag", uint64(b.RKey.Inc()), key))
	if len(wr.SGList) > 1 {
		return fmt.Errorf("BIND_MW takes one element: part of a region")
	}
	for _, e := range wr.SGList {
		b.LKey, b.Addr, b.Length = e.LKey, e.Addr, uint64(e.Length)
	}
	wr.Bind, wr.SGList = b, nil
	return nil
}

// refusedAt shows that a post was refused at a request.
func (w *world) refusedAt(id uint64, err error) { w.refused(fmt.Errorf("id %d: %w", id, err)) }

func parseOperation(s string) (ib.WROpcode, error) {
	var known []string
	for op := ib.WRRDMAWrite; op <= ib.WRAtomicWrite; op++ {
		if op.String() == s {
			return op, nil
		}
		if !strings.Contains(op.String(), "(") {
			known = append(known, op.String())
		}
	}
	if n, err := strconv.ParseUint(s, 0, 8); err == nil {
		return ib.WROpcode(n), nil
	}
	return 0, fmt.Errorf("there is no operation %s%s", s, hint(s, known))
}

// recv posts receive requests to a queue pair or a shared receive queue: recv
// NAME id=N ELEMENT...
func (w *world) recv(a *args) error {
	name := a.word("a queue pair or a shared receive queue")
	lo, hi := a.ids()
	list := a.sges()
	if err := a.done(); err != nil {
		return err
	}
	wrs := make([]ib.RecvWR, 0, hi-lo+1)
	for id := lo; id <= hi; id++ {
		wrs = append(wrs, ib.RecvWR{WRID: id, SGList: list})
	}
	w.rec.did("recv", PostRecv{name, wrs})
	switch o := w.objects[name].(type) {
	case *sharedQueue:
		for i := range wrs {
			if err := o.srq.PostRecv(&wrs[i]); err != nil {
				w.refusedAt(wrs[i].WRID, err)
				break
			}
		}
		return nil
	case *pair:
		if o.eec != nil {
			return fmt.Errorf("%s is an EE context, which takes no receives", name)
		}
		if n, err := o.PostRecv(wrs...); err != nil {
			w.refusedAt(lo+uint64(n), err)
		}
		w.HCA.Single().RingDoorbell(o.QP)
		return nil
	}
	return fmt.Errorf("there is no queue pair or shared receive queue called %q", name)
}
