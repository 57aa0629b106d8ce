package script

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/qp"
)

// attribute is an attribute of a queue pair, as scripts write it.
type attribute struct {
	bit ib.AttrMask
	field[ib.QPAttr]
}

// name is the architecture's name, in lower case.
func (at *attribute) name() string { return strings.ToLower(at.bit.Names()[0]) }

// numeric is a number of at most bits bits.
func numeric[T natural](bit ib.AttrMask, bits int, at func(*ib.QPAttr) *T) attribute {
	return attribute{bit, numberField("", always, bits, "%d", at)}
}

// parsed is an attribute that a function of its own reads.
func parsed(bit ib.AttrMask, set func(*world, *ib.QPAttr, string) error, show func(*ib.QPAttr) string) attribute {
	return attribute{bit, field[ib.QPAttr]{set: set, show: func(_ *world, a *ib.QPAttr) string { return show(a) }}}
}

// parseState reads the name of a state.
func parseState(s string) (ib.QPState, error) {
	return choose("state", s, []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.RTS, ib.SQD, ib.SQE, ib.ERR})
}

var attributes = [...]attribute{
	parsed(ib.AttrCurState, setCurState, func(a *ib.QPAttr) string { return a.CurState.String() }),
	parsed(ib.AttrEnSQDAsyncNotify, flagField("", always, func(a *ib.QPAttr) *bool { return &a.EnSQDAsyncNotify }).set,
		func(a *ib.QPAttr) string { return fmt.Sprint(a.EnSQDAsyncNotify) }),
	parsed(ib.AttrAccessFlags, setAccess, func(a *ib.QPAttr) string { return strings.ToLower(a.AccessFlags.String()) }),
	numeric(ib.AttrPKeyIndex, 16, func(a *ib.QPAttr) *uint16 { return &a.PKeyIndex }),
	numeric(ib.AttrPort, 8, func(a *ib.QPAttr) *uint8 { return &a.Port }),
	{ib.AttrQKey, numberField("", always, 32, "%#x", func(a *ib.QPAttr) *ib.QKey { return &a.QKey })},
	parsed(ib.AttrAV, setAV, func(a *ib.QPAttr) string { return a.AV.DGID.Addr().String() }),
	parsed(ib.AttrPathMTU, setMTU, func(a *ib.QPAttr) string { return fmt.Sprint(a.PathMTU.Bytes()) }),
	numeric(ib.AttrTimeout, 8, func(a *ib.QPAttr) *uint8 { return &a.Timeout }),
	numeric(ib.AttrRetryCnt, 8, func(a *ib.QPAttr) *uint8 { return &a.RetryCnt }),
	numeric(ib.AttrRNRRetry, 8, func(a *ib.QPAttr) *uint8 { return &a.RNRRetry }),
	{ib.AttrRQPSN, psnField("", func(a *ib.QPAttr) *ib.PSN { return &a.RQPSN })},
	{ib.AttrSQPSN, psnField("", func(a *ib.QPAttr) *ib.PSN { return &a.SQPSN })},
	numeric(ib.AttrMaxRDAtomic, 8, func(a *ib.QPAttr) *uint8 { return &a.MaxRDAtomic }),
	numeric(ib.AttrMaxDestRDAtomic, 8, func(a *ib.QPAttr) *uint8 { return &a.MaxDestRDAtomic }),
	numeric(ib.AttrMinRNRTimer, 8, func(a *ib.QPAttr) *uint8 { return &a.MinRNRTimer }),
	parsed(ib.AttrDestQPN, setDestQPN, func(a *ib.QPAttr) string { return fmt.Sprintf("%#x", uint32(a.DestQPN)) }),
	parsed(ib.AttrPathMigState, setMigration, func(a *ib.QPAttr) string { return fmt.Sprint(uint8(a.PathMigState)) }),
	numeric(ib.AttrCap, 32, func(a *ib.QPAttr) *uint32 { return &a.Cap.MaxSendWR }),
	parsed(ib.AttrAltPath, setAltPath, func(a *ib.QPAttr) string { return a.AltAV.DGID.Addr().String() }),
	numeric(ib.AttrRateLimit, 32, func(a *ib.QPAttr) *uint32 { return &a.RateLimit }),
}

func setCurState(_ *world, at *ib.QPAttr, s string) (err error) {
	at.CurState, err = parseState(s)
	return err
}

func setAccess(_ *world, at *ib.QPAttr, s string) (err error) {
	at.AccessFlags, err = parseAccess(s)
	return err
}

func setDestQPN(w *world, at *ib.QPAttr, s string) error {
	return setNumber(w, &at.DestQPN, s, 32, number)
}

func setMTU(w *world, at *ib.QPAttr, s string) error {
	v, err := w.eval(s, plainNumber)
	if err != nil {
		return err
	}
	for m := ib.MTU256; m <= ib.MTU4096; m++ {
		if uint64(m.Bytes()) == v {
			at.PathMTU = m
			return nil
		}
	}
	return fmt.Errorf("want a path MTU of 256, 512, 1024, 2048 or 4096 bytes, not %s", s)
}

