package decode

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// dumpWidth is how many bytes a line of a dump has.
const dumpWidth = 16

// dump returns bytes as tcpdump -X shows them: in each line the offset, then up to
// 16 bytes in hexadecimal, then those as text, in which a point stands for what
// cannot be printed.
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
