package explain

import (
	"slices"

	"github.com/softhca/softhca/ib"
)

// span is a range of responses to a READ, counted from its first one, without to.
type span struct{ from, to uint32 }

// receive records a response to a message: rsp counts the responses in order, ahead has
// those after a gap. A requester may request only the gap again.
func (o *op) receive(at uint32) {
	switch {
	case at < o.rsp:
	case at == o.rsp:
		o.rsp++
		for len(o.ahead) > 0 && o.ahead[0].from <= o.rsp {
			o.rsp = max(o.rsp, o.ahead[0].to)
			o.ahead = slices.Delete(o.ahead, 0, 1)
		}
	default:
		o.rspGap = true // the requester will request the missing responses
		o.insert(span{at, at + 1})
	}
}

// insert adds a span to ahead, whose spans ascend and do not touch.
func (o *op) insert(s span) {
	k := 0
	for k < len(o.ahead) && o.ahead[k].to < s.from {
		k++
	}
	end := k
	for end < len(o.ahead) && o.ahead[end].from <= s.to {
		s.from, s.to = min(s.from, o.ahead[end].from), max(s.to, o.ahead[end].to)
		end++
	}
	if end == k && len(o.ahead) >= maxGaps {
		return
	}
	o.ahead = slices.Replace(o.ahead, k, end, s)
}

// reread records that n responses are requested again, starting with from. If that is the
// first missing one, the requester may have kept those that came after it.
func (o *op) reread(from, n uint32) {
	if from == o.rsp && len(o.ahead) > 0 {
		o.rspGap = false
		return
	}
	var kept []span
	for _, s := range append([]span{{0, o.rsp}}, o.ahead...) {
		for _, part := range [...]span{{s.from, min(s.to, from)}, {max(s.from, from+n), s.to}} {
			if part.from < part.to {
				kept = append(kept, part)
			}
		}
	}
	o.rsp, o.ahead, o.rspGap = 0, nil, false
	for _, s := range kept {
		if s.from <= o.rsp {
			o.rsp = max(o.rsp, s.to)
		} else {
			o.insert(s)
		}
	}
}

// intact holds the PSNs of the latest responses that reached the requester, in the order of
// arrival.
type intact struct{ runs []run }

// run is n PSNs in a row.
type run struct {
	from ib.PSN
	n    uint32
}

// add adds a response. It forgets runs so far from it that their PSNs may belong to other
// requests, and the oldest run if there are too many.
func (t *intact) add(psn ib.PSN) {
	if last := len(t.runs) - 1; last >= 0 && t.runs[last].from.Add(t.runs[last].n) == psn && t.runs[last].n < maxJump {
		t.runs[last].n++
		return
	}
	t.runs = slices.DeleteFunc(t.runs, func(r run) bool { d := psn.Diff(r.from); return d > 2*maxJump || d < -2*maxJump })
	if len(t.runs) >= maxGaps {
		t.runs = slices.Delete(t.runs, 0, 1)
	}
	t.runs = append(t.runs, run{psn, 1})
}

// has reports whether a response reached the requester.
func (t *intact) has(psn ib.PSN) bool {
	return slices.ContainsFunc(t.runs, func(r run) bool { return psn.InWindow(r.from, r.n) })
}
