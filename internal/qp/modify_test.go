package qp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/softhca/softhca/ib"
)

// testGID is the destination of the paths in these tests.
var testGID = ib.GID{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 1}

// ableLimits are the limits of a device with every optional capability.
func ableLimits() *ModifyLimits {
	return &ModifyLimits{
		Ports: 2, PKeys: 4, GIDs: 8, ActiveMTU: ib.MTU2048, MaxRDAtomic: 16, MaxDestRDAtomic: 32,
		Resize: true, APM: true, Privileged: true,
	}
}

// goodAttr has a legal value for every attribute of a queue pair on port 1.
func goodAttr() *ib.QPAttr {
	path := ib.AHAttr{DGID: testGID, SGIDIndex: 1, HopLimit: 64, Port: 1}
	return &ib.QPAttr{
		PathMTU: ib.MTU1024, PathMigState: ib.MIGRATED, QKey: 0x11111111, RQPSN: ib.NewPSN(1),
		SQPSN: ib.NewPSN(2), DestQPN: 17, AccessFlags: ib.AccessRemote, AV: path, AltAV: path,
		MaxRDAtomic: 1, MaxDestRDAtomic: 1, MinRNRTimer: 12, Port: 1, Timeout: 14, RetryCnt: 7,
		RNRRetry: 7, AltPort: 1, AltTimeout: 14,
	}
}

// probe asks whether a drained queue pair on port 1 may make a move with
// these attributes, all with legal values, on a device that can do everything.
func probe(ty ib.QPType, from, to ib.QPState, mask ib.AttrMask) error {
	attr := goodAttr()
	attr.State, attr.CurState = to, from
	next, err := CheckModify(ModifyFrom{Type: ty, State: from, Port: 1}, attr, mask, ableLimits())
	want := from
	if err == nil && mask&ib.AttrState != 0 {
		want = to
	}
	if next != want {
		return fmt.Errorf("modify leads from %v to %v, not to %v (%w)", from, next, want, err)
	}
	return err
}

// TestV8_EveryCell: in addition to the required ones, an attribute is accepted
// exactly if it is optional; the error names each missing required one; and all
// optional ones may be given at once.
func TestV8_EveryCell(t *testing.T) {
	cells := 0
	eachMove(func(ty ib.QPType, from, to ib.QPState) {
		required, optional, legal := Transition(ty, from, to)
		base := required | ib.AttrState
		if err := probe(ty, from, to, base|optional); (err == nil) != legal {
			t.Errorf("%v %v->%v with everything allowed: %v", ty, from, to, err)
		}
		for b := ib.AttrMask(1); b != 0; b <<= 1 {
			cells++
			err := probe(ty, from, to, base|b)
			if want := legal && (base|optional)&b != 0; (err == nil) != want {
				t.Errorf("%v %v->%v with %v: %v", ty, from, to, b, err)
			}
			var e *ModifyError
			if legal && err != nil && b&ib.AttrAll != 0 && (!errors.As(err, &e) || e.Forbidden != b || e.Missing != 0) {
				t.Errorf("%v %v->%v with %v is refused for another reason: %v", ty, from, to, b, err)
			}
			if required&b == 0 {
				continue
			}
			if err := probe(ty, from, to, base&^b); !errors.As(err, &e) || e.Missing != b || e.Forbidden != 0 {
				t.Errorf("%v %v->%v without %v: %v", ty, from, to, b, err)
			}
		}
	})
	if want := len(allTypes) * 7 * 8 * 32; cells != want {
		t.Errorf("walked %d cells, not %d", cells, want)
	}
}

// TestV7_WithoutState: without STATE the call modifies attributes in the
// present state.
func TestV7_WithoutState(t *testing.T) {
	for _, s := range allStates[:ib.NumQPStates] {
		_, _, want := Transition(ib.RC, s, s)
		attr := goodAttr()
		attr.State = ib.RTR // not in the mask: not read
		next, err := CheckModify(ModifyFrom{Type: ib.RC, State: s, Port: 1}, attr, 0, ableLimits())
		if (err == nil) != want || next != s {
			t.Errorf("modify of nothing in %v: next %v, %v", s, next, err)
		}
	}
}

