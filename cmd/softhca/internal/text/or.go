package text

import "strings"

// Or returns words as a list to choose from, such as "udp or raw" and "rc, uc or
// ud".
func Or(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
