package qp

import "github.com/softhca/softhca/ib"

// cell is one entry of the modify table. The zero value refuses.
type cell struct {
	legal    bool
	required ib.AttrMask
	optional ib.AttrMask
}

// modifyRows holds the transitions of one service: [from][to].
type modifyRows [ib.NumQPStates][ib.NumQPStates]cell

// Short names of the attributes, for the table. The retry attributes always
// appear together.
const (
	aCurState  = ib.AttrCurState
	aEnSQD     = ib.AttrEnSQDAsyncNotify
	aAccess    = ib.AttrAccessFlags
	aPKey      = ib.AttrPKeyIndex
	aPort      = ib.AttrPort
	aQKey      = ib.AttrQKey
	aAV        = ib.AttrAV
	aMTU       = ib.AttrPathMTU
	aTimers    = ib.AttrTimeout | ib.AttrRetryCnt | ib.AttrRNRRetry
	aRQPSN     = ib.AttrRQPSN
	aSQPSN     = ib.AttrSQPSN
	aMaxRD     = ib.AttrMaxRDAtomic
	aMaxDestRD = ib.AttrMaxDestRDAtomic
	aAlt       = ib.AttrAltPath
	aMig       = ib.AttrPathMigState
	aMinRNR    = ib.AttrMinRNRTimer
	aDestQPN   = ib.AttrDestQPN
	aCap       = ib.AttrCap // only where the device can resize queues
)