// modifyCase is a change to a valid call and the resulting error number.
type modifyCase struct {
	name   string
	mask   ib.AttrMask
	change func(*ib.QPAttr, *ModifyLimits)
	want   error
}

// run applies the case to a move that is otherwise valid, with the attributes
// that it requires and those of the case.
func (c modifyCase) run(t *testing.T, from ModifyFrom, to ib.QPState) {
	t.Helper()
	attr, lim := goodAttr(), ableLimits()
	attr.State, attr.CurState = to, from.State
	required, _, _ := Transition(from.Type, from.State, to)
	c.change(attr, lim)
	_, err := CheckModify(from, attr, required|ib.AttrState|c.mask, lim)
	var e *ModifyError
	switch {
	case c.want == nil && err != nil:
		t.Errorf("%s: %v", c.name, err)
	case c.want != nil && !errors.Is(err, c.want):
		t.Errorf("%s: got error %v, want %v", c.name, err, c.want)
	case c.want != nil && (!errors.As(err, &e) || e.Missing|e.Forbidden != 0 || e.Reason == ""):
		t.Errorf("%s: refused without a reason: %v", c.name, err)
	}
}

// TestV10_Ranges tries the last legal value and the first illegal one.
func TestV10_Ranges(t *testing.T) {
	none := error(nil)
	sqd := ModifyFrom{Type: ib.RC, State: ib.SQD, Port: 1}
	for _, c := range []modifyCase{
		{"timeout 31", ib.AttrTimeout, func(a *ib.QPAttr, _ *ModifyLimits) { a.Timeout = 31 }, none},
		{"timeout 32", ib.AttrTimeout, func(a *ib.QPAttr, _ *ModifyLimits) { a.Timeout = 32 }, ib.EINVAL},
		{"retry 7", ib.AttrRetryCnt, func(a *ib.QPAttr, _ *ModifyLimits) { a.RetryCnt = 7 }, none},
		{"retry 8", ib.AttrRetryCnt, func(a *ib.QPAttr, _ *ModifyLimits) { a.RetryCnt = 8 }, ib.EINVAL},
		{"RNR retry 7", ib.AttrRNRRetry, func(a *ib.QPAttr, _ *ModifyLimits) { a.RNRRetry = 7 }, none},
		{"RNR retry 8", ib.AttrRNRRetry, func(a *ib.QPAttr, _ *ModifyLimits) { a.RNRRetry = 8 }, ib.EINVAL},
		{"RNR timer 31", ib.AttrMinRNRTimer, func(a *ib.QPAttr, _ *ModifyLimits) { a.MinRNRTimer = 31 }, none},
		{"RNR timer 32", ib.AttrMinRNRTimer, func(a *ib.QPAttr, _ *ModifyLimits) { a.MinRNRTimer = 32 }, ib.EINVAL},
		{"depth 16", ib.AttrMaxRDAtomic, func(a *ib.QPAttr, _ *ModifyLimits) { a.MaxRDAtomic = 16 }, none},
		{"depth 17", ib.AttrMaxRDAtomic, func(a *ib.QPAttr, _ *ModifyLimits) { a.MaxRDAtomic = 17 }, ib.EINVAL},
		{"resources 32", ib.AttrMaxDestRDAtomic, func(a *ib.QPAttr, _ *ModifyLimits) { a.MaxDestRDAtomic = 32 }, none},
		{"resources 33", ib.AttrMaxDestRDAtomic, func(a *ib.QPAttr, _ *ModifyLimits) { a.MaxDestRDAtomic = 33 }, ib.EINVAL},
		{"MTU of the port", ib.AttrPathMTU, func(a *ib.QPAttr, _ *ModifyLimits) { a.PathMTU = ib.MTU2048 }, none},
		{"MTU over the port's", ib.AttrPathMTU, func(a *ib.QPAttr, _ *ModifyLimits) { a.PathMTU = ib.MTU4096 }, ib.EINVAL},
		{"MTU 0", ib.AttrPathMTU, func(a *ib.QPAttr, _ *ModifyLimits) { a.PathMTU = 0 }, ib.EINVAL},
		{"MTU 6", ib.AttrPathMTU, func(a *ib.QPAttr, l *ModifyLimits) { a.PathMTU, l.ActiveMTU = 6, 6 }, ib.EINVAL},
		{"P_Key 3", ib.AttrPKeyIndex, func(a *ib.QPAttr, _ *ModifyLimits) { a.PKeyIndex = 3 }, none},
		{"P_Key 4", ib.AttrPKeyIndex, func(a *ib.QPAttr, _ *ModifyLimits) { a.PKeyIndex = 4 }, ib.EINVAL},
		{"port 2", ib.AttrPort | ib.AttrAV, func(a *ib.QPAttr, _ *ModifyLimits) { a.Port, a.AV.Port = 2, 2 }, none},
		{"port 2 with the path from port 1", ib.AttrPort, func(a *ib.QPAttr, _ *ModifyLimits) { a.Port = 2 }, ib.EINVAL},
		{"port 3", ib.AttrPort, func(a *ib.QPAttr, _ *ModifyLimits) { a.Port = 3 }, ib.EINVAL},
		{"port 0", ib.AttrPort, func(a *ib.QPAttr, _ *ModifyLimits) { a.Port = 0 }, ib.EINVAL},
		{"access as Linux", ib.AttrAccessFlags, func(a *ib.QPAttr, _ *ModifyLimits) {
			a.AccessFlags = ib.AccessRemote | ib.AccessLocalWrite | ib.AccessFlushGlobal | ib.AccessFlushPersistent
		}, none},
		{"access of memory", ib.AttrAccessFlags, func(a *ib.QPAttr, _ *ModifyLimits) {
			a.AccessFlags = ib.AccessMWBind | ib.AccessZeroBased | ib.AccessOnDemand | ib.AccessHugeTLB | ib.AccessRelaxedOrdering
		}, none},
		{"access none", ib.AttrAccessFlags, func(a *ib.QPAttr, _ *ModifyLimits) { a.AccessFlags = 0 }, none},
		{"access unknown", ib.AttrAccessFlags, func(a *ib.QPAttr, _ *ModifyLimits) { a.AccessFlags = 1 << 31 }, ib.EINVAL},
		{"state as believed", ib.AttrCurState, func(a *ib.QPAttr, _ *ModifyLimits) { a.CurState = ib.SQD }, none},
		{"state not as believed", ib.AttrCurState, func(a *ib.QPAttr, _ *ModifyLimits) { a.CurState = ib.RTS }, ib.EINVAL},
		{"resize", ib.AttrCap, func(*ib.QPAttr, *ModifyLimits) {}, none},
		{"resize, unable", ib.AttrCap, func(_ *ib.QPAttr, l *ModifyLimits) { l.Resize = false }, ib.EOPNOTSUPP},
	} {
		c.run(t, sqd, ib.RTS)
	}
	connect := ModifyFrom{Type: ib.RC, State: ib.INIT, Port: 1}
	modifyCase{"QPN of 24 bits", 0, func(a *ib.QPAttr, _ *ModifyLimits) { a.DestQPN = 0xffffff }, nil}.run(t, connect, ib.RTR)
	modifyCase{"QPN of 25 bits", 0, func(a *ib.QPAttr, _ *ModifyLimits) { a.DestQPN = 1 << 24 }, ib.EINVAL}.run(t, connect, ib.RTR)
}

