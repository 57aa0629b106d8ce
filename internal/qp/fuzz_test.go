package qp

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/softhca/softhca/ib"
)

// legalMoves are the moves of Q2 and Q3, written down independently of the
// table.
var legalMoves = map[ib.QPState][]ib.QPState{
	ib.RESET: {ib.RESET, ib.INIT, ib.ERR},
	ib.INIT:  {ib.RESET, ib.INIT, ib.RTR, ib.ERR},
	ib.RTR:   {ib.RESET, ib.RTS, ib.ERR},
	ib.RTS:   {ib.RESET, ib.RTS, ib.SQD, ib.ERR},
	ib.SQD:   {ib.RESET, ib.RTS, ib.SQD, ib.ERR},
	ib.SQE:   {ib.RESET, ib.RTS, ib.ERR},
	ib.ERR:   {ib.RESET, ib.ERR},
}

// modifyInput is an arbitrary modify call: the present state, the values of all
// attributes, the mask, and the device's limits.
type modifyInput struct {
	from ModifyFrom
	attr ib.QPAttr
	mask ib.AttrMask
	lim  ModifyLimits
}

// modifyBytes is the number of input bytes that FuzzModify uses.
const modifyBytes = 52

func decodeModify(b []byte) (m modifyInput) {
	b = append(slices.Clip(b), make([]byte, modifyBytes)...)
	path := func(at int) ib.AHAttr {
		a := ib.AHAttr{
			Port: b[at], SGIDIndex: b[at+1], HopLimit: b[at+2], SL: b[at+3],
			FlowLabel: binary.BigEndian.Uint32(b[at+4:]), TrafficClass: b[at+3],
		}
		switch {
		case b[at+8]&1 != 0:
			a.DGID = testGID
		case b[at+8]&2 != 0:
			a.DGID[0], a.DGID[15] = 0xff, b[at+8] // a group
		}
		return a
	}
	m.from = ModifyFrom{Type: ib.QPType(b[0]), State: ib.QPState(b[1]), Draining: b[2]&1 != 0, Port: b[3]}
	m.lim = *ableLimits()
	m.lim.Resize, m.lim.APM, m.lim.Privileged = b[2]&2 != 0, b[2]&4 != 0, b[2]&8 != 0
	m.mask = ib.AttrMask(binary.BigEndian.Uint32(b[4:]))
	m.attr = ib.QPAttr{
		State: ib.QPState(b[8]), CurState: ib.QPState(b[9]), PathMTU: ib.MTU(b[10]), PathMigState: ib.MigState(b[11]),
		QKey: ib.QKey(binary.BigEndian.Uint32(b[12:])), DestQPN: ib.QPN(binary.BigEndian.Uint32(b[16:])),
		AccessFlags: ib.Access(binary.BigEndian.Uint32(b[20:])), PKeyIndex: uint16(b[24]), AltPKeyIndex: uint16(b[25]),
		MaxRDAtomic: b[26], MaxDestRDAtomic: b[27], MinRNRTimer: b[28], Port: b[29], Timeout: b[30], RetryCnt: b[31],
		RNRRetry: b[32], AltPort: b[33], AltTimeout: b[34], AV: path(35), AltAV: path(43),
	}
	return m
}

// encodeModify is the inverse of decodeModify, for seeds.
func encodeModify(m modifyInput) []byte {
	b := make([]byte, modifyBytes)
	a := &m.attr
	b[0], b[1], b[2], b[3] = byte(m.from.Type), byte(m.from.State), 14, m.from.Port
	binary.BigEndian.PutUint32(b[4:], uint32(m.mask))
	copy(b[8:], []byte{byte(a.State), byte(a.CurState), byte(a.PathMTU), byte(a.PathMigState)})
	binary.BigEndian.PutUint32(b[12:], uint32(a.QKey))
	binary.BigEndian.PutUint32(b[16:], uint32(a.DestQPN))
	binary.BigEndian.PutUint32(b[20:], uint32(a.AccessFlags))
	copy(b[26:], []byte{a.MaxRDAtomic, a.MaxDestRDAtomic, a.MinRNRTimer, a.Port, a.Timeout, a.RetryCnt, a.RNRRetry, a.AltPort, a.AltTimeout})
	for _, at := range []int{35, 43} {
		copy(b[at:], []byte{1, 1, 64, 0, 0, 0, 0, 0, 1})
	}
	return b
}

