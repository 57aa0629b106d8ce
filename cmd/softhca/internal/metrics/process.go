package metrics

import (
	"maps"
	"slices"
	"strconv"

	"github.com/softhca/softhca/internal/observe"
)

// thePort is the number of an adapter's only port.
const thePort = "1"

// maxProcesses bounds the processes with series.
const maxProcesses = 1000

// process is the adapters with the same labels: usually one. A process may open an adapter twice.
type process struct {
	labels   []string // the values of processLabels
	adapters []*observe.Adapter
}

// processes groups adapters by the values of processLabels and returns at most a number of groups,
// in the order of fair. left is the number of groups left out.
func processes(adapters []*observe.Adapter, most int, pidns uint64) (all []*process, left int) {
	by := make(map[string]*process)
	missing := make(map[string]bool)
	for _, a := range fair(adapters) {
		labels := labelsOf(a, pidns)
		key := keyOf(labels)
		p := by[key]
		switch {
		case p == nil && len(all) == most:
			missing[key] = true
			continue
		case p == nil:
			p = &process{labels: labels}
			by[key] = p
			all = append(all, p)
		}
		p.adapters = append(p.adapters, a)
	}
	return all, len(missing)
}

// fair orders adapters so that each user has a turn before any has a second one, running processes
// before others: a user with many tables cannot displace those of others.
func fair(adapters []*observe.Adapter) []*observe.Adapter {
	users := make(map[int][]*observe.Adapter)
	for _, a := range adapters {
		users[a.UID] = append(users[a.UID], a)
	}
	ids := slices.Sorted(maps.Keys(users))
	for _, id := range ids {
		slices.SortStableFunc(users[id], func(a, b *observe.Adapter) int { return int(truth(b.Running) - truth(a.Running)) })
	}
	all := make([]*observe.Adapter, 0, len(adapters))
	for turn := 0; len(all) < len(adapters); turn++ {
		for _, id := range ids {
			if turn < len(users[id]) {
				all = append(all, users[id][turn])
			}
		}
	}
	return all
}

// labelsOf returns the values of processLabels.
func labelsOf(a *observe.Adapter, pidns uint64) []string {
	space := ""
	if a.PIDNS != pidns {
		space = strconv.FormatUint(a.PIDNS, 10)
	}
	return []string{a.Name, thePort, addressOf(a), strconv.Itoa(a.PID), a.Command, space}
}

// addressOf returns the address of an adapter; empty if its table has none.
func addressOf(a *observe.Adapter) string { return text(a.Addr) }

// keyOf returns one string for a list of label values, which contain no byte 0.
func keyOf(labels []string) string {
	var key []byte
	for _, l := range labels {
		key = append(append(key, l...), 0)
	}
	return string(key)
}

// value returns the value of a metric of the process.
func (p *process) value(of func(a *observe.Adapter) float64, most bool) (v float64) {
	for i, a := range p.adapters {
		switch x := of(a); {
		case i == 0:
			v = x
		case most:
			v = max(v, x)
		default:
			v += x
		}
	}
	return v
}

// words returns the sums for each word of a metric, with the words in order.
func (p *process) words(of func(a *observe.Adapter, each func(string, float64))) (words []string, values map[string]float64) {
	values = make(map[string]float64)
	for _, a := range p.adapters {
		of(a, func(word string, v float64) { values[word] += v })
	}
	return slices.Sorted(maps.Keys(values)), values
}

// values returns a list with one more value.
func values(labels []string, more ...string) []string {
	return append(labels[:len(labels):len(labels)], more...)
}