// modifyTable says which attributes a modify call must and may name (V8). It
// allows all attributes that the architecture or Linux allows, and requires
// only those that Linux requires. STATE is allowed everywhere and is not in the
// table; neither are the moves to RESET and ERR, which every state has and
// which take no attribute (Q2).
//
// RC has the row of SQE although it never gets there. Linux allows CAP in no
// row; the architecture allows it from INIT→RTR on if queues can be resized.
var modifyTable = [...]modifyRows{
	ib.SMI: datagramRows,
	ib.GSI: datagramRows,
	ib.RC: {
		ib.RESET: {
			ib.INIT: {true, aPKey | aPort | aAccess, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aPKey | aPort | aAccess},
			// One list of the architecture counts the timers as part of the
			// path; here they stay required at RTR→RTS.
			ib.RTR: {true, aAV | aMTU | aDestQPN | aRQPSN | aMaxDestRD | aMinRNR, aAlt | aAccess | aPKey | aTimers | aCap},
		},
		ib.RTR: {
			ib.RTS: {true, aTimers | aSQPSN | aMaxRD, aCurState | aAlt | aAccess | aMinRNR | aMig | aCap},
		},
		ib.RTS: {
			ib.RTS: {true, 0, aCurState | aAccess | aAlt | aMig | aMinRNR | aCap},
			ib.SQD: {true, 0, aEnSQD},
		},
		ib.SQD: {
			ib.RTS: {true, 0, aCurState | aAlt | aAccess | aMinRNR | aMig | aAV | aMTU | aTimers | aMaxRD | aMaxDestRD | aPKey | aPort | aCap},
			ib.SQD: {true, 0, aPort | aAV | aTimers | aMaxRD | aMaxDestRD | aAlt | aAccess | aPKey | aMinRNR | aMig},
		},
		ib.SQE: {
			ib.RTS: {true, 0, 0},
		},
	},
	ib.UC: {
		ib.RESET: {
			ib.INIT: {true, aPKey | aPort | aAccess, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aPKey | aPort | aAccess},
			ib.RTR:  {true, aAV | aMTU | aDestQPN | aRQPSN, aAlt | aAccess | aPKey | aCap},
		},
		ib.RTR: {
			ib.RTS: {true, aSQPSN, aCurState | aAlt | aAccess | aMig | aCap},
		},
		ib.RTS: {
			ib.RTS: {true, 0, aCurState | aAccess | aAlt | aMig | aCap},
			ib.SQD: {true, 0, aEnSQD},
		},
		ib.SQD: {
			ib.RTS: {true, 0, aCurState | aAlt | aAccess | aMig | aAV | aMTU | aPKey | aCap},
			ib.SQD: {true, 0, aAV | aAlt | aAccess | aPKey | aMig},
		},
		ib.SQE: {
			ib.RTS: {true, 0, aCurState | aAccess | aCap},
		},
	},
	ib.UD: {
		ib.RESET: {
			ib.INIT: {true, aPKey | aPort | aQKey, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aPKey | aPort | aQKey},
			ib.RTR:  {true, 0, aPKey | aQKey | aCap},
		},
		ib.RTR: datagramRows[ib.RTR],
		ib.RTS: datagramRows[ib.RTS],
		ib.SQD: datagramRows[ib.SQD],
		ib.SQE: datagramRows[ib.SQE],
	},
	// The ends of XRC share RC's attributes: the initiator has those of requests, the
	// target those of answers. Both have the row of SQE, as RC does.
	ib.XRCIni: {
		ib.RESET: {
			ib.INIT: {true, aPKey | aPort | aAccess, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aPKey | aPort | aAccess},
			ib.RTR:  {true, aAV | aMTU | aDestQPN | aRQPSN, aAlt | aAccess | aPKey},
		},
		ib.RTR: {
			ib.RTS: {true, aTimers | aSQPSN | aMaxRD, aCurState | aAlt | aAccess | aMig},
		},
		ib.RTS: {
			ib.RTS: {true, 0, aCurState | aAccess | aAlt | aMig},
			ib.SQD: {true, 0, aEnSQD},
		},
		ib.SQD: {
			ib.RTS: {true, 0, aCurState | aAlt | aAccess | aMig},
			ib.SQD: {true, 0, aPort | aAV | aTimers | aMaxRD | aAlt | aAccess | aPKey | aMig},
		},
		ib.SQE: {
			ib.RTS: {true, 0, 0},
		},
	},
	ib.XRCTgt: {
		ib.RESET: {
			ib.INIT: {true, aPKey | aPort | aAccess, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aPKey | aPort | aAccess},
			ib.RTR:  {true, aAV | aMTU | aDestQPN | aRQPSN | aMaxDestRD | aMinRNR, aAlt | aAccess | aPKey},
		},
		ib.RTR: {
			ib.RTS: {true, ib.AttrTimeout | aSQPSN, aCurState | aAlt | aAccess | aMinRNR | aMig},
		},
		ib.RTS: {
			ib.RTS: {true, 0, aCurState | aAccess | aAlt | aMig | aMinRNR},
			ib.SQD: {true, 0, aEnSQD},
		},
		ib.SQD: {
			ib.RTS: {true, 0, aCurState | aAlt | aAccess | aMinRNR | aMig},
			ib.SQD: {true, 0, aPort | aAV | ib.AttrTimeout | aMaxDestRD | aAlt | aAccess | aPKey | aMinRNR | aMig},
		},
		ib.SQE: {
			ib.RTS: {true, 0, 0},
		},
	},
	// An EE context is what an RC queue pair is without queues, Q_Key and rights.
	// Its destination is an EE context; it has no SQE.
	ib.EEC: {
		ib.RESET: {
			ib.INIT: {true, aPKey | aPort, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aPKey | aPort},
			ib.RTR:  {true, aAV | aMTU | aDestQPN | aRQPSN | aMaxDestRD, aAlt | aPKey | aTimers},
		},
		ib.RTR: {
			ib.RTS: {true, aTimers | aSQPSN | aMaxRD, aCurState | aAlt | aMig},
		},
		ib.RTS: {
			ib.RTS: {true, 0, aCurState | aAlt | aMig},
			ib.SQD: {true, 0, aEnSQD},
		},
		ib.SQD: {
			ib.RTS: {true, 0, aCurState | aAlt | aMig | aAV | aMTU | aTimers | aMaxRD | aMaxDestRD | aPKey | aPort},
			ib.SQD: {true, 0, aPort | aAV | aTimers | aMaxRD | aMaxDestRD | aAlt | aPKey | aMig},
		},
	},
	// An RD queue pair takes partition, path, sequence numbers and retry
	// timers from its end-to-end context; the rest is its own.
	ib.RD: {
		ib.RESET: {
			ib.INIT: {true, aQKey | aPort | aAccess, 0},
		},
		ib.INIT: {
			ib.INIT: {true, 0, aQKey | aPort | aAccess},
			ib.RTR:  {true, 0, aQKey | aAccess | aMinRNR | aMaxDestRD | aCap},
		},
		ib.RTR: {
			ib.RTS: {true, 0, aCurState | aQKey | aAccess | aMinRNR | aMaxRD | aMig | aCap},
		},
		ib.RTS: {
			ib.RTS: {true, 0, aCurState | aQKey | aAccess | aMinRNR | aCap},
			ib.SQD: {true, 0, aEnSQD},
		},
		ib.SQD: {
			ib.RTS: {true, 0, aCurState | aQKey | aAccess | aMinRNR | aMaxRD | aMaxDestRD | aCap},
			ib.SQD: {true, 0, aQKey | aAccess | aMinRNR | aMaxRD | aMaxDestRD},
		},
		ib.SQE: {
			ib.RTS: {true, 0, aCurState | aQKey | aAccess | aMinRNR | aCap},
		},
	},
}

