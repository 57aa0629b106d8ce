package decode

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// dumpWidth is the number of bytes in a line of a dump.
const dumpWidth = 16

// dump returns bytes in the form of tcpdump -X: in each line the offset, up to 16 bytes
// in hexadecimal, and the same bytes as text, with a point for each that is not
// printable.
func dump(data []byte) string {
	var b strings.Builder
	for at := 0; at < len(data); at += dumpWidth {
		row := data[at:min(at+dumpWidth, len(data))]
		var digits, letters strings.Builder
		for i := 0; i < len(row); i += 2 {
			digits.WriteString(" " + hex.EncodeToString(row[i:min(i+2, len(row))]))
		}
		for _, c := range row {
			if c < ' ' || c > '~' {
				c = '.'
			}
			letters.WriteByte(c)
		}
		fmt.Fprintf(&b, "\t0x%04x: %-40s  %s\n", at, digits.String(), letters.String())
	}
	return b.String()
}