// FuzzModify shows that no modify call makes the check panic, that a refused
// one moves nothing and gives the reason, and that an accepted one moves as in
// Q2 and Q3, with existing attributes and values in range, and without
// attributes while the send queue drains (Q12).
func FuzzModify(f *testing.F) {
	eachMove(func(ty ib.QPType, from, to ib.QPState) {
		required, optional, _ := Transition(ty, from, to)
		attr := *goodAttr()
		attr.State, attr.CurState = to, from
		for _, mask := range []ib.AttrMask{required, required | optional} {
			f.Add(encodeModify(modifyInput{ModifyFrom{Type: ty, State: from, Port: 1}, attr, mask | ib.AttrState, *ableLimits()}))
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := decodeModify(b)
		if int(m.from.State) >= ib.NumQPStates {
			return // no queue pair is in such a state
		}
		before := m
		next, err := CheckModify(m.from, &m.attr, m.mask, &m.lim)
		if m != before {
			t.Fatalf("the check changed the call to %+v from %+v", m, before)
		}
		if err != nil {
			m.refused(t, next, err)
			return
		}
		m.accepted(t, next)
	})
}

func (m *modifyInput) refused(t *testing.T, next ib.QPState, err error) {
	var e *ModifyError
	known := errors.Is(err, ib.EINVAL) || errors.Is(err, ib.EOPNOTSUPP) || errors.Is(err, ib.EPERM)
	if next != m.from.State || !errors.As(err, &e) || !known || e.Missing == 0 && e.Forbidden == 0 && e.Reason == "" {
		t.Fatalf("a refused call leads from %v to %v: %v", m.from.State, next, err)
	}
}

func (m *modifyInput) accepted(t *testing.T, next ib.QPState) {
	a := &m.attr
	want := m.from.State
	if m.mask&ib.AttrState != 0 {
		want = a.State
	}
	draining := m.from.Draining && m.from.State == ib.SQD
	switch {
	case next != want, !slices.Contains(legalMoves[m.from.State], next), !slices.Contains(allTypes, m.from.Type), m.mask&^ib.AttrAll != 0:
		t.Fatalf("%v moves from %v to %v with %v", m.from.Type, m.from.State, next, m.mask)
	case draining && (next == ib.RTS || next == ib.SQD && m.mask&^ib.AttrState != 0):
		t.Fatalf("a send queue that drains goes to %v with %v", next, m.mask)
	}
	for _, r := range []struct {
		bit ib.AttrMask
		ok  bool
	}{
		{ib.AttrCurState, a.CurState == m.from.State},
		{ib.AttrPathMTU, a.PathMTU >= ib.MTU256 && a.PathMTU <= ib.MTU2048},
		{ib.AttrDestQPN, a.DestQPN < 1<<24},
		{ib.AttrPKeyIndex, a.PKeyIndex < 4},
		{ib.AttrPort, a.Port == 1 || a.Port == 2},
		{ib.AttrTimeout, a.Timeout < 32},
		{ib.AttrRetryCnt, a.RetryCnt < 8},
		{ib.AttrRNRRetry, a.RNRRetry < 8},
		{ib.AttrMinRNRTimer, a.MinRNRTimer < 32},
		{ib.AttrMaxRDAtomic, a.MaxRDAtomic <= 16},
		{ib.AttrMaxDestRDAtomic, a.MaxDestRDAtomic <= 32},
		{ib.AttrAV, a.AV.HopLimit > 0 && a.AV.DGID == testGID && a.AV.SGIDIndex < 8 && a.AV.FlowLabel < 1<<20 && a.AV.SL < 16},
		{ib.AttrAltPath, a.AltAV.HopLimit > 0 && a.AltAV.DGID == testGID && a.AltPort == a.AltAV.Port && a.AltPKeyIndex < 4 && m.lim.APM},
		{ib.AttrPathMigState, a.PathMigState == ib.MIGRATED || a.PathMigState == ib.REARM && m.lim.APM && next == ib.RTS},
		{ib.AttrQKey, a.QKey>>31 == 0 || m.lim.Privileged || m.from.Type == ib.GSI},
		{ib.AttrCap, m.lim.Resize},
	} {
		if m.mask&r.bit != 0 && !r.ok {
			t.Fatalf("%v is accepted with a bad value: %+v", r.bit, a)
		}
	}
}

// TestModifyInput checks the seeds.
func TestModifyInput(t *testing.T) {
	accepted := 0
	eachMove(func(ty ib.QPType, from, to ib.QPState) {
		required, _, legal := Transition(ty, from, to)
		attr := *goodAttr()
		attr.State, attr.CurState = to, from
		m := decodeModify(encodeModify(modifyInput{ModifyFrom{Type: ty, State: from, Port: 1}, attr, required | ib.AttrState, *ableLimits()}))
		if _, err := CheckModify(m.from, &m.attr, m.mask, &m.lim); (err == nil) != legal {
			t.Errorf("the seed of %v, %v to %v: %v", ty, from, to, err)
		}
		if legal {
			accepted++
		}
	})
	if accepted < 60 {
		t.Errorf("%d seeds are accepted", accepted)
	}
}