// TestV10_Path tries the parts of an address vector.
func TestV10_Path(t *testing.T) {
	path := func(f func(*ib.AHAttr)) func(*ib.QPAttr, *ModifyLimits) {
		return func(a *ib.QPAttr, _ *ModifyLimits) { f(&a.AV) }
	}
	for _, c := range []modifyCase{
		{"good", 0, path(func(*ib.AHAttr) {}), nil},
		{"no DGID", 0, path(func(a *ib.AHAttr) { a.DGID = ib.GID{} }), ib.EINVAL},
		{"DGID 0.0.0.0", 0, path(func(a *ib.AHAttr) { a.DGID = ib.GID{10: 0xff, 11: 0xff} }), ib.EINVAL},
		{"multicast DGID", 0, path(func(a *ib.AHAttr) { a.DGID[12] = 224 }), ib.EINVAL},
		{"last GID", 0, path(func(a *ib.AHAttr) { a.SGIDIndex = 7 }), nil},
		{"behind the GID table", 0, path(func(a *ib.AHAttr) { a.SGIDIndex = 8 }), ib.EINVAL},
		{"hop limit 1", 0, path(func(a *ib.AHAttr) { a.HopLimit = 1 }), nil},
		{"hop limit 0", 0, path(func(a *ib.AHAttr) { a.HopLimit = 0 }), ib.EINVAL},
		{"flow label", 0, path(func(a *ib.AHAttr) { a.FlowLabel = 0xfffff }), nil},
		{"long flow label", 0, path(func(a *ib.AHAttr) { a.FlowLabel = 0x100000 }), ib.EINVAL},
		{"SL 15", 0, path(func(a *ib.AHAttr) { a.SL = 15 }), nil},
		{"SL 16", 0, path(func(a *ib.AHAttr) { a.SL = 16 }), ib.EINVAL},
		{"static rate 22", 0, path(func(a *ib.AHAttr) { a.StaticRate = 22 }), nil},
		{"static rate 1", 0, path(func(a *ib.AHAttr) { a.StaticRate = 1 }), ib.EINVAL},
		{"port 0", 0, path(func(a *ib.AHAttr) { a.Port = 0 }), ib.EINVAL},
		{"another port than at INIT", 0, path(func(a *ib.AHAttr) { a.Port = 2 }), ib.EINVAL},
	} {
		c.run(t, ModifyFrom{Type: ib.RC, State: ib.INIT, Port: 1}, ib.RTR)
		c.run(t, ModifyFrom{Type: ib.UC, State: ib.INIT, Port: 1}, ib.RTR)
	}
	for _, c := range []modifyCase{
		{"path moves to port 2", ib.AttrAV, path(func(a *ib.AHAttr) { a.Port = 2 }), nil},
		{"path moves to port 3", ib.AttrAV, path(func(a *ib.AHAttr) { a.Port = 3 }), ib.EINVAL},
		{"path and port", ib.AttrAV | ib.AttrPort, func(a *ib.QPAttr, _ *ModifyLimits) { a.AV.Port, a.Port = 2, 2 }, nil},
		{"path against port", ib.AttrAV | ib.AttrPort, func(a *ib.QPAttr, _ *ModifyLimits) { a.AV.Port, a.Port = 1, 2 }, ib.EINVAL},
	} {
		c.run(t, ModifyFrom{Type: ib.RC, State: ib.SQD, Port: 1}, ib.SQD)
		c.run(t, ModifyFrom{Type: ib.RC, State: ib.SQD, Port: 1}, ib.RTS)
	}
}

