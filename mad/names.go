package mad

import "strconv"

// name returns the entry of a table of names, or the number after kind for a
// value that has no name.
func name(names []string, v int, kind string) string {
	if v < len(names) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(v) + ")"
}

// hexName is name for enumerations with gaps, whose numbers are written in
// hexadecimal.
func hexName[V ~uint8 | ~uint16](names map[V]string, v V, kind string) string {
	if s, ok := names[v]; ok {
		return s
	}
	return kind + "(0x" + strconv.FormatUint(uint64(v), 16) + ")"
}
