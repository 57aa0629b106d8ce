package qp

import (
	"sync/atomic"

	"github.com/softhca/softhca/internal/deadline"
)

// Links belong to the shard: its lists and its heap run through the QPs, so
// that scheduling one allocates nothing. The QP itself never looks at them.
type Links struct {
	Active       bool          // on the list of QPs with something to transmit
	NextActive   *QP           // next on that list
	Timer        deadline.Link // not later than the QP's deadline
	DoorbellRung atomic.Bool   // on the list of doorbells
	NextDoorbell *QP           // next on that list
}