// TestV10_MigrationAttributes: the legal values with the device's capability
// and without it.
func TestV10_MigrationAttributes(t *testing.T) {
	rtr, sqd := ModifyFrom{Type: ib.RC, State: ib.RTR, Port: 1}, ModifyFrom{Type: ib.RC, State: ib.SQD, Port: 1}
	unable := func(f func(*ib.QPAttr)) func(*ib.QPAttr, *ModifyLimits) {
		return func(a *ib.QPAttr, l *ModifyLimits) { l.APM = false; f(a) }
	}
	able := func(f func(*ib.QPAttr)) func(*ib.QPAttr, *ModifyLimits) {
		return func(a *ib.QPAttr, _ *ModifyLimits) { f(a) }
	}
	state := func(m ib.MigState) func(*ib.QPAttr) { return func(a *ib.QPAttr) { a.PathMigState = m } }
	for _, c := range []modifyCase{
		{"rearm", ib.AttrPathMigState, able(state(ib.REARM)), ib.EINVAL}, // without an alternate path
		{"rearm with a path", ib.AttrPathMigState | ib.AttrAltPath, able(state(ib.REARM)), nil},
		{"rearm, unable", ib.AttrPathMigState, unable(state(ib.REARM)), ib.EOPNOTSUPP},
		{"armed", ib.AttrPathMigState, able(state(ib.ARMED)), ib.EINVAL},
		{"migrated", ib.AttrPathMigState, able(state(ib.MIGRATED)), nil},
		{"migrated, unable", ib.AttrPathMigState, unable(state(ib.MIGRATED)), nil},
		{"path", ib.AttrAltPath, able(func(*ib.QPAttr) {}), nil},
		{"path, unable", ib.AttrAltPath, unable(func(*ib.QPAttr) {}), ib.EOPNOTSUPP},
		{"path on port 2", ib.AttrAltPath, able(func(a *ib.QPAttr) { a.AltPort, a.AltAV.Port = 2, 2 }), nil},
		{"path on port 3", ib.AttrAltPath, able(func(a *ib.QPAttr) { a.AltPort, a.AltAV.Port = 3, 3 }), ib.EINVAL},
		{"path on another port", ib.AttrAltPath, able(func(a *ib.QPAttr) { a.AltPort = 2 }), ib.EINVAL},
		{"path without DGID", ib.AttrAltPath, able(func(a *ib.QPAttr) { a.AltAV.DGID = ib.GID{} }), ib.EINVAL},
		{"P_Key", ib.AttrAltPath, able(func(a *ib.QPAttr) { a.AltPKeyIndex = 4 }), ib.EINVAL},
		{"timeout", ib.AttrAltPath, able(func(a *ib.QPAttr) { a.AltTimeout = 32 }), ib.EINVAL},
	} {
		c.run(t, rtr, ib.RTS)
	}
	for _, c := range []struct {
		have, want ib.MigState
		errno      error
	}{
		{ib.MIGRATED, ib.MIGRATED, nil}, {ib.MIGRATED, ib.REARM, nil}, {ib.REARM, ib.REARM, nil},
		{ib.REARM, ib.MIGRATED, ib.EINVAL}, {ib.ARMED, ib.REARM, ib.EINVAL}, {ib.ARMED, ib.MIGRATED, nil},
	} {
		from := ModifyFrom{Type: ib.RC, State: ib.RTS, Port: 1, Migration: c.have, AltPath: true}
		modifyCase{c.have.String() + " to " + c.want.String(), ib.AttrPathMigState, able(state(c.want)), c.errno}.run(t, from, ib.RTS)
	}
	modifyCase{"rearm in SQD", ib.AttrPathMigState, able(state(ib.REARM)), ib.EINVAL}.run(t, sqd, ib.SQD)
	modifyCase{"migrated in SQD", ib.AttrPathMigState, able(state(ib.MIGRATED)), nil}.run(t, sqd, ib.SQD)
}

