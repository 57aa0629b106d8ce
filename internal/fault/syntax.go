package fault

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/printable"
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

// hint returns a suggestion if got resembles one of words, otherwise the list
// of words if it is short.
func hint(got string, words []string) string {
	best, at := 3, ""
	for _, w := range words {
		// At most a third of the letters, and at most two, may differ.
		if d := distance(strings.ToLower(got), strings.ToLower(w)); d < best && d < len(w) && d <= max(len(w)/3, 1) {
			best, at = d, w
		}
	}
	if at != "" {
		return fmt.Sprintf("did you mean %s?", at)
	}
	if len(words) > maxListed {
		return ""
	}
	return "want " + orList(words)
}

// maxListed is how many words a hint lists.
const maxListed = 24

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// maxCompared bounds the length of words that are compared.
const maxCompared = 32

// distance returns the edit distance of a and b: letters changed, added,
// removed, or swapped with the next.
func distance(a, b string) int {
	if len(a) > maxCompared || len(b) > maxCompared {
		return maxCompared
	}
	var rows [maxCompared + 1][maxCompared + 1]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			d := max(i, j)
			if i > 0 && j > 0 {
				cost := 1
				if a[i-1] == b[j-1] {
					cost = 0
				}
				d = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					d = min(d, rows[i-2][j-2]+1)
				}
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
