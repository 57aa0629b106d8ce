package qp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/golden"
)

var allTypes = []ib.QPType{ib.RC, ib.UC, ib.UD, ib.RD, ib.EEC, ib.SMI, ib.GSI, ib.XRCIni, ib.XRCTgt}

// allStates are the states and the first invalid number.
var allStates = []ib.QPState{ib.RESET, ib.INIT, ib.RTR, ib.RTS, ib.SQD, ib.SQE, ib.ERR, ib.NumQPStates}

// eachMove calls f for every type, state to leave and state to enter.
func eachMove(f func(ty ib.QPType, from, to ib.QPState)) {
	for _, ty := range allTypes {
		for _, from := range allStates[:ib.NumQPStates] {
			for _, to := range allStates {
				f(ty, from, to)
			}
		}
	}
}

// bitsOf returns the single attributes of m.
func bitsOf(m ib.AttrMask) []ib.AttrMask {
	var bits []ib.AttrMask
	for b := ib.AttrMask(1); b != 0; b <<= 1 {
		if m&b != 0 {
			bits = append(bits, b)
		}
	}
	return bits
}

// TestV8_Golden walks every (type, from, to, attribute) cell by asking
// CheckModify and compares what it finds with the reviewed file.
func TestV8_Golden(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The modify table, cell by cell as CheckModify answers on a device that can do\n")
	b.WriteString("# everything. STATE goes with every move. Attributes and moves that are not here\n")
	b.WriteString("# are refused.\n")
	for _, ty := range allTypes {
		for _, from := range allStates[:ib.NumQPStates] {
			b.WriteByte('\n')
			for _, to := range allStates[:ib.NumQPStates] {
				b.WriteString(goldenRow(ty, from, to))
			}
		}
	}
	golden.Check(t, "testdata/modify_table.golden", b.String())
}

// goldenRow describes one move, or is empty when there is no such move.
func goldenRow(ty ib.QPType, from, to ib.QPState) string {
	base, _, ok := Transition(ty, from, to)
	if !ok {
		return ""
	}
	base |= ib.AttrState
	var required, optional ib.AttrMask
	for _, a := range bitsOf(ib.AttrAll &^ ib.AttrState) {
		with := probe(ty, from, to, base|a) == nil
		without := probe(ty, from, to, base&^a) == nil
		switch {
		case with && without:
			optional |= a
		case with:
			required |= a
		}
	}
	row := fmt.Sprintf("%-3v %-5v -> %v\n", ty, from, to)
	for _, part := range []struct {
		name  string
		attrs ib.AttrMask
	}{{"required", required}, {"optional", optional}} {
		if part.attrs != 0 {
			row += "    " + part.name + " " + strings.Join(part.attrs.Names(), " ") + "\n"
		}
	}
	return row
}

// linuxTable is what Linux requires and allows, without its own types.
const linuxTable = `
RC  RESET INIT | PKEY_INDEX PORT ACCESS_FLAGS |
UC  RESET INIT | PKEY_INDEX PORT ACCESS_FLAGS |
UD  RESET INIT | PKEY_INDEX PORT QKEY |
SMI RESET INIT | PKEY_INDEX QKEY |
RC  INIT INIT | | PKEY_INDEX PORT ACCESS_FLAGS
UC  INIT INIT | | PKEY_INDEX PORT ACCESS_FLAGS
UD  INIT INIT | | PKEY_INDEX PORT QKEY
SMI INIT INIT | | PKEY_INDEX QKEY
RC  INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER | ALT_PATH ACCESS_FLAGS PKEY_INDEX
UC  INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN | ALT_PATH ACCESS_FLAGS PKEY_INDEX
UD  INIT RTR | | PKEY_INDEX QKEY
SMI INIT RTR | | PKEY_INDEX QKEY
RC  RTR RTS | TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
UC  RTR RTS | SQ_PSN | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
UD  RTR RTS | SQ_PSN | CUR_STATE QKEY
SMI RTR RTS | SQ_PSN | CUR_STATE QKEY
RC  RTS RTS | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER
UC  RTS RTS | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE
UD  RTS RTS | | CUR_STATE QKEY
SMI RTS RTS | | CUR_STATE QKEY
RC  RTS SQD | | EN_SQD_ASYNC_NOTIFY
UC  RTS SQD | | EN_SQD_ASYNC_NOTIFY
UD  RTS SQD | | EN_SQD_ASYNC_NOTIFY
SMI RTS SQD | | EN_SQD_ASYNC_NOTIFY
RC  SQD RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
UC  SQD RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
UD  SQD RTS | | CUR_STATE QKEY
SMI SQD RTS | | CUR_STATE QKEY
RC  SQD SQD | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
UC  SQD SQD | | AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
UD  SQD SQD | | PKEY_INDEX QKEY
SMI SQD SQD | | PKEY_INDEX QKEY
RC  SQE RTS | |
UC  SQE RTS | | CUR_STATE ACCESS_FLAGS
UD  SQE RTS | | CUR_STATE QKEY
SMI SQE RTS | | CUR_STATE QKEY
XRC_INI RESET INIT | PKEY_INDEX PORT ACCESS_FLAGS |
XRC_TGT RESET INIT | PKEY_INDEX PORT ACCESS_FLAGS |
XRC_INI INIT INIT | | PKEY_INDEX PORT ACCESS_FLAGS
XRC_TGT INIT INIT | | PKEY_INDEX PORT ACCESS_FLAGS
XRC_INI INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN | ALT_PATH ACCESS_FLAGS PKEY_INDEX
XRC_TGT INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER | ALT_PATH ACCESS_FLAGS PKEY_INDEX
XRC_INI RTR RTS | TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
XRC_TGT RTR RTS | TIMEOUT SQ_PSN | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
XRC_INI RTS RTS | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE
XRC_TGT RTS RTS | | CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER
XRC_INI RTS SQD | | EN_SQD_ASYNC_NOTIFY
XRC_TGT RTS SQD | | EN_SQD_ASYNC_NOTIFY
XRC_INI SQD RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE
XRC_TGT SQD RTS | | CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE
XRC_INI SQD SQD | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE
XRC_TGT SQD SQD | | PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
XRC_INI SQE RTS | |
XRC_TGT SQE RTS | |
`