// TestV10_ControlledQKey: only a privileged process may set a Q_Key with the
// top bit.
func TestV10_ControlledQKey(t *testing.T) {
	from := ModifyFrom{Type: ib.UD, State: ib.RTS, Port: 1}
	key := func(k ib.QKey, privileged bool) func(*ib.QPAttr, *ModifyLimits) {
		return func(a *ib.QPAttr, l *ModifyLimits) { a.QKey, l.Privileged = k, privileged }
	}
	for _, c := range []modifyCase{
		{"plain", ib.AttrQKey, key(0x7fffffff, false), nil},
		{"controlled", ib.AttrQKey, key(ib.QKeyGSI, false), ib.EPERM},
		{"controlled, privileged", ib.AttrQKey, key(ib.QKeyGSI, true), nil},
	} {
		c.run(t, from, ib.RTS)
	}
}

// TestQ12_DrainedFirst: while the send queue drains, SQD accepts no attribute
// and no move to RTS; moves to RESET and ERR are always legal.
func TestQ12_DrainedFirst(t *testing.T) {
	for _, c := range []struct {
		to    ib.QPState
		mask  ib.AttrMask
		legal bool // while draining
	}{
		{ib.RTS, ib.AttrState, false},
		{ib.SQD, ib.AttrState | ib.AttrTimeout, false},
		{ib.SQD, ib.AttrTimeout, false},
		{ib.SQD, ib.AttrState, true},
		{ib.RESET, ib.AttrState, true},
		{ib.ERR, ib.AttrState, true},
	} {
		for _, draining := range []bool{true, false} {
			attr := goodAttr()
			attr.State = c.to
			_, err := CheckModify(ModifyFrom{Type: ib.RC, State: ib.SQD, Draining: draining, Port: 1}, attr, c.mask, ableLimits())
			if want := c.legal || !draining; (err == nil) != want || err != nil && !errors.Is(err, ib.EINVAL) {
				t.Errorf("draining %v, SQD to %v with %v: %v", draining, c.to, c.mask, err)
			}
		}
	}
}

