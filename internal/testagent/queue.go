package testagent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
)

// MaxPoll is the most completions that one Poll returns.
const MaxPoll = 512

// CQ is a completion queue.
type CQ struct {
	handle
	Cap int
}

// CreateCQ returns a completion queue of at least cqe entries, with a
// completion channel of its own if notify is set.
func (c *Client) CreateCQ(ctx context.Context, cqe int, notify bool) (*CQ, error) {
	events := 0
	if notify {
		events = 1
	}
	h, r, err := c.create(ctx, fmt.Sprintf("cq cqe=%d events=%d", cqe, events))
	if err != nil {
		return nil, err
	}
	n, err := r.Uint("cqe", 31)
	return &CQ{h, int(n)}, err
}

// Resize changes the number of entries.
func (q *CQ) Resize(ctx context.Context, cqe int) error {
	r, err := q.client.Do(ctx, fmt.Sprintf("resize cq=%d cqe=%d", q.id, cqe), 0)
	if err != nil {
		return err
	}
	n, err := r.Uint("cqe", 31)
	q.Cap = int(n)
	return err
}

// Poll takes n completions, at most MaxPoll, and waits for them for at most
// wait. With n 0 it takes those that are there, without waiting.
func (q *CQ) Poll(ctx context.Context, n int, wait time.Duration) ([]ib.WC, error) {
	ms, wait := waitMS(wait)
	r, err := q.client.Do(ctx, fmt.Sprintf("poll cq=%d n=%d ms=%d", q.id, n, ms), wait)
	if err != nil {
		return nil, err
	}
	var all []ib.WC
	for _, s := range r.All("wc") {
		w, err := parseWC(s)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func parseWC(s string) (ib.WC, error) {
	rc := record{words: strings.Split(s, ",")}
	w := ib.WC{
		WRID: rc.uint(16, 64), Status: ib.WCStatus(rc.uint(10, 8)), Opcode: ib.WCOpcode(rc.uint(10, 8)), ByteLen: uint32(rc.uint(10, 32)),
		Flags: ib.WCFlags(rc.uint(16, 8)),
	}
	imm := uint32(rc.uint(16, 32))
	if w.Flags&ib.WCWithInv != 0 {
		w.InvRKey = ib.RKey(imm)
	} else {
		w.ImmData = imm
	}
	w.QPN, w.SrcQP, w.VendorErr = ib.QPN(rc.uint(16, 32)), ib.QPN(rc.uint(16, 32)), uint32(rc.uint(16, 32))
	w.PKeyIndex, w.SL = uint16(rc.uint(10, 16)), uint8(rc.uint(10, 8))
	if rc.err != nil {
		return ib.WC{}, fmt.Errorf("test agent: wc=%.120q: %w", s, rc.err)
	}
	return w, nil
}

// Arm asks for an event at the next completion, or the next that is solicited
// or unsuccessful.
func (q *CQ) Arm(ctx context.Context, solicitedOnly bool) error {
	solicited := 0
	if solicitedOnly {
		solicited = 1
	}
	_, err := q.client.Do(ctx, fmt.Sprintf("arm cq=%d solicited=%d", q.id, solicited), 0)
	return err
}

// Notified returns how many events the completion channel had; it waits for the
// first.
func (q *CQ) Notified(ctx context.Context, wait time.Duration) (int, error) {
	ms, wait := waitMS(wait)
	r, err := q.client.Do(ctx, fmt.Sprintf("notified cq=%d ms=%d", q.id, ms), wait)
	if err != nil {
		return 0, err
	}
	n, err := r.Uint("n", 31)
	return int(n), err
}

// SRQConfig describes a shared receive queue to create.
type SRQConfig struct {
	MaxWR, MaxSGE, Limit uint32
}

// SRQ is a shared receive queue.
type SRQ struct{ handle }

// CreateSRQ returns a shared receive queue.
func (p *PD) CreateSRQ(ctx context.Context, cfg SRQConfig) (*SRQ, error) {
	h, _, err := p.client.create(ctx, fmt.Sprintf("srq pd=%d wr=%d sge=%d limit=%d", p.id, cfg.MaxWR, cfg.MaxSGE, cfg.Limit))
	return &SRQ{h}, err
}

// SetLimit arms the event SRQ_LIMIT_REACHED.
func (s *SRQ) SetLimit(ctx context.Context, n uint32) error {
	_, err := s.client.Do(ctx, fmt.Sprintf("srq_limit srq=%d limit=%d", s.id, n), 0)
	return err
}
