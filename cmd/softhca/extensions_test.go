package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/cmd/softhca/internal/adapter"
	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/explain"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// half is one of two adapters in memory, with an object of each kind.
type half struct {
	*adapter.Resources
	pd     *verbs.PD
	cq     *verbs.CQ
	mr     *verbs.MR // with all rights except FLUSH_PERSISTENT
	qp     *verbs.QP
	secret *verbs.MR // without remote rights
	window *verbs.MW
	domain *verbs.XRCDomain
	srq    *verbs.SRQ
}

// pair is a requester, which captures, and a responder, connected over RC or XRC.
type pair struct {
	t         *testing.T
	near, far *half
	file      string
}

func newPair(t *testing.T, xrc bool) *pair {
	t.Helper()
	p := &pair{t: t, file: filepath.Join(t.TempDir(), "x.pcapng")}
	f, err := os.Create(p.file)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, f.Close()) })
	n := verbs.NewNetwork()
	open := func(c verbs.Config, target bool) *half {
		c.Network, c.ProbeAfter = n, 10*time.Second // no probes, even on a busy host
		dev, err := verbs.Open(c)
		must.Do(t, err)
		r := adapter.NewResources(dev)
		h := &half{Resources: r, pd: r.NewPD(), cq: r.NewCQ(64, nil)}
		h.mr = r.NewMR(h.pd, 4096, ib.AccessLocalWrite|ib.AccessRemote|ib.AccessFlushGlobal)
		h.secret = r.NewMR(h.pd, 4096, ib.AccessLocalWrite|ib.AccessMWBind)
		h.window = r.NewMW(h.pd, ib.MWType2)
		h.domain = r.NewXRCDomain()
		h.srq = r.NewXRCSRQ(h.pd, h.domain, h.cq, 16)
		attr := &verbs.QPInitAttr{Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq, SQSig: ib.SigAll, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}
		switch {
		case xrc && target:
			h.qp = r.NewXRCTarget(h.domain)
		case xrc:
			attr.Type, attr.RecvCQ, attr.Cap.MaxRecvWR, attr.Cap.MaxRecvSGE = ib.XRCIni, nil, 0, 0
			fallthrough
		default:
			h.qp = r.NewQP(h.pd, attr)
		}
		must.Do(t, r.Err())
		return h
	}
	p.near, p.far = open(verbs.Config{Addr: "10.0.0.1", Capture: f}, false), open(verbs.Config{Addr: "10.0.0.2"}, true)
	for _, end := range [2][2]*half{{p.near, p.far}, {p.far, p.near}} {
		must.Do(t, adapter.Move(end[0].qp, ib.QPAttr{
			Port: 1, AccessFlags: ib.AccessRemote | ib.AccessFlush, PathMTU: ib.MTU1024, DestQPN: end[1].qp.QPN(), MaxDestRDAtomic: 1, MaxRDAtomic: 1,
			AV: ib.AHAttr{DGID: end[1].Device.QueryGID(0), HopLimit: 64, Port: 1}, Timeout: 14, RetryCnt: 3, RNRRetry: 7,
		}, ib.INIT, ib.RTR, ib.RTS))
	}
	return p
}

// done waits for the completion of a request, and returns its status.
func (h *half) done(t *testing.T) ib.WCStatus {
	t.Helper()
	must.Do(t, h.cq.Wait(t.Context()))
	var wc [1]verbs.WC
	_, err := h.cq.Poll(wc[:])
	must.Do(t, err)
	return wc[0].Status
}

// request posts a request of the requester and returns its status. The request has the address and key
// of the responder's region, unless change replaces them.
func (p *pair) request(op ib.WROpcode, n uint32, change func(*verbs.SendWR)) ib.WCStatus {
	p.t.Helper()
	wr := verbs.SendWR{
		Opcode: op, SGList: []verbs.SGE{p.near.mr.SGE(0, n)}, RemoteAddr: p.far.mr.Addr(), RKey: p.far.mr.RKey(), RemoteSRQN: p.far.srq.Number(),
	}
	if op == ib.WRFlush {
		wr.SGList, wr.Flush = nil, verbs.Flush{Length: n, Type: verbs.FlushGlobal}
	}
	if p.near.qp.Type() == ib.RC {
		wr.RemoteSRQN = 0
	}
	if change != nil {
		change(&wr)
	}
	must.Do(p.t, p.near.qp.PostSend(wr))
	return p.near.done(p.t)
}

// local posts a request of the responder and returns its status.
func (p *pair) local(wr verbs.SendWR) ib.WCStatus {
	p.t.Helper()
	must.Do(p.t, p.far.qp.PostSend(wr))
	return p.far.done(p.t)
}