// TestV8_Errors: the messages name the attributes, and the error numbers are
// those of the verbs.
func TestV8_Errors(t *testing.T) {
	rtr := ib.AttrState | ib.AttrAV | ib.AttrPathMTU | ib.AttrMaxDestRDAtomic | ib.AttrMinRNRTimer
	for _, c := range []struct {
		from, to ib.QPState
		mask     ib.AttrMask
		errno    error
		want     string
	}{
		{ib.INIT, ib.RTR, rtr, ib.EINVAL, "modify INIT to RTR: missing RQ_PSN, DEST_QPN"},
		{ib.INIT, ib.RTR, rtr | ib.AttrQKey | ib.AttrSQPSN, ib.EINVAL,
			"modify INIT to RTR: missing RQ_PSN, DEST_QPN; not allowed for RC: QKEY, SQ_PSN"},
		{ib.RTS, ib.SQD, ib.AttrState | ib.AttrAV, ib.EINVAL, "modify RTS to SQD: not allowed for RC: AV"},
		{ib.INIT, ib.RTS, ib.AttrState, ib.EINVAL,
			"modify INIT to RTS: not allowed for RC; modify leads from INIT to RESET, INIT, RTR, ERR"},
		{ib.RTS, ib.RTS, ib.AttrState | ib.AttrRateLimit, ib.EINVAL, "modify RTS to RTS: not allowed for RC: RATE_LIMIT"},
		{ib.RTS, 7, ib.AttrState, ib.EINVAL, "modify RTS to QPState(7): no such state"},
		{ib.RTS, ib.RTS, ib.AttrState | 1<<21 | 1<<31, ib.EOPNOTSUPP,
			"modify RTS to RTS: no such attribute: 0x80200000"},
	} {
		err := probe(ib.RC, c.from, c.to, c.mask)
		if err == nil || err.Error() != c.want || !errors.Is(err, c.errno) {
			t.Errorf("got  %v\nwant %s (%v)", err, c.want, c.errno)
		}
		var e *ModifyError
		if errors.As(err, &e) && (e.From != c.from || e.To != c.to || e.Type != ib.RC) {
			t.Errorf("%v: the error says %v->%v of %v", err, e.From, e.To, e.Type)
		}
	}
}

