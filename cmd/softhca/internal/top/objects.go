package top

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/observe"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/ring"
)

// fillWidth is the number of cells of the bar that shows how full a queue is.
const fillWidth = 10

// queuesView returns the table of completion queues.
func queuesView() *view {
	v := &view{
		name: "cqs", title: "CQs", sorted: "waiting", empty: "no completion queues",
		rows: func(m *Model) (rows []row) {
			for _, a := range m.adapters {
				for i := range a.queues {
					rows = append(rows, row{a: a, q: &a.queues[i]})
				}
			}
			return rows
		},
		key:   func(r *row) rowKey { return rowKey{r.a.Path, uint64(r.q.Num)} },
		label: func(b []byte, r *row) []byte { return fmt.Appendf(b, "%d %s", r.q.Num, r.q.armed()) },
	}
	overflows := func(r *row) uint64 { return r.q.Overflows }
	v.columns = append(owner(),
		numbers("cq", "CQ", 1, func(r *row) uint32 { return r.q.Num }, number).rising(),
		numbers("waiting", "WAITING", 5, func(r *row) uint32 { return r.q.Waiting }, func(n uint32) string { return count(uint64(n)) }),
		numbers("depth", "DEPTH", 6, func(r *row) uint32 { return r.q.Depth }, func(n uint32) string { return count(uint64(n)) }),
		column{name: "fill", title: "FILL", width: fillWidth, rank: 11, falling: true, text: func(r *row) string { return bar(r.q.fill(), fillWidth) },
			compare: func(a, b *row) int { return cmp.Compare(a.q.fill(), b.q.fill()) }, style: func(*row) Style { return Good }},
		numbers("high-water", "HIGH", 7, func(r *row) uint64 { return r.q.HighWater }, count),
		words("armed", "ARMED", 8, extent{9, 0}, func(r *row) string { return r.q.armed() }),
		numbers("produced", "ADDED/s", 9, func(r *row) float64 { return r.q.produced }, perSecond).when(func(r *row) bool { return r.q.known }),
		numbers("events", "EVENTS", 12, func(r *row) uint64 { return r.q.Events }, count),
		numbers("overflows", "LOST", 10, overflows, count).styled(func(r *row) Style {
			if overflows(r) != 0 {
				return Bad
			}
			return Plain
		}),
	)
	return v
}

// fill returns how full the queue is, from 0 to 1.
func (q *queue) fill() float64 {
	if q.Depth == 0 {
		return 0
	}
	return float64(q.Waiting) / float64(q.Depth)
}

// armed returns for which completions the queue raises an event.
func (q *queue) armed() string {
	switch q.Armed {
	case uint64(ring.ArmNone):
		return "no"
	case uint64(ring.ArmSolicited):
		return "solicited"
	case uint64(ring.ArmAny):
		return "any"
	}
	return strconv.FormatUint(q.Armed, 10)
}

