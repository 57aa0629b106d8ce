package text

import (
	"slices"
	"strings"
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
		if d := distance(word, lower); d <= max(1, len(word)/3) {
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
		return "want " + Or(all)
	case len(all) > maxShort:
		return "did you mean " + Or(like) + "?"
	default:
		return "want " + Or(all) + "; did you mean " + Or(like) + "?"
	}
}

// distance returns the number of letters to insert, delete, change or swap with their
// neighbor that turns a into b.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			next[j+1] = min(changed, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