// verbsTable is the attributes that the architecture's verbs allow but Linux
// does not. For RD and EE contexts it is the only source, so it has their
// required attributes too.
const verbsTable = `
RC  INIT RTR | | TIMEOUT RETRY_CNT RNR_RETRY CAP
UC  INIT RTR | | CAP
UD  INIT RTR | | CAP
SMI INIT RTR | | CAP
RC  RTR RTS | | CAP
UC  RTR RTS | | CAP
UD  RTR RTS | | CAP
SMI RTR RTS | | CAP
RC  RTS RTS | | CAP
UC  RTS RTS | | CAP
UD  RTS RTS | | CAP
SMI RTS RTS | | CAP
RC  SQD RTS | | AV PATH_MTU TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC PKEY_INDEX PORT CAP
UC  SQD RTS | | AV PATH_MTU PKEY_INDEX CAP
UD  SQD RTS | | PKEY_INDEX CAP
SMI SQD RTS | | PKEY_INDEX CAP
UC  SQE RTS | | CAP
UD  SQE RTS | | CAP
SMI SQE RTS | | CAP
RD  RESET INIT | QKEY PORT ACCESS_FLAGS |
RD  INIT INIT | | QKEY PORT ACCESS_FLAGS
RD  INIT RTR | | QKEY ACCESS_FLAGS MIN_RNR_TIMER MAX_DEST_RD_ATOMIC CAP
RD  RTR RTS | | CUR_STATE QKEY ACCESS_FLAGS MIN_RNR_TIMER MAX_QP_RD_ATOMIC PATH_MIG_STATE CAP
RD  RTS RTS | | CUR_STATE QKEY ACCESS_FLAGS MIN_RNR_TIMER CAP
RD  RTS SQD | | EN_SQD_ASYNC_NOTIFY
RD  SQD RTS | | CUR_STATE QKEY ACCESS_FLAGS MIN_RNR_TIMER MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC CAP
RD  SQD SQD | | QKEY ACCESS_FLAGS MIN_RNR_TIMER MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC
RD  SQE RTS | | CUR_STATE QKEY ACCESS_FLAGS MIN_RNR_TIMER CAP
EEC RESET INIT | PKEY_INDEX PORT |
EEC INIT INIT | | PKEY_INDEX PORT
EEC INIT RTR | AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC | ALT_PATH PKEY_INDEX TIMEOUT RETRY_CNT RNR_RETRY
EEC RTR RTS | TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC | CUR_STATE ALT_PATH PATH_MIG_STATE
EEC RTS RTS | | CUR_STATE ALT_PATH PATH_MIG_STATE
EEC RTS SQD | | EN_SQD_ASYNC_NOTIFY
EEC SQD RTS | | CUR_STATE ALT_PATH PATH_MIG_STATE AV PATH_MTU TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC PKEY_INDEX PORT
EEC SQD SQD | | PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH PKEY_INDEX PATH_MIG_STATE
`

// move is a move in words.
type move struct{ ty, from, to string }

// rights are the attributes of a move.
type rights struct{ required, optional []string }

// parseTable adds the lines of a table to moves. GSI has the same attributes as
// SMI.
func parseTable(t *testing.T, text string, moves map[move]rights) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		part := strings.Split(line, "|")
		head := strings.Fields(part[0])
		if len(part) != 3 || len(head) != 3 {
			t.Fatalf("table line %q", line)
		}
		types := []string{head[0]}
		if head[0] == "SMI" {
			types = append(types, "GSI")
		}
		for _, ty := range types {
			m := move{ty, head[1], head[2]}
			r := moves[m]
			r.required = append(r.required, strings.Fields(part[1])...)
			r.optional = append(r.optional, strings.Fields(part[2])...)
			moves[m] = r
		}
	}
}

