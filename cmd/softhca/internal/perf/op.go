package perf

import (
	"fmt"
	"strings"

	"github.com/softhca/softhca/ib"
)

// Op is what is measured.
type Op uint8

// The operations.
const (
	Write Op = iota
	WriteImm
	Send
	Read
	CmpSwap
	FetchAdd
	numOps
)

// opInfo says what an operation needs.
type opInfo struct {
	name     string
	wr       ib.WROpcode
	receives bool // the server posts receives
	fetches  bool // the answer brings data: latency is that of the answer
	atomic   bool // 8 bytes
}

var ops = [numOps]opInfo{
	Write:    {name: "write", wr: ib.WRRDMAWrite},
	WriteImm: {name: "write-imm", wr: ib.WRRDMAWriteWithImm, receives: true},
	Send:     {name: "send", wr: ib.WRSend, receives: true},
	Read:     {name: "read", wr: ib.WRRDMARead, fetches: true},
	CmpSwap:  {name: "cmp-swap", wr: ib.WRAtomicCmpAndSwp, fetches: true, atomic: true},
	FetchAdd: {name: "fetch-add", wr: ib.WRAtomicFetchAdd, fetches: true, atomic: true},
}

// String returns the name that ParseOp takes.
func (o Op) String() string {
	if o < numOps {
		return ops[o].name
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// info returns the row of an operation that ParseOp returned.
func (o Op) info() *opInfo { return &ops[o] }

// OpNames returns the names of all operations.
func OpNames() []string {
	names := make([]string, 0, numOps)
	for _, o := range ops {
		names = append(names, o.name)
	}
	return names
}

// ParseOp returns the operation with a name. The error names them all.
func ParseOp(name string) (Op, error) {
	for o := range numOps {
		if ops[o].name == name {
			return o, nil
		}
	}
	return 0, fmt.Errorf("operation %q: want one of %s", name, strings.Join(OpNames(), ", "))
}
