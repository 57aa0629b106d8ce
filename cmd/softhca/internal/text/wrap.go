package text

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks s at blanks into lines of so many columns, those after the first
// shorter by indent. A word that is longer has a line of its own.
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

// visible returns the columns of s, in which styles take none.
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
