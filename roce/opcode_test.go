package roce

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
)

// TestOpcodeTable prints the row of every opcode and compares it with the
// golden table, which was checked by hand against IBA 9.2.1 and its annexes.
func TestOpcodeTable(t *testing.T) {
	var got bytes.Buffer
	for v := range 256 {
		fmt.Fprintln(&got, describe(Opcode(v)))
	}
	golden.Check(t, "testdata/opcodes.golden", got.Bytes())
}

// describe returns a row of the opcode table as a line of text.
func describe(o Opcode) string {
	i := o.Info()
	if !i.Known {
		return fmt.Sprintf("%02x %s %v", uint8(o), o, i.Service)
	}
	flags := []byte("....")
	for n, f := range []OpFlags{FlagStart, FlagEnd, FlagImm, FlagInv} {
		if i.Flags&f != 0 {
			flags[n] = "SEIV"[n]
		}
	}
	direction := "request"
	if i.Flags&FlagResponse != 0 {
		direction = "response"
	}
	names := []string{"BTH"}
	for n, h := range headerLens {
		if i.Headers&h.header != 0 {
			names = append(names, headerNames[n])
		}
	}
	return fmt.Sprintf("%02x %s %v %v %s %s %s=%d payload %v", uint8(o), o, i.Service, i.Kind, flags, direction,
		strings.Join(names, "+"), i.HeaderLen, i.Payload)
}

// headerNames are the names of the extended headers in wire order.
var headerNames = [...]string{"RDETH", "DETH", "XRCETH", "FETH", "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt", "IETH"}

func TestOpcodeConstants(t *testing.T) {
	for o, want := range map[Opcode]string{
		RCSendFirst: "RC_SEND_FIRST", RCRDMAWriteOnlyWithImm: "RC_RDMA_WRITE_ONLY_WITH_IMM",
		RCRDMAReadResponseMiddle: "RC_RDMA_READ_RESPONSE_MIDDLE", RCAtomicAcknowledge: "RC_ATOMIC_ACKNOWLEDGE",
		RCSendOnlyWithInvalidate: "RC_SEND_ONLY_WITH_INVALIDATE", RCFlush: "RC_FLUSH", RCAtomicWrite: "RC_ATOMIC_WRITE",
		UCRDMAWriteLast: "UC_RDMA_WRITE_LAST", UDSendOnlyWithImm: "UD_SEND_ONLY_WITH_IMM", CNP: "CNP",
		RDResync: "RD_RESYNC", XRCFetchAdd: "XRC_FETCH_ADD", 0x1f: "UNKNOWN_0x1f", 0xc0: "UNKNOWN_0xc0",
		0x2d: "UNKNOWN_0x2d", 0x15: "UNKNOWN_0x15",
	} {
		if got := o.String(); got != want {
			t.Errorf("opcode %#02x is called %s, want %s", uint8(o), got, want)
		}
	}
}

func TestEnumNamesAreComplete(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{ServiceXRC.String(), "XRC"}, {Service(6).String(), "Service(6)"},
		{KindResync.String(), "RESYNC"}, {Kind(12).String(), "Kind(12)"},
		{Payload16.String(), "16"}, {PayloadRule(6).String(), "PayloadRule(6)"},
		{FaultPad.String(), "pad"}, {Fault(6).String(), "Fault(6)"},
	} {
		if c.got != c.want {
			t.Errorf("name %q, want %q", c.got, c.want)
		}
	}
}

// TestAnswers shows that each request of a reliable service has an answer among the
// responses of that service, and nothing else has one.
func TestAnswers(t *testing.T) {
	for v := range 256 {
		i := Opcode(v).Info()
		if !i.Known {
			continue
		}
		answer, ok := i.Kind.Answer()
		request := i.Flags&FlagResponse == 0 && i.Kind != KindCNP
		if ok != request {
			t.Errorf("%s has an answer: %t", i.Name, ok)
		}
		reliable := i.Service == ServiceRC || i.Service == ServiceRD || i.Service == ServiceXRC
		if !request || !reliable {
			continue
		}
		found := false
		for a := range Opcode(32) {
			r := (Opcode(v)&0xe0 | a).Info()
			found = found || r.Known && r.Kind == answer && r.Flags&FlagResponse != 0
		}
		if !found {
			t.Errorf("%s is answered by %v, which its service does not have", i.Name, answer)
		}
	}
	if _, ok := Kind(200).Answer(); ok {
		t.Error("a kind that is none has an answer")
	}
	for k, want := range map[Kind]Kind{
		KindSend: KindAck, KindWrite: KindAck, KindResync: KindAck, KindReadRequest: KindReadResponse, KindFlush: KindReadResponse,
		KindAtomicWrite: KindReadResponse, KindCompareSwap: KindAtomicAck, KindFetchAdd: KindAtomicAck,
	} {
		if got, _ := k.Answer(); got != want {
			t.Errorf("%v is answered by %v, want %v", k, got, want)
		}
	}
}

func TestPayloadRules(t *testing.T) {
	const mtu = 256
	for _, c := range []struct {
		rule   PayloadRule
		lo, hi int
	}{
		{PayloadNone, 0, 0}, {PayloadMTU, mtu, mtu}, {PayloadUpToMTU, 0, mtu},
		{PayloadLast, 1, mtu}, {Payload8, 8, 8}, {Payload16, 16, 16},
	} {
		for n := -1; n <= mtu+1; n++ {
			if got, want := c.rule.Allows(n, mtu), n >= c.lo && n <= c.hi; got != want {
				t.Errorf("rule %v allows %d bytes: %v, want %v", c.rule, n, got, want)
			}
		}
	}
}
