package text

import (
	"slices"
	"strings"

	"github.com/softhca/softhca/internal/wording"
)

// maxLike is the maximum number of words that Like returns.
const maxLike = 3

// Like returns the words of all that a user may have meant by word, in any case of
// letters: first those that differ in at most a third of the letters, the most similar
// first, then those that begin with word.
func Like(word string, all []string) (like []string) {
	word = strings.ToLower(word)
	near, begin := map[string]int{}, []string{}
	for _, candidate := range all {
		lower := strings.ToLower(candidate)
		if d := wording.Distance(word, lower); d <= max(1, len(word)/3) {
			near[candidate] = d
			like = append(like, candidate)
		} else if len(word) > 1 && strings.HasPrefix(lower, word) {
			begin = append(begin, candidate)
		}
	}
	slices.SortStableFunc(like, func(a, b string) int { return near[a] - near[b] })
	like = append(like, begin...)
	return like[:min(len(like), maxLike)]
}

// DidYouMean returns "; did you mean --this or --that?" with the words that are like an
// unknown word, each after prefix, or "" if there are none.
func DidYouMean(word, prefix string, all []string) string {
	like := Like(word, all)
	if len(like) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(like, " or "+prefix) + "?"
}

// maxShort is the maximum number of words that Want lists even if some are like the
// given word.
const maxShort = 8

// Want returns the valid words for an unknown word: those that are like it and, if
// there are few words or none is like it, all of them.
func Want(word string, all []string) string {
	like := Like(word, all)
	switch {
	case len(like) == 0:
		return "want " + wording.Or(all)
	case len(all) > maxShort:
		return "did you mean " + wording.Or(like) + "?"
	default:
		return "want " + wording.Or(all) + "; did you mean " + wording.Or(like) + "?"
	}
}
