package testagent

import (
	"context"
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
)

// SGE is an element of a work request: a part of a region or, if MR is nil,
// Addr and LKey.
type SGE struct {
	MR     *MR
	Off    uint64
	Addr   uint64
	LKey   ib.LKey
	Length uint32
}

// String returns the element in the protocol's form.
func (s SGE) String() string {
	if s.MR != nil {
		return fmt.Sprintf("sge=%d:%d:%d", s.MR.id, s.Off, s.Length)
	}
	return fmt.Sprintf("sge=@%#x:%#x:%d", s.Addr, uint32(s.LKey), s.Length)
}

// Copies makes more work requests of one: Count in all, each with an ID that
// is 1 more, and elements Stride bytes further than the one before. Count 0 is
// one.
type Copies struct {
	Count, Stride uint32
}

func (c Copies) keys() string {
	if c.Count <= 1 {
		return ""
	}
	return fmt.Sprintf(" count=%d stride=%d", c.Count, c.Stride)
}

// SendWR is a work request. With the flag SendInline the content of the
// elements is copied at posting, and so is the value of ATOMIC_WRITE, which must
// be the only request of a post.
type SendWR struct {
	WRID   uint64
	Opcode ib.WROpcode
	Flags  ib.SendFlags
	SGList []SGE
	Copies
	RemoteStride uint32 // of copies

	ImmData    uint32
	InvRKey    ib.RKey // SEND_WITH_INV, LOCAL_INV
	RemoteAddr uint64
	RKey       ib.RKey // of BIND_MW: the new key of the window
	CompareAdd uint64
	Swap       uint64

	AH         *AH // UD
	RemoteQPN  ib.QPN
	RemoteQKey ib.QKey

	Bind *Bind // BIND_MW
}

// Bind describes the range and the rights of a memory window. With Len 0, BindMW unbinds the
// window, and still needs a region.
type Bind struct {
	MW       *MW
	MR       *MR
	Off, Len uint64
	Access   ib.Access
}

func (b *Bind) keys() string {
	return fmt.Sprintf(" mw=%d mr=%d off=%d len=%d access=%#x", b.MW.id, b.MR.id, b.Off, b.Len, uint32(b.Access))
}

// BindMW binds a memory window of type 1, as ibv_bind_mw does, and changes its key.
func (q *QP) BindMW(ctx context.Context, wrID uint64, flags ib.SendFlags, b Bind) error {
	r, err := q.client.Do(ctx, fmt.Sprintf("bind qp=%d wr=%d flags=%#x%s", q.id, wrID, uint8(flags), b.keys()), 0)
	if err != nil {
		return err
	}
	key, err := r.Uint("rkey", 32)
	if err == nil {
		b.MW.RKey = ib.RKey(key)
	}
	return err
}

func (w *SendWR) keys() string {
	var b strings.Builder
	fmt.Fprintf(&b, "wr=%d op=%s flags=%#x", w.WRID, w.Opcode, uint8(w.Flags))
	for _, s := range w.SGList {
		b.WriteString(" " + s.String())
	}
	b.WriteString(w.Copies.keys())
	if w.RemoteStride != 0 {
		fmt.Fprintf(&b, " rstride=%d", w.RemoteStride)
	}
	switch w.Opcode {
	case ib.WRSendWithImm, ib.WRRDMAWriteWithImm:
		fmt.Fprintf(&b, " imm=%#x", w.ImmData)
	case ib.WRSendWithInv, ib.WRLocalInv:
		fmt.Fprintf(&b, " inv=%#x", uint32(w.InvRKey))
	default:
	}
	if w.RemoteAddr != 0 || w.RKey != 0 {
		fmt.Fprintf(&b, " raddr=%#x rkey=%#x", w.RemoteAddr, uint32(w.RKey))
	}
	if w.CompareAdd != 0 || w.Swap != 0 {
		fmt.Fprintf(&b, " compare_add=%d swap=%d", w.CompareAdd, w.Swap)
	}
	if w.AH != nil {
		fmt.Fprintf(&b, " ah=%d rqpn=%d rqkey=%d", w.AH.id, uint32(w.RemoteQPN), uint32(w.RemoteQKey))
	}
	if w.Bind != nil {
		b.WriteString(w.Bind.keys())
	}
	return b.String()
}

// RecvWR is a receive.
type RecvWR struct {
	WRID   uint64
	SGList []SGE
	Copies
}

func (w *RecvWR) keys() string {
	words := []string{fmt.Sprintf("wr=%d", w.WRID)}
	for _, s := range w.SGList {
		words = append(words, s.String())
	}
	return strings.Join(words, " ") + w.Copies.keys()
}

// PostSend posts work requests as one list, as ibv_post_send does. An *Error
// has the index of the first that was refused.
func (q *QP) PostSend(ctx context.Context, wrs ...SendWR) error {
	words := make([]string, len(wrs))
	for i := range wrs {
		words[i] = wrs[i].keys()
	}
	_, err := q.client.Do(ctx, fmt.Sprintf("post qp=%d %s", q.id, strings.Join(words, " ; ")), 0)
	return err
}

// PostRecv posts receives as one list.
func (q *QP) PostRecv(ctx context.Context, wrs ...RecvWR) error {
	return postRecv(ctx, q.handle, "qp", wrs)
}

// PostRecv posts receives as one list.
func (s *SRQ) PostRecv(ctx context.Context, wrs ...RecvWR) error {
	return postRecv(ctx, s.handle, "srq", wrs)
}

func postRecv(ctx context.Context, h handle, key string, wrs []RecvWR) error {
	words := make([]string, len(wrs))
	for i := range wrs {
		words[i] = wrs[i].keys()
	}
	_, err := h.client.Do(ctx, fmt.Sprintf("recv %s=%d %s", key, h.id, strings.Join(words, " ; ")), 0)
	return err
}
