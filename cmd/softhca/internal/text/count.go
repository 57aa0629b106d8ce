package text

import "fmt"

// Count returns a number with its noun, such as "1 time" and "2 times".
func Count[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
