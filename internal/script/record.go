package script

import (
	"bytes"
	"maps"
	"slices"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/hca"
	"github.com/softhca/softhca/internal/memory"
)

// recorder records the actions of a script and their outcome as a Play. A nil
// recorder records nothing.
type recorder struct {
	play Play
	step *PlayStep
	held map[*region][]byte // what regions held after the last step
}

func (r *recorder) begin(s *step) {
	if r == nil {
		return
	}
	r.play.Steps = append(r.play.Steps, PlayStep{Line: s.line, States: map[string]ib.QPState{}, Memory: map[string][]byte{}})
	r.step = &r.play.Steps[len(r.play.Steps)-1]
	for _, c := range s.commands {
		r.step.Text = append(r.step.Text, c.text)
	}
}

// end records queue pair states and changed memory after a step.
func (r *recorder) end(w *world, s *step) {
	if r == nil {
		return
	}
	r.step.Lines = s.got
	for _, q := range w.qps {
		if !q.gone {
			r.step.States[q.name] = q.State()
		}
	}
	for _, m := range w.mrs {
		if m.last != nil && !bytes.Equal(r.held[m], m.buf) {
			r.held[m] = bytes.Clone(m.buf)
			r.step.Memory[m.name] = r.held[m]
		}
	}
}

// did records an action.
func (r *recorder) did(verb string, d Step) {
	if r != nil {
		r.step.Acts = append(r.step.Acts, Act{Verb: verb, Step: d})
	}
}

// own records a command that has no other action.
func (r *recorder) own(before int, words []string) {
	if r != nil && len(r.step.Acts) == before {
		r.did(words[0], Own{slices.Clone(words)})
	}
}

// actions returns how many actions the step has so far.
func (r *recorder) steps() int {
	if r == nil {
		return 0
	}
	return len(r.step.Acts)
}

// refused records that the adapter refused the last action.
func (r *recorder) refused() {
	if r != nil && len(r.step.Acts) > 0 {
		r.step.Acts[len(r.step.Acts)-1].Refused = true
	}
}

func (r *recorder) packet(q *pair, seg []byte) {
	if r != nil {
		r.step.Packets = append(r.step.Packets, SentPacket{q.name, bytes.Clone(seg)})
	}
}

func (r *recorder) completion(q string, wc *ib.WC) {
	if r != nil {
		r.step.Completions = append(r.step.Completions, Completion{q, *wc})
	}
}

func (r *recorder) event(who string, t ib.EventType) {
	if r != nil {
		r.step.Events = append(r.step.Events, RaisedEvent{who, t})
	}
}

func (r *recorder) retry(q *pair, cause string) {
	if r != nil {
		r.step.Retries = append(r.step.Retries, Retry{q.name, cause})
	}
}

func (r *recorder) drop(q *pair) {
	if r != nil {
		r.step.Dropped = append(r.step.Dropped, q.name)
	}
}

// nameOf returns the name of an object, empty for one without.
func nameOf[T comparable](r *registry, is func(T) bool) string {
	for _, name := range slices.Sorted(maps.Keys(r.objects)) {
		if o, ok := r.objects[name].(T); ok && is(o) {
			return name
		}
	}
	return ""
}

func (r *registry) nameOfPD(pd *hca.PD) string {
	return nameOf(r, func(o *domain) bool { return o.pd == pd })
}

// createdMR records a region; one that was refused has no key.
func (r *recorder) createdMR(w *world, m *region, c memory.RegionConfig) {
	if r == nil {
		return
	}
	d := RegMR{
		Name: m.name, PD: w.nameOfPD(m.pd), Len: len(m.buf), IOVA: c.IOVA, Access: c.Access,
		Invalidatable: c.Invalidatable, Unseen: m.last == nil,
	}
	if m.mr != nil {
		d.Key = uint32(m.mr.LKey())
		r.held[m] = make([]byte, len(m.buf))
	}
	r.did("mr", d)
}

// createdQP records a queue pair and the names of its PD, CQs and SRQ; one that
// was refused has no number.
func (r *recorder) createdQP(w *world, q *pair, c hca.QPConfig) {
	if r == nil || c.Type == ib.XRCIni || c.Type == ib.XRCTgt { // no peer has them
		return
	}
	d := CreateQP{
		Name: q.name, PD: w.nameOfPD(q.pd), SendCQ: q.sendCQ.name, RecvCQ: q.recvCQ.name,
		Type: c.Type, SigAll: c.SigAll, Cap: c.Cap, PeerQPN: q.attr.DestQPN,
	}
	if q.QP != nil {
		d.Num = q.Num()
	}
	if c.SRQ != nil {
		d.SRQ = nameOf(&w.registry, func(o *sharedQueue) bool { return o.srq == c.SRQ })
	}
	r.did("qp", d)
}
