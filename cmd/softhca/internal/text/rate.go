package text

import (
	"fmt"
	"strings"
)

// Rate returns a rate with the prefix that leaves few digits before the point, such as
// "22.88 Gb/s" and "313 messages/s". unit is the text after the prefix: "b/s", or
// " messages/s".
func Rate(n float64, unit string) string {
	for _, prefix := range [...]struct {
		name string
		size float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n >= prefix.size {
			return fmt.Sprintf("%.2f %s%s", n/prefix.size, prefix.name, unit)
		}
	}
	return fmt.Sprintf("%.0f %s", n, strings.TrimLeft(unit, " "))
}
