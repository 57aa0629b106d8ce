package script

import (
	"cmp"
	"fmt"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/qp"
)

// usualRDD is the domain of queue pairs and EE contexts that name none. It is
// allocated when the first of them is created.
const usualRDD = "rdd"

// addRDD allocates a reliable datagram domain: rdd NAME.
func (w *world) addRDD(a *args) error {
	name := a.word("a name")
	if a.err != nil {
		return a.err
	}
	d, err := w.HCA.AllocRDD()
	return w.created(name, &domainRD{d}, err)
}

// rddOf takes rdd=NAME; rdd=0 is none.
func (w *world) rddOf(a *args) (*qp.RDD, error) {
	name := a.str("rdd", usualRDD)
	if name == "0" {
		return nil, nil
	}
	if name == usualRDD && w.objects[name] == nil {
		d, err := w.HCA.AllocRDD()
		if err = w.created(name, &domainRD{d}, err); err != nil {
			return nil, err
		}
	}
	d, err := find[*domainRD](&w.registry, name)
	if err != nil {
		return nil, err
	}
	return d.rdd, nil
}

// addEEC creates an EE context: eec NAME rdd=NAME.
func (w *world) addEEC(a *args) error {
	name := a.word("a name")
	rdd, err := w.rddOf(a)
	if err = cmp.Or(a.err, err); err != nil {
		return err
	}
	e := &pair{name: name, attr: w.defaults(ib.EEC)}
	if e.eec, err = w.HCA.CreateEEC(rdd); err == nil {
		e.peerPSN = e.attr.RQPSN
		w.eecs = append(w.eecs, e)
	}
	return w.created(name, e, err)
}

// end is the part that queue pairs and EE contexts have in common.
func (q *pair) end() *qp.End {
	if q.eec != nil {
		return &q.eec.End
	}
	return &q.QP.End
}

// query returns the attributes.
func (q *pair) query() ib.QPAttr {
	if q.eec != nil {
		return q.eec.Query()
	}
	return q.Query()
}

// change makes a modify call.
func (q *pair) change(now clock.Instant, mask ib.AttrMask) error {
	if q.eec != nil {
		return q.eec.Modify(now, &q.attr, mask)
	}
	return q.Modify(now, &q.attr, mask)
}

// eecOf returns the EE context with a number, a live one rather than a destroyed
// one; nil if there is none.
func (r *registry) eecOf(n ib.EECN) *pair {
	var found *pair
	for _, e := range r.eecs {
		if e.eec.Num() == n && (found == nil || found.gone) {
			found = e
		}
	}
	return found
}

// showQPN shows the number of a queue pair by its name, if it is one of ours.
func (r *registry) showQPN(n ib.QPN) string {
	if q := r.pairOf(n); q != nil && n != ib.QPNGSI {
		return q.name
	}
	return fmt.Sprintf("%#x", uint32(n))
}

// usualRD returns the number of the first queue pair of reliable datagrams, for
// packets that name none.
func (r *registry) usualRD() ib.QPN {
	for _, q := range r.qps {
		if q.Type() == ib.RD {
			return q.Num()
		}
	}
	return 0
}

// usualEEC returns the number of the first EE context, for requests that name
// none.
func (r *registry) usualEEC() ib.EECN {
	if len(r.eecs) == 0 {
		return 0
	}
	return r.eecs[0].eec.Num()
}
