package hca

// Resources are the numbers of objects that an adapter has.
type Resources struct {
	PDs, CQs, SRQs, QPs, MRs int
	// Conns are the connections and resolutions of the communication manager,
	// those in TIMEWAIT among them.
	Conns int
}

// Resources counts the objects.
func (h *HCA) Resources() Resources {
	return Resources{
		PDs: len(h.pds), CQs: h.cqs, SRQs: h.srqs, QPs: h.shard.count, MRs: h.shard.env.Mem.Len(), Conns: h.shard.cm.Conns(),
	}
}
