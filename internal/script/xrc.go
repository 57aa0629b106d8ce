package script

import (
	"cmp"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/qp"
)

// addXRCD opens an XRC domain: xrcd NAME.
func (w *world) addXRCD(a *args) error {
	name := a.word("a name")
	if a.err != nil {
		return a.err
	}
	d, err := w.HCA.OpenXRCD()
	return w.created(name, &domainXRC{d}, err)
}

// xrcOf takes what a shared receive queue of XRC has: xrcd=D cq=C.
func (r *registry) xrcOf(a *args) (*qp.XRCD, *qp.CQ, error) {
	d, err := find[*domainXRC](r, a.str("xrcd", ""))
	if err != nil {
		return nil, nil, err
	}
	k, err := find[*queue](r, a.str("cq", usualCQ))
	if err = cmp.Or(a.err, err); err != nil {
		return nil, nil, err
	}
	return d.xrcd, k.cq, nil
}

// xrcConfig takes xrcd=NAME, and leaves out of a queue pair of XRC what it does not have.
func (r *registry) xrcConfig(a *args, q *pair, c *hca.QPConfig) error {
	switch c.Type {
	case ib.XRCIni:
		c.RecvCQ = nil
	case ib.XRCTgt:
		q.pd, c.SendCQ, c.RecvCQ = nil, nil, nil
		if !a.has("xrcd") {
			return nil
		}
		d, err := find[*domainXRC](r, a.str("xrcd", ""))
		if err != nil {
			return err
		}
		c.XRCD = d.xrcd
	}
	return nil
}

// usualSRQN returns the number of the first shared receive queue of XRC, for packets that name
// none.
func (r *registry) usualSRQN() ib.SRQN {
	if len(r.srqns) == 0 {
		return 0
	}
	return r.srqns[0]
}