// managerView returns the table of connections and listeners of the connection manager.
func managerView() *view {
	v := &view{
		name: "cm", title: "CM", sorted: "adapter", empty: "no connections and no listeners of the connection manager",
		rows: func(m *Model) (rows []row) {
			for _, a := range m.adapters {
				for i := range a.CMIDs {
					rows = append(rows, row{a: a, cm: i})
				}
			}
			return rows
		},
		key: func(r *row) rowKey {
			id := r.id()
			k := rowKey{r.a.Path, uint64(id.Num)}
			if id.Listener {
				k.num |= 1 << 32
			}
			return k
		},
		label: func(b []byte, r *row) []byte {
			id := r.id()
			return fmt.Appendf(b, "%d %s %v %v %v %s %s %s", id.Num, cmState(id.State), id.Type, id.QPN, id.RemoteQPN, endpoint(id.Local), endpoint(id.Remote), service(id))
		},
	}
	v.columns = append(owner(),
		ordered(column{name: "id", title: "ID", right: true, width: 10, rank: 1, text: func(r *row) string { return number(r.id().Num) }}, func(r *row) uint32 { return r.id().Num }),
		ordered(column{name: "state", title: "STATE", width: 11, most: 13, rank: 5, text: func(r *row) string { return cmState(r.id().State) }},
			func(r *row) cm.State { return r.id().State }).styled(func(r *row) Style {
			switch r.id().State {
			case cm.Established, cm.Listen:
				return Good
			}
			return Plain
		}),
		words("type", "TYPE", 9, extent{4, 12}, func(r *row) string { return r.id().Type.String() }),
		words("local", "LOCAL", 6, extent{9, 47}, func(r *row) string { return endpoint(r.id().Local) }),
		words("remote", "REMOTE", 7, extent{9, 47}, func(r *row) string { return endpoint(r.id().Remote) }),
		words("qpn", "QPN", 8, extent{8, 10}, func(r *row) string { return queuePair(r.id().QPN) }),
		words("peer-qpn", "PEER QPN", 11, extent{8, 10}, func(r *row) string { return queuePair(r.id().RemoteQPN) }),
		ordered(column{name: "peer-id", title: "PEER ID", right: true, width: 10, rank: 12, text: func(r *row) string { return number(r.id().RemoteID) }}, func(r *row) uint32 { return r.id().RemoteID }),
		words("service", "SERVICE", 10, extent{18, 0}, func(r *row) string { return service(r.id()) }),
	)
	return v
}

// id returns the connection of the connection manager of a row.
func (r *row) id() *observe.CMID { return &r.a.CMIDs[r.cm] }

// service returns the service ID.
func service(id *observe.CMID) string { return fmt.Sprintf("0x%016x", id.ServiceID) }

// regionsView returns the table of regions and windows.
func regionsView() *view {
	v := &view{
		name: "mrs", title: "MRs", sorted: "length", empty: "no memory regions",
		rows: func(m *Model) (rows []row) {
			for _, a := range m.adapters {
				for i := range a.MRs {
					rows = append(rows, row{a: a, mr: i})
				}
			}
			return rows
		},
		key: func(r *row) rowKey { return rowKey{r.a.Path, uint64(r.region().Num)} },
		label: func(b []byte, r *row) []byte {
			return fmt.Appendf(b, "%d %s %v", r.region().Num, form(r.region()), r.region().Rights)
		},
	}
	v.columns = append(owner(),
		numbers("mr", "MR", 1, func(r *row) uint32 { return r.region().Num }, number).rising(),
		words("form", "FORM", 6, extent{13, 0}, func(r *row) string { return form(r.region()) }),
		numbers("pd", "PD", 8, func(r *row) uint32 { return r.region().PD }, number).rising(),
		numbers("length", "BYTES", 5, func(r *row) uint64 { return r.region().Length }, size),
		words("addr", "ADDRESS", 9, extent{18, 0}, func(r *row) string { return virtual(r.region().Addr) }),
		words("rights", "RIGHTS", 7, extent{11, 80}, func(r *row) string { return rights(r.region()) }),
	)
	return v
}

// region returns the region of a row.
func (r *row) region() *observe.MR { return &r.a.MRs[r.mr] }

// virtual returns a virtual address; none if the owner of the memory does not publish it.
func virtual(a uint64) string {
	if a == 0 {
		return none
	}
	return fmt.Sprintf("0x%016x", a)
}

// rights returns the rights of a region in words.
func rights(r *observe.MR) string {
	if r.Rights == 0 {
		return "local read"
	}
	return strings.ToLower(strings.NewReplacer("|", ", ", "_", " ").Replace(r.Rights.String()))
}

// form returns what kind of region it is.
func form(r *observe.MR) string {
	names := [...]string{
		restrack.FormRegion: "region", restrack.FormWindow: "window", restrack.FormDeviceMemory: "device memory",
		restrack.FormImplicit: "implicit", restrack.FormNull: "null",
	}
	if int(r.Form) < len(names) {
		return names[r.Form]
	}
	return fmt.Sprintf("form(%d)", r.Form)
}

// bar returns a bar of a share of n cells.
func bar(share float64, n int) string {
	full := min(max(int(share*float64(n)+0.5), 0), n)
	if share > 0 && full == 0 {
		full = 1
	}
	return strings.Repeat("|", full)
}
