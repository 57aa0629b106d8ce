//go:build !portable

package udp

import (
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/ident"
)

// sendRefused sends a run that the kernel refused as a whole. If the kernel
// accepts the single segments, it does not support offload, which is not tried
// again.
func (p *Port) sendRefused(s *socket, r *fabric.Run) (int, error) {
	sent, errs := p.send.sent.packets, p.SendErrors.Load()
	n, err := p.sendSegments(s, r)
	if p.send.sent.packets > sent && p.SendErrors.Load() == errs {
		p.send.gso = false
	}
	return n, err
}

// sendSegments sends the segments of a run one by one. Each is sent with
// identification 0, so its ICRC is updated. If the socket has no room for all,
// it cuts the run to the rest and renumbers that.
func (p *Port) sendSegments(s *socket, r *fabric.Run) (int, error) {
	for at := 0; at < r.Count; {
		n := p.send.fillSegments(s, r, at)
		done, e := p.send.many(s, n)
		if e != 0 {
			done = 0
		}
		for i := at + done; i < at+n; i++ {
			ident.Move(r, i, 0, uint16(i))
		}
		for i := at; i < at+done; i++ {
			p.send.sent.add(1, len(r.Segment(i)))
		}
		at += done
		if e == 0 {
			continue
		}
		switch verdict(e) {
		case again:
		case blocked:
			p.blocked.Store(s.index)
			ident.Cut(r, at)
			return 0, fabric.ErrBlocked
		default:
			p.SendErrors.Add(1)
			at++
		}
	}
	return 1, nil
}

// fillSegments prepares messages for the segments of r from index at and
// returns their number.
func (t *sender) fillSegments(s *socket, r *fabric.Run, at int) int {
	n := min(r.Count-at, vectorLen)
	for i := range n {
		seg := fabric.Run{Path: r.Path, Bytes: r.Segment(at + i), Count: 1}
		ident.Move(r, at+i, uint16(at+i), 0)
		t.fill(i, s, &seg)
		t.v.msgs[i].hdr.SetControllen(t.v.ctrls[i].putRun(&seg))
	}
	return n
}