// TestV9_CheckReadsOnlyTheMask: attributes outside the mask neither matter nor
// change, and the call does not write to the attributes.
func TestV9_CheckReadsOnlyTheMask(t *testing.T) {
	const seed = 9
	rng := rand.New(rand.NewPCG(seed, 0))
	wild := &ib.QPAttr{
		State: 0xff, CurState: 0xff, PathMTU: 0xff, PathMigState: 0xff, QKey: ^ib.QKey(0), DestQPN: ^ib.QPN(0),
		AccessFlags: ^ib.Access(0), PKeyIndex: 0xffff, AltPKeyIndex: 0xffff, MaxRDAtomic: 0xff,
		MaxDestRDAtomic: 0xff, MinRNRTimer: 0xff, Port: 0xff, Timeout: 0xff, RetryCnt: 0xff, RNRRetry: 0xff,
		AltPort: 0xff, AltTimeout: 0xff,
	}
	for range 20000 {
		ty := allTypes[rng.IntN(len(allTypes))]
		rows := Transitions(ty)
		row := rows[rng.IntN(len(rows))]
		mask := row.Required | row.Optional&ib.AttrMask(rng.Uint32()) | ib.AttrState
		good := goodAttr()
		good.State, good.CurState = row.To, row.From
		mixed := *wild
		copyMasked(&mixed, good, mask)
		before := mixed
		next, err := CheckModify(ModifyFrom{Type: ty, State: row.From, Port: 1}, &mixed, mask, ableLimits())
		if err != nil || next != row.To {
			t.Fatalf("seed %d: %v %v->%v with %v: wild values outside of the mask decide: %v", seed, ty, row.From, row.To, mask, err)
		}
		if !reflect.DeepEqual(before, mixed) {
			t.Fatalf("seed %d: the check wrote to the attributes", seed)
		}
	}
}

// copyMasked copies the fields that a mask names.
func copyMasked(to, from *ib.QPAttr, mask ib.AttrMask) {
	for _, f := range []struct {
		attr ib.AttrMask
		copy func()
	}{
		{ib.AttrState, func() { to.State = from.State }},
		{ib.AttrCurState, func() { to.CurState = from.CurState }},
		{ib.AttrAccessFlags, func() { to.AccessFlags = from.AccessFlags }},
		{ib.AttrPKeyIndex, func() { to.PKeyIndex = from.PKeyIndex }},
		{ib.AttrPort, func() { to.Port = from.Port }},
		{ib.AttrQKey, func() { to.QKey = from.QKey }},
		{ib.AttrAV, func() { to.AV = from.AV }},
		{ib.AttrPathMTU, func() { to.PathMTU = from.PathMTU }},
		{ib.AttrTimeout, func() { to.Timeout = from.Timeout }},
		{ib.AttrRetryCnt, func() { to.RetryCnt = from.RetryCnt }},
		{ib.AttrRNRRetry, func() { to.RNRRetry = from.RNRRetry }},
		{ib.AttrMaxRDAtomic, func() { to.MaxRDAtomic = from.MaxRDAtomic }},
		{ib.AttrAltPath, func() {
			to.AltAV, to.AltPort, to.AltTimeout, to.AltPKeyIndex = from.AltAV, from.AltPort, from.AltTimeout, from.AltPKeyIndex
		}},
		{ib.AttrMinRNRTimer, func() { to.MinRNRTimer = from.MinRNRTimer }},
		{ib.AttrMaxDestRDAtomic, func() { to.MaxDestRDAtomic = from.MaxDestRDAtomic }},
		{ib.AttrPathMigState, func() { to.PathMigState = from.PathMigState }},
		{ib.AttrDestQPN, func() { to.DestQPN = from.DestQPN }},
	} {
		if mask&f.attr != 0 {
			f.copy()
		}
	}
}
