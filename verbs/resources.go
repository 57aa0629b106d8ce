package verbs

import "github.com/softhca/softhca/internal/clock"

// Resources are the numbers of objects that an adapter has, as "rdma resource"
// of Linux shows them.
type Resources struct {
	PDs  int `json:"pd"`
	CQs  int `json:"cq"`
	SRQs int `json:"srq"`
	QPs  int `json:"qp"`
	MRs  int `json:"mr"`
	// CMIDs are the connections that the communication manager holds. Long after
	// the last call for it one may be in TIMEWAIT.
	CMIDs int `json:"cm_id"`
}

// Resources counts the objects of the adapter. What is more than before says
// what a program has not destroyed.
func (c *Context) Resources() (r Resources, err error) {
	err = c.do(func(clock.Instant) error {
		n := c.hca.Resources()
		r = Resources{PDs: n.PDs, CQs: n.CQs, SRQs: n.SRQs, QPs: n.QPs, MRs: n.MRs, CMIDs: n.Conns}
		return nil
	})
	return r, err
}
