package fault

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/printable"
	"github.com/softhca/softhca/internal/wording"
)

// SyntaxError is a mistake in the text of rules. It unwraps to EINVAL.
type SyntaxError struct {
	Text   string // text of all rules
	Offset int    // of the mistake, in bytes
	Msg    string // what is wrong, in a sentence
	Hint   string // a suggestion; may be empty
}

// Unwrap returns EINVAL.
func (e *SyntaxError) Unwrap() error { return ib.EINVAL }

// Error shows the line and points at the character.
func (e *SyntaxError) Error() string {
	begin := strings.LastIndexByte(e.Text[:e.Offset], '\n') + 1
	line, _, _ := strings.Cut(e.Text[begin:], "\n")
	line = printable.Mask(strings.ReplaceAll(line, "\t", " "), '?')
	line, at := clip(line, utf8.RuneCountInString(e.Text[begin:e.Offset]))
	var b strings.Builder
	if n := strings.Count(e.Text[:begin], "\n"); n > 0 {
		fmt.Fprintf(&b, "line %d: ", n+1)
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	fmt.Fprintf(&b, "\n  %s\n  %s^", line, strings.Repeat(" ", at))
	return b.String()
}

// maxShown is how many characters of a line an error shows.
const maxShown = 160

// clip returns the part of a line around character at, and the character's
// position there.
func clip(line string, at int) (string, int) {
	chars := []rune(line)
	if len(chars) <= maxShown {
		return line, at
	}
	lo := min(max(at-maxShown/2, 0), len(chars)-maxShown)
	shown := slices.Clone(chars[lo : lo+maxShown])
	if lo > 0 {
		shown[0] = '…'
	}
	if lo+maxShown < len(chars) {
		shown[maxShown-1] = '…'
	}
	return string(shown), at - lo
}

// hint returns a suggestion if got resembles one of the known words, otherwise
// their list if it is short.
func hint(got string, known []string) string {
	best, at := 3, ""
	for _, w := range known {
		// At most a third of the letters, and at most two, may differ.
		if d := wording.Distance(strings.ToLower(got), strings.ToLower(w)); d < best && d < len(w) && d <= max(len(w)/3, 1) {
			best, at = d, w
		}
	}
	if at != "" {
		return fmt.Sprintf("did you mean %s?", at)
	}
	if len(known) > maxListed {
		return ""
	}
	return "want " + wording.Or(known)
}

// maxListed is how many words a hint lists.
const maxListed = 24
