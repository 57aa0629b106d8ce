package mad

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/softhca/softhca/internal/golden"
)

// named is an enumeration by its numbers.
type named struct {
	kind   string
	max    int
	string func(int) string
}

var enumerations = []named{
	{"Class", 0xff, func(v int) string { return Class(v).String() }},
	{"Method", 0xff, func(v int) string { return Method(v).String() }},
	{"AttrID", 0xffff, func(v int) string { return AttrID(v).String() }},
	{"TransportService", 0xff, func(v int) string { return TransportService(v).String() }},
	{"Which", 0xff, func(v int) string { return Which(v).String() }},
	{"RejReason", 0xffff, func(v int) string { return RejReason(v).String() }},
	{"Failover", 0xff, func(v int) string { return Failover(v).String() }},
	{"SIDRStatus", 0xff, func(v int) string { return SIDRStatus(v).String() }},
	{"APRStatus", 0xff, func(v int) string { return APRStatus(v).String() }},
	{"ps", 0xffff, func(v int) string { return PortSpace(v).String() }},
}

// TestC2_C7_Names lists every value that has a name in a golden file, which was
// checked by hand against the tables of IBA chapters 12 and 13, and checks that
// the text of every other value has its number.
func TestC2_C7_Names(t *testing.T) {
	var all bytes.Buffer
	for _, e := range enumerations {
		for v := range e.max + 1 {
			text := e.string(v)
			switch text {
			case fmt.Sprintf("%s(%d)", e.kind, v), fmt.Sprintf("%s(%#x)", e.kind, v):
				continue
			}
			if text == "" || strings.HasPrefix(text, e.kind+"(") {
				t.Errorf("%s %d prints as %q", e.kind, v, text)
			}
			fmt.Fprintf(&all, "%s %d %#x %s\n", e.kind, v, v, text)
		}
	}
	golden.Check(t, "testdata/names.golden", all.String())
}

func TestC2_AttributesOfMessages(t *testing.T) {
	for _, k := range kinds {
		if got := k.attr.String(); got != k.name {
			t.Errorf("the attribute %#04x of %s is called %s", uint16(k.attr), k.name, got)
		}
	}
}

func TestC7_RejReasonNumbers(t *testing.T) {
	for reason, want := range map[RejReason]int{
		RejNoQP: 1, RejTimeout: 4, RejInvalidServiceID: 8, RejStaleConnection: 10, RejInvalidGID: 12,
		RejInvalidAltGID: 18, RejPortRedirect: 25, RejConsumer: 28, RejInvalidAltFlowLabel: 33,
		RejVendorOptionUnsupported: 35,
	} {
		if int(reason) != want {
			t.Errorf("the reason %v is %d, want %d", reason, reason, want)
		}
	}
}

func TestStatusString(t *testing.T) {
	for s, want := range map[Status]string{
		StatusOK:                              "ok",
		StatusBusy:                            "busy",
		StatusRedirect:                        "redirect",
		StatusBadVersion:                      "bad version",
		StatusUnsupportedMethod:               "unsupported method",
		StatusUnsupportedAttribute:            "unsupported attribute",
		StatusInvalidAttribute:                "invalid attribute",
		StatusBusy | StatusRedirect:           "busy|redirect",
		StatusBusy | StatusBadVersion | 0x300: "busy|bad version|0x300",
		0x0010:                                "0x10",
		0x8000:                                "0x8000",
	} {
		if got := s.String(); got != want {
			t.Errorf("status %#04x prints as %q, want %q", uint16(s), got, want)
		}
	}
}
