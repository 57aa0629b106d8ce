package mad

import (
	"fmt"
	"strings"
)

// Status is the outcome that a response reports: bit 0 busy, bit 1 redirect,
// bits 4 to 2 a code, the upper byte the class's own (IBA 13.4.7).
type Status uint16

// The outcomes that all classes share.
const (
	StatusOK                   Status = 0x0000
	StatusBusy                 Status = 0x0001 // discarded: ask again
	StatusRedirect             Status = 0x0002 // ask where ClassPortInfo says
	StatusBadVersion           Status = 0x0004 // of the header, the class, or the two together
	StatusUnsupportedMethod    Status = 0x0008
	StatusUnsupportedAttribute Status = 0x000c // the method has no such attribute
	StatusInvalidAttribute     Status = 0x001c // a value in the attribute or its modifier

	statusCode Status = 0x001c
)

// String returns the parts of the status joined by a bar, such as "busy",
// "ok" for none; bits without a name are shown as a number.
func (s Status) String() string {
	if s == StatusOK {
		return "ok"
	}
	var parts []string
	if s&StatusBusy != 0 {
		parts = append(parts, "busy")
	}
	if s&StatusRedirect != 0 {
		parts = append(parts, "redirect")
	}
	rest := s &^ (StatusBusy | StatusRedirect)
	if name, ok := statusCodes[s&statusCode]; ok {
		parts, rest = append(parts, name), rest&^statusCode
	}
	if rest != 0 {
		parts = append(parts, fmt.Sprintf("%#x", uint16(rest)))
	}
	return strings.Join(parts, "|")
}

// statusCodes are the names of the codes in bits 4 to 2.
var statusCodes = map[Status]string{
	StatusBadVersion: "bad version", StatusUnsupportedMethod: "unsupported method",
	StatusUnsupportedAttribute: "unsupported attribute", StatusInvalidAttribute: "invalid attribute",
}
