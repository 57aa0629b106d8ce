package script

import (
	"cmp"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
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

// addXRCSRQ creates a shared receive queue of XRC: srq NAME xrcd=D cq=C. sizes are its work
// requests, elements and limit.
func (w *world) addXRCSRQ(a *args, name string, pd *hca.PD, sizes [3]uint32) error {
	d, err := find[*domainXRC](&w.registry, a.str("xrcd", ""))
	if err != nil {
		return err
	}
	k, err := find[*queue](&w.registry, a.str("cq", usualCQ))
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	s, err := pd.CreateXRCSRQ(d.xrcd, k.cq, sizes[0], sizes[1], sizes[2])
	if err == nil {
		w.srqns = append(w.srqns, s.Num())
	}
	return w.created(name, &sharedQueue{name, pd, s}, err)
}

// xrcConfig takes xrcd=NAME, and leaves out of a queue pair of XRC what it does not have.
func (w *world) xrcConfig(a *args, q *pair, c *hca.QPConfig) error {
	switch c.Type {
	case ib.XRCIni:
		c.RecvCQ = nil
	case ib.XRCTgt:
		q.pd, c.SendCQ, c.RecvCQ = nil, nil, nil
		if !a.has("xrcd") {
			return nil
		}
		d, err := find[*domainXRC](&w.registry, a.str("xrcd", ""))
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
