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

// unnamed returns the text of a value without a name, for enumerations whose
// numbers are written in hexadecimal.
func unnamed(kind string, v uint64) string {
	return kind + "(0x" + strconv.FormatUint(v, 16) + ")"
}
