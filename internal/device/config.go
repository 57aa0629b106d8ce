package device

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"net/netip"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/check/live"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/identity"
	"github.com/softhca/softhca/internal/memory"
	"github.com/softhca/softhca/internal/qp"
	"github.com/softhca/softhca/internal/ring"
	"github.com/softhca/softhca/internal/trace"
)

// Config says which adapter to open; see verbs.Config.
type Config struct {
	Addr           string
	Raw            bool
	Network        *pipe.Network // replaces sockets
	DisableOffload bool
	Wire           Wire
	Capture        io.Writer
	PromptCapture  bool // captures each packet at once: for a process that may end at any time
	Trace          trace.Tracer
	Changed        func(ib.QPN, uint32) // as qp.Env.Changed says; nil for none
	Refused        trace.Tracer         // gets the records of Kind Refusal; nil for none
	Log            *slog.Logger         // logs events; nil for none
	Seed           uint64
	NodeGUID       uint64
	QPNSlot        uint8
	Exclusive      bool // no other process may share the addresses
	Idle           bool // the adapter only describes itself; on Linux it does not bind its address
	Privileged     bool
	SecondGID      bool // an adapter with one address has it at index 0 and 1 of its GID table
	Settings       qp.Settings
	Writes         *memory.WriteLog // records the adapter's writes to registered memory; nil: they are not recorded
	Check          *live.Sink       // reports findings of the program that uses the adapter; nil: it is not checked
	Queues         ring.Allocator   // allocates the memory of queues; zero: Go's heap
	Faults         Faults
	Env            Environment
	Board          *Board // nil: the adapter creates one
	BoardFile      string // file that contains Board, at BoardOffset; empty: none that other processes read
	BoardOffset    int64
	// Ended is called once, when the adapter is closed or its process ends, with the last counts.
	// It calls remove, which removes the table of objects. nil: the table is only removed.
	Ended   func(b *Board, remove func())
	Name    string                                         // of the adapter, for other processes; empty: softhca0
	Warn    func(format string, args ...any)               // logs why the device does not share its addresses; nil discards
	journal *capture.Journal                               // of the capture; nil without one
	backlog func(dst netip.Addr, to ib.QPN) fabric.Backlog // of the port; nil if the port has no sockets
	Adapter int                                            // index, from 0, among the adapters that share an environment
}

// guid returns the GUID of the adapter on an address, and whether another process
// that opens the adapter derives the same one.
func (c *Config) guid(addr netip.Addr) (guid uint64, stays bool, err error) {
	if c.NodeGUID != 0 {
		return c.NodeGUID, true, nil
	}
	if env := c.Env.GUID; env != "" {
		g, err := strconv.ParseUint(strings.ReplaceAll(env, ":", ""), 16, 64)
		if err != nil || g == 0 {
			return 0, false, fmt.Errorf("%s=%q: want a GUID such as 0200:0000:0000:0001: %w", guidEnv, env, ib.EINVAL)
		}
		return g + uint64(c.Adapter), true, nil
	}
	secret, stays := identity.OfUser(c.Env.ConfigDir)
	return secret.GUID(addr, c.QPNSlot), stays, nil
}

// source returns the generator of keys and QPNs.
func (c *Config) source() func() uint32 {
	if c.Seed != 0 {
		return mrand.New(mrand.NewPCG(c.Seed, c.Seed)).Uint32
	}
	return random
}

// random returns an unpredictable number.
func random() uint32 {
	var b [4]byte
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(b[:])
	return binary.NativeEndian.Uint32(b[:])
}
