package text

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks s at blanks into lines of at most width columns; lines after the first
// are shorter by indent. A longer word has a line of its own.
func Wrap(s string, width, indent int) []string {
	var lines []string
	line, room := "", width
	for i, word := range strings.Split(s, " ") {
		switch {
		case i == 0:
			line = word
		case visible(line)+1+visible(word) <= room:
			line += " " + word
		case word == "": // blanks at the end of a line
		default:
			lines = append(lines, strings.TrimRight(line, " "))
			line, room = word, width-indent
		}
	}
	return append(lines, line)
}

// visible returns the number of columns of s, without its styles.
func visible(s string) (n int) {
	for {
		before, rest, styled := strings.Cut(s, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !styled {
			return n
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}
