package states

// wrap joins words with blanks into lines of at most width columns; "-" for
// no words.
func wrap(words []string, width int) []string {
	if len(words) == 0 {
		return []string{"-"}
	}
	lines := []string{words[0]}
	for _, w := range words[1:] {
		last := &lines[len(lines)-1]
		if len(*last)+1+len(w) > width {
			lines = append(lines, w)
			continue
		}
		*last += " " + w
	}
	return lines
}