// datagramRows are the rows of QP0 and QP1, which are bound to their port
// (V11). UD differs only up to RTR.
var datagramRows = modifyRows{
	ib.RESET: {
		ib.INIT: {true, aPKey | aQKey, 0},
	},
	ib.INIT: {
		ib.INIT: {true, 0, aPKey | aQKey},
		ib.RTR:  {true, 0, aPKey | aQKey | aCap},
	},
	ib.RTR: {
		ib.RTS: {true, aSQPSN, aCurState | aQKey | aCap},
	},
	ib.RTS: {
		ib.RTS: {true, 0, aCurState | aQKey | aCap},
		ib.SQD: {true, 0, aEnSQD},
	},
	ib.SQD: {
		ib.RTS: {true, 0, aCurState | aQKey | aPKey | aCap},
		ib.SQD: {true, 0, aPKey | aQKey},
	},
	ib.SQE: {
		ib.RTS: {true, 0, aCurState | aQKey | aCap},
	},
}

// Transition returns the attributes that a modify call of a queue pair, or of an
// EE context, must and may name to move it, STATE aside, and whether the move is legal at all
// (V8, Q2, Q3). Types and states that do not exist have no legal move.
func Transition(t ib.QPType, from, to ib.QPState) (required, optional ib.AttrMask, ok bool) {
	if int(t) >= len(modifyTable) || from >= ib.NumQPStates || to >= ib.NumQPStates {
		return 0, 0, false
	}
	if !modifyTable[t][ib.RESET][ib.INIT].legal { // no type has this number
		return 0, 0, false
	}
	if to == ib.RESET || to == ib.ERR {
		return 0, 0, true
	}
	c := &modifyTable[t][from][to]
	return c.required, c.optional, c.legal
}

// TransitionRow is one legal move of a queue pair with its attributes other
// than STATE.
type TransitionRow struct {
	From, To           ib.QPState
	Required, Optional ib.AttrMask
}

// Transitions returns every legal move of a service, ordered by the state it
// begins in and then by the one it ends in; none for a type that does not
// exist. The slice is the caller's.
func Transitions(t ib.QPType) []TransitionRow {
	var rows []TransitionRow
	for from := ib.RESET; from <= ib.ERR; from++ {
		for to := ib.RESET; to <= ib.ERR; to++ {
			if required, optional, ok := Transition(t, from, to); ok {
				rows = append(rows, TransitionRow{from, to, required, optional})
			}
		}
	}
	return rows
}
