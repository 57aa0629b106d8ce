// Package text writes text for people: lines that are not too long (wrap.go),
// words that resemble one that there is not (like.go), words to choose from (or.go), causes of errors (bare.go),
// numbers with their nouns (count.go), and times and rates in units that
// suit them (period.go, rate.go).
package text