// setAV reads ADDR with any of ,hop_limit=N ,traffic_class=N ,flow_label=N
// ,sgid_index=N ,sl=N ,port=N after it.
func setAV(w *world, at *ib.QPAttr, s string) error {
	words := strings.Split(s, ",")
	dst, err := netip.ParseAddr(words[0])
	if err != nil {
		return err
	}
	a := newArgs(w, words[1:])
	at.AV = vector(a, dst)
	return a.done()
}

// setAltPath takes an address with pkey_index=N, timeout=N, and the fields of
// an address vector.
func setAltPath(w *world, at *ib.QPAttr, s string) error {
	words := strings.Split(s, ",")
	dst, err := netip.ParseAddr(words[0])
	if err != nil {
		return err
	}
	a := newArgs(w, words[1:])
	at.AltAV = vector(a, dst)
	at.AltPort = uint8(a.small("alt_port", uint64(at.AltAV.Port), 8))
	at.AltPKeyIndex, at.AltTimeout = uint16(a.small("pkey_index", 0, 16)), uint8(a.small("timeout", 14, 8))
	return a.done()
}

// setMigration takes the name of a migration state, or a number.
func setMigration(w *world, at *ib.QPAttr, s string) error {
	for _, m := range [...]ib.MigState{ib.MIGRATED, ib.REARM, ib.ARMED} {
		if strings.EqualFold(s, m.String()) {
			at.PathMigState = m
			return nil
		}
	}
	v, err := w.eval(s, plainNumber)
	at.PathMigState = ib.MigState(v)
	return err
}

// takeAttributes takes the attributes among the words: with a value, or bare
// for the default. It returns their mask; the given values become the queue
// pair's defaults.
func (w *world) takeAttributes(q *pair, a *args) (mask ib.AttrMask, err error) {
	for i := range attributes {
		at := &attributes[i]
		name := at.name()
		if a.flag(name) {
			mask |= at.bit
		}
		if s := a.str(name, ""); s != "" {
			if err := at.set(w, &q.attr, s); err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			mask |= at.bit
		}
	}
	return mask, nil
}

// modify is one call: modify NAME [STATE] ATTRIBUTE... It checks that a refused
// call has changed nothing.
func (w *world) modify(q *pair, a *args) error {
	kept := q.attr
	mask, err := w.takeAttributes(q, a)
	if err != nil {
		return err
	}
	if len(a.words) > 0 {
		mask |= ib.AttrState
		if q.attr.State, err = parseState(a.word("a state")); err != nil {
			return err
		}
	}
	if !w.modifyOnce(q, mask) {
		q.attr = kept
	}
	return nil
}

// modifyOnce makes the call and reports whether it was accepted.
func (w *world) modifyOnce(q *pair, mask ib.AttrMask) bool {
	before := q.query()
	w.rec.did("modify", Modify{q.name, q.attr, mask})
	err := q.change(w.now, mask)
	w.settle()
	if err != nil {
		w.refused(err)
		if q.query() != before {
			w.say("! the refused call changed %s", q.name)
		}
		return false
	}
	if mask&ib.AttrRQPSN != 0 {
		q.peerPSN = q.attr.RQPSN
	}
	if q.end().State() == ib.RESET {
		q.isSent = false
	}
	return true
}

// walk takes a queue pair from RESET to a state by the legal calls, with the
// required attributes and the given ones: walk NAME STATE ATTRIBUTE...
func (w *world) walk(q *pair, a *args) error {
	given, err := w.takeAttributes(q, a)
	if err != nil {
		return err
	}
	to, err := parseState(a.word("a state"))
	switch {
	case a.err != nil || err != nil:
		return cmp.Or(a.err, err)
	case to == ib.RESET || to == ib.SQE:
		return fmt.Errorf("walk leads to INIT, RTR, RTS, SQD or ERR")
	}
	st := q.end().State()
	for st != to {
		next := st + 1
		if to == ib.ERR && st == ib.RTS {
			next = ib.ERR
		}
		need, may, ok := qp.Transition(q.service(), st, next)
		if !ok {
			return fmt.Errorf("no walk leads from %v to %v", st, to)
		}
		mask := need | given&may
		given &^= mask
		q.attr.State = next
		if !w.modifyOnce(q, mask|ib.AttrState) {
			return nil
		}
		st = next
	}
	if given != 0 {
		return fmt.Errorf("no step of this walk takes %v", given)
	}
	return nil
}

// query shows the state, and attributes: query NAME ATTRIBUTE...; all of them
// if none is named.
func (w *world) query(q *pair, a *args) error {
	v := q.query()
	out := []string{q.name, v.State.String()}
	if v.SQDraining {
		out = append(out, "draining")
	}
	all := len(a.words) == 0
	for i := range attributes {
		at := &attributes[i]
		if a.flag(at.name()) || all && at.bit&(ib.AttrCurState|ib.AttrAltPath|ib.AttrRateLimit|ib.AttrCap) == 0 {
			out = append(out, at.name()+"="+at.show(w, &v))
		}
	}
	w.say("%s", strings.Join(out, " "))
	return nil
}
