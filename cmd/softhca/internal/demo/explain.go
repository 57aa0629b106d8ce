package demo

import (
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// explain says in plain words what a packet means; n is its payload in bytes.
func explain(p *roce.Packet, n int) string {
	start, end := p.Info.Flags&roce.FlagStart != 0, p.Info.Flags&roce.FlagEnd != 0
	switch p.Info.Kind {
	case roce.KindSend:
		return part(start, end) + please(p)
	case roce.KindWrite:
		if start {
			return fmt.Sprintf("put %d B at %#x, key %#08x", p.RETH.Length, p.RETH.VA, uint32(p.RETH.RKey))
		}
		return part(start, end) + please(p)
	case roce.KindReadRequest:
		return fmt.Sprintf("read %d B at %#x, key %#08x", p.RETH.Length, p.RETH.VA, uint32(p.RETH.RKey))
	case roce.KindReadResponse:
		return "the answer: " + answerPart(start, end, n)
	case roce.KindCompareSwap:
		return fmt.Sprintf("if %d is there, make it %d", p.AtomicETH.Compare, p.AtomicETH.SwapAdd)
	case roce.KindFetchAdd:
		return fmt.Sprintf("add %d to what is there", p.AtomicETH.SwapAdd)
	case roce.KindAtomicAck:
		return fmt.Sprintf("done: it was %d before", p.AtomicAck)
	case roce.KindAck:
		return verdict(p.AETH)
	default:
		return ""
	}
}

func part(start, end bool) string {
	switch {
	case start && end:
		return "the whole message"
	case start:
		return "a message begins, too long for one packet"
	case end:
		return "it ends"
	default:
		return "it goes on"
	}
}

func please(p *roce.Packet) string {
	if p.BTH.AckReq {
		return "; please acknowledge"
	}
	return ""
}

func answerPart(start, end bool, n int) string {
	switch {
	case start && end:
		return fmt.Sprintf("all %d B", n)
	case start:
		return fmt.Sprintf("the first %d B", n)
	case end:
		return fmt.Sprintf("the last %d B", n)
	default:
		return fmt.Sprintf("the next %d B", n)
	}
}

// verdict explains an acknowledge.
func verdict(h roce.AETH) string {
	switch s := h.Syndrome; {
	case s.IsACK():
		return fmt.Sprintf("all up to here arrived; %s done", messages(h.MSN))
	case s.IsRNR():
		return fmt.Sprintf("no receive is posted: wait %v", ib.RNRTimer(s.Value()))
	case s == roce.NAKSequence:
		return "a packet before this one is missing"
	case s == roce.NAKRemoteAccess:
		return "refused: this key opens nothing here"
	case s == roce.NAKInvalidRequest:
		return "refused: not a valid request"
	default:
		return "refused: it could not be done here"
	}
}

func messages(n ib.MSN) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