// bind binds the window of the responder to 64 bytes of a region.
func (p *pair) bind(mr *verbs.MR, rights ib.Access) ib.WCStatus {
	p.t.Helper()
	w := p.far.window
	return p.local(verbs.SendWR{Opcode: ib.WRBindMW, Bind: &verbs.MWBind{
		MW: w, RKey: w.RKey().Inc(), MR: mr, Addr: mr.Addr(), Length: 64, Access: rights,
	}})
}

// through makes a request use the window.
func (p *pair) through(wr *verbs.SendWR) {
	wr.RemoteAddr, wr.RKey = p.far.secret.Addr(), p.far.window.RKey()
}

// receive posts a receive of the responder.
func (p *pair) receive() {
	p.t.Helper()
	wr := verbs.RecvWR{SGList: []verbs.SGE{p.far.mr.SGE(0, 64)}}
	if p.near.qp.Type() == ib.XRCIni {
		must.Do(p.t, p.far.srq.PostRecv(wr))
	} else {
		must.Do(p.t, p.far.qp.PostRecv(wr))
	}
}

// explainedPrograms are programs with memory windows, ATOMIC WRITE, FLUSH and XRC, and what explain
// and decode must say of their packets.
var explainedPrograms = map[string]struct {
	xrc     bool
	play    func(p *pair) ib.WCStatus // returns the status of the requester
	status  ib.WCStatus
	outcome string
	cause   string
	lines   []string // parts of lines of decode
}{
	"atomic write": {
		play:    func(p *pair) ib.WCStatus { return p.request(ib.WRAtomicWrite, 8, nil) },
		outcome: "clean", lines: []string{"RC_ATOMIC_WRITE ", " len 8  payload 8 ", "RC_RDMA_READ_RESPONSE_ONLY"},
	},
	"atomic write unaligned": {
		play: func(p *pair) ib.WCStatus {
			return p.request(ib.WRAtomicWrite, 8, func(wr *verbs.SendWR) { wr.RemoteAddr += 4 })
		},
		status: ib.WCRemInvReqErr, outcome: "failed", cause: "atomic-unaligned", lines: []string{"NAK_INVALID_REQUEST"},
	},
	"fetch and add unaligned": {
		play: func(p *pair) ib.WCStatus {
			return p.request(ib.WRAtomicFetchAdd, 8, func(wr *verbs.SendWR) { wr.RemoteAddr += 2 })
		},
		status: ib.WCRemInvReqErr, outcome: "failed", cause: "atomic-unaligned",
	},
	"flush": {
		play: func(p *pair) ib.WCStatus {
			p.request(ib.WRRDMAWrite, 64, nil)
			return p.request(ib.WRFlush, 64, nil)
		},
		outcome: "clean", lines: []string{"RC_FLUSH ", "flush global range  va 0x", " len 64  payload 0 "},
	},
	"flush without the right of the region": {
		play: func(p *pair) ib.WCStatus {
			return p.request(ib.WRFlush, 64, func(wr *verbs.SendWR) { wr.Flush.Type = verbs.FlushPersistent })
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "flush-refused", lines: []string{"flush persistent range", "NAK_REMOTE_ACCESS"},
	},
	"flush without the right of the queue pair": {
		play: func(p *pair) ib.WCStatus {
			must.Do(p.t, p.far.qp.Modify(&ib.QPAttr{State: ib.RTS, AccessFlags: ib.AccessRemote}, ib.AttrState|ib.AttrAccessFlags))
			return p.request(ib.WRFlush, 64, nil)
		},
		status: ib.WCRemInvReqErr, outcome: "failed", cause: "invalid-request",
	},
	"window": {
		play: func(p *pair) ib.WCStatus {
			p.bind(p.far.secret, ib.AccessRemoteWrite)
			return p.request(ib.WRRDMAWrite, 64, p.through)
		},
		outcome: "clean", lines: []string{"RC_RDMA_WRITE_ONLY"},
	},
	"window invalidated by its owner": {
		play: func(p *pair) ib.WCStatus {
			p.bind(p.far.secret, ib.AccessRemoteWrite)
			p.request(ib.WRRDMAWrite, 64, p.through)
			p.local(verbs.SendWR{Opcode: ib.WRLocalInv, InvRKey: p.far.window.RKey()})
			return p.request(ib.WRRDMAWrite, 8, p.through)
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "key-gone",
	},
	"window bound again": {
		play: func(p *pair) ib.WCStatus {
			p.bind(p.far.secret, ib.AccessRemoteRead)
			old := p.far.window.RKey()
			p.request(ib.WRRDMARead, 64, p.through)
			p.local(verbs.SendWR{Opcode: ib.WRLocalInv, InvRKey: old})
			p.bind(p.far.secret, ib.AccessRemoteRead)
			p.request(ib.WRRDMARead, 64, p.through)
			return p.request(ib.WRRDMARead, 64, func(wr *verbs.SendWR) {
				p.through(wr)
				wr.RKey = old
			})
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "key-gone",
	},
	"window invalidated by the peer": {
		play: func(p *pair) ib.WCStatus {
			p.bind(p.far.secret, ib.AccessRemoteWrite)
			p.request(ib.WRRDMAWrite, 64, p.through)
			p.receive()
			p.request(ib.WRSendWithInv, 4, func(wr *verbs.SendWR) { wr.InvRKey = p.far.window.RKey() })
			return p.request(ib.WRRDMAWrite, 64, p.through)
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "key-invalidated", lines: []string{"RC_SEND_ONLY_WITH_INV", " inv_rkey 0x"},
	},
	"window without the right": {
		play: func(p *pair) ib.WCStatus {
			p.bind(p.far.secret, ib.AccessRemoteRead)
			p.request(ib.WRRDMARead, 64, p.through)
			return p.request(ib.WRRDMAWrite, 64, p.through)
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "write-refused",
	},
	"beyond the window": {
		play: func(p *pair) ib.WCStatus {
			p.bind(p.far.secret, ib.AccessRemoteWrite)
			p.request(ib.WRRDMAWrite, 64, p.through)
			return p.request(ib.WRRDMAWrite, 65, p.through)
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "write-refused",
	},
	"refused bind": { // no packet shows it: the responder's queue pair is in ERR
		play: func(p *pair) ib.WCStatus {
			p.request(ib.WRRDMAWrite, 64, nil)
			if s := p.bind(p.far.mr, ib.AccessRemoteWrite); s != ib.WCMWBindErr {
				p.t.Errorf("the bind to a region without MW_BIND: %v", s)
			}
			return p.request(ib.WRRDMAWrite, 64, nil)
		},
		status: ib.WCRetryExcErr, outcome: "failed", cause: "went-silent",
	},
	"xrc": {
		xrc: true,
		play: func(p *pair) (last ib.WCStatus) {
			p.receive()
			for op, n := range map[ib.WROpcode]uint32{ib.WRRDMAWrite: 64, ib.WRRDMARead: 64, ib.WRAtomicFetchAdd: 8, ib.WRAtomicWrite: 8, ib.WRFlush: 64, ib.WRSend: 4} {
				last = max(last, p.request(op, n, nil))
			}
			return last
		},
		outcome: "clean",
		lines:   []string{"XRC_SEND_ONLY ", "XRC_RDMA_WRITE_ONLY", "XRC_RDMA_READ_REQUEST", "XRC_FETCH_ADD", "XRC_ATOMIC_WRITE", "XRC_FLUSH", "srqn 0x"},
	},
	"xrc unknown queue": {
		xrc: true,
		play: func(p *pair) ib.WCStatus {
			p.receive()
			p.request(ib.WRSend, 4, nil)
			return p.request(ib.WRSend, 4, func(wr *verbs.SendWR) { wr.RemoteSRQN ^= 1 })
		},
		status: ib.WCRemInvReqErr, outcome: "failed", cause: "srq-unknown", lines: []string{"XRC_ACKNOWLEDGE", "NAK_INVALID_REQUEST"},
	},
	"xrc key of a region that does not write": {
		xrc: true,
		play: func(p *pair) ib.WCStatus {
			return p.request(ib.WRRDMAWrite, 4, func(wr *verbs.SendWR) { wr.RemoteAddr, wr.RKey = p.far.secret.Addr(), p.far.secret.RKey() })
		},
		status: ib.WCRemAccessErr, outcome: "failed", cause: "write-refused",
	},
}

// TestM1_M2_M4_M5_M6_ExplainAndDecode captures programs that use memory windows, ATOMIC WRITE, FLUSH and
// XRC, correctly and incorrectly, and runs both commands on the captures.
func TestM1_M2_M4_M5_M6_ExplainAndDecode(t *testing.T) {
	for name, c := range explainedPrograms {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, c.xrc)
			if got := c.play(p); got != c.status {
				t.Errorf("the last request completes with %v, want %v", got, c.status)
			}
			for _, h := range [...]*half{p.near, p.far} {
				must.Do(t, h.Close())
				must.Do(t, h.Device.Close())
			}
			f, err := os.Open(p.file)
			must.Do(t, err)
			defer f.Close()
			r, err := explain.Read(f, explain.Config{})
			must.Do(t, err)
			if v := &r.Verdict; v.Outcome != c.outcome || v.Cause != c.cause {
				t.Errorf("explain says %s %s, want %s %s: %s", v.Outcome, v.Cause, c.outcome, c.cause, v.Where)
			}
			if c.outcome == "failed" && !strings.HasPrefix(r.Verdict.Requester, c.status.String()+" ") {
				t.Errorf("explain names the status %q, the program got %v", r.Verdict.Requester, c.status)
			}
			code, out, errs := command(t, "decode", p.file)
			if code != exitOK {
				t.Errorf("decode: exit code %d, %s", code, errs)
			}
			for _, want := range c.lines {
				if !strings.Contains(out, want) {
					t.Errorf("decode prints no %q:\n%s", want, out)
				}
			}
		})
	}
}