// TestV8_UnionOfVerbsAndLinux compares the table with its two sources: the
// union of both is optional, only what Linux requires is required (and for RD
// and EE contexts, which Linux does not have, what the verbs require).
func TestV8_UnionOfVerbsAndLinux(t *testing.T) {
	want := map[move]rights{}
	parseTable(t, linuxTable, want)
	parseTable(t, verbsTable, want)
	eachMove(func(ty ib.QPType, from, to ib.QPState) {
		if to == ib.RESET || to == ib.ERR {
			return
		}
		required, optional, ok := Transition(ty, from, to)
		w, wantOK := want[move{ty.String(), from.String(), to.String()}]
		if ok != wantOK {
			t.Errorf("%v %v->%v: legal is %v, sources say %v", ty, from, to, ok, wantOK)
		}
		sameNames(t, fmt.Sprintf("%v %v->%v required", ty, from, to), required.Names(), w.required)
		sameNames(t, fmt.Sprintf("%v %v->%v optional", ty, from, to), optional.Names(), w.optional)
	})
}

func sameNames(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %v\nwant %v", what, got, want)
	}
}

// TestQ2_AnyStateToResetAndErr: from every state, for every service, with no
// attribute in addition to the state.
func TestQ2_AnyStateToResetAndErr(t *testing.T) {
	for _, ty := range allTypes {
		for _, from := range allStates[:ib.NumQPStates] {
			for _, to := range []ib.QPState{ib.RESET, ib.ERR} {
				if err := probe(ty, from, to, ib.AttrState); err != nil {
					t.Errorf("%v: %v", ty, err)
				}
				for _, a := range bitsOf(ib.AttrAll &^ ib.AttrState) {
					if err := probe(ty, from, to, ib.AttrState|a); err == nil {
						t.Errorf("%v %v->%v takes %v", ty, from, to, a)
					}
				}
			}
		}
	}
}

// TestQ3_LegalMoves: in addition to those of Q2 exactly the nine of Q3, for
// every service; an EE context has no SQE to leave.
func TestQ3_LegalMoves(t *testing.T) {
	legal := [][2]ib.QPState{
		{ib.RESET, ib.INIT}, {ib.INIT, ib.INIT}, {ib.INIT, ib.RTR}, {ib.RTR, ib.RTS},
		{ib.RTS, ib.RTS}, {ib.RTS, ib.SQD}, {ib.SQD, ib.SQD}, {ib.SQD, ib.RTS}, {ib.SQE, ib.RTS},
	}
	eachMove(func(ty ib.QPType, from, to ib.QPState) {
		want := to == ib.RESET || to == ib.ERR || slices.Contains(legal, [2]ib.QPState{from, to}) && (ty != ib.EEC || from != ib.SQE)
		if _, _, ok := Transition(ty, from, to); ok != want {
			t.Errorf("%v %v->%v: legal is %v", ty, from, to, ok)
		}
	})
}

func TestQ3_NoSuchTypeOrState(t *testing.T) {
	for _, m := range []struct {
		ty       ib.QPType
		from, to ib.QPState
	}{
		{ib.XRCTgt + 1, ib.RESET, ib.INIT}, {0xff, ib.RESET, ib.RESET},
		{ib.RC, ib.NumQPStates, ib.RESET}, {ib.RC, 0xff, ib.ERR}, {ib.RC, ib.RESET, 0xff},
	} {
		if _, _, ok := Transition(m.ty, m.from, m.to); ok {
			t.Errorf("%v %v->%v is legal", m.ty, m.from, m.to)
		}
	}
	for ty := range ib.QPType(255) {
		if rows := Transitions(ty); (len(rows) != 0) != slices.Contains(allTypes, ty) {
			t.Errorf("%v has %d moves", ty, len(rows))
		}
	}
}

// TestV8_Transitions: the rows are the legal moves, in order, and belong to
// the caller.
func TestV8_Transitions(t *testing.T) {
	for _, ty := range allTypes {
		var want []TransitionRow
		for _, from := range allStates[:ib.NumQPStates] {
			for _, to := range allStates[:ib.NumQPStates] {
				if r, o, ok := Transition(ty, from, to); ok {
					want = append(want, TransitionRow{from, to, r, o})
				}
			}
		}
		got := Transitions(ty)
		if !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", ty, got, want)
		}
		got[0].Required = ib.AttrAll
		if Transitions(ty)[0].Required == ib.AttrAll {
			t.Errorf("%v: writing to the rows changes the table", ty)
		}
	}
}

// TestV11_SpecialQPs: QP0 and QP1 accept only attributes that apply to them.
func TestV11_SpecialQPs(t *testing.T) {
	applies := ib.AttrState | ib.AttrCurState | ib.AttrEnSQDAsyncNotify | ib.AttrPKeyIndex |
		ib.AttrQKey | ib.AttrSQPSN | ib.AttrCap
	for _, ty := range []ib.QPType{ib.SMI, ib.GSI} {
		for _, r := range Transitions(ty) {
			if extra := (r.Required | r.Optional) &^ applies; extra != 0 {
				t.Errorf("%v %v->%v takes %v", ty, r.From, r.To, extra)
			}
		}
	}
}
