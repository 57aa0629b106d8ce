package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limit is the maximum number of characters of one text from outside in a line of output.
const Limit = 400

// Line returns s on one line: it replaces each unprintable character and each invalid byte
// by a Go escape, such as \n, \x1b or \u202e. It cuts the result after limit characters and
// appends "…"; with limit 0 it keeps all.
func Line(s string, limit int) string {
	if limit <= 0 {
		limit = len(s) * len(`\U0010ffff`)
	}
	if len(s) <= limit && clean(s, "") {
		return s
	}
	var b strings.Builder
	n := 0
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		piece := escape(r, s[:size])
		if n += utf8.RuneCountInString(piece); n >= limit && (n > limit || len(s) > size) {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		s = s[size:]
	}
	return b.String()
}

// Lines is like Line without a limit, and keeps line ends and tabs. It is for text of
// several lines whose parts from outside, if any, went through Line.
func Lines(s string) string {
	const kept = "\n\t"
	if clean(s, kept) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if strings.ContainsRune(kept, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r, s[:size]))
		}
		s = s[size:]
	}
	return b.String()
}

// Mask returns s with each unprintable character replaced by other. The result has as many
// characters as s, so that positions stay the same.
func Mask(s string, other rune) string {
	return strings.Map(func(r rune) rune {
		if safe(r) {
			return r
		}
		return other
	}, s)
}

// Args returns text, such as an error that quotes a command line, with each argument in it
// on one line.
func Args(text string, args []string) string {
	for _, a := range args {
		_, value, _ := strings.Cut(a, "=")
		for _, part := range [...]string{a, value} {
			if line := Line(part, 0); line != part {
				text = strings.ReplaceAll(text, part, line)
			}
		}
	}
	return text
}

// safe reports whether a character is printed as it is. The characters that Unicode calls
// control or format characters, those that reverse the direction among them, are not
// printable; nor are line ends, and blanks other than U+0020.
func safe(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

// clean reports whether s needs no escape, except for the characters in kept.
func clean(s, kept string) bool {
	for _, r := range s {
		if !safe(r) && !strings.ContainsRune(kept, r) {
			return false
		}
	}
	return true
}

// escape returns a character, or its escape if it is not printable. bytes are its bytes.
func escape(r rune, bytes string) string {
	switch {
	case safe(r):
		return bytes
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf || r == utf8.RuneError && len(bytes) == 1:
		return fmt.Sprintf(`\x%02x`, bytes[0])
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	default:
		return fmt.Sprintf(`\u%04x`, r)
	}
}
