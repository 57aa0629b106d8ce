// Package text formats text for people: wrapped lines (wrap.go), suggestions for
// misspelt words (like.go), causes of errors (bare.go), answers (yes.go), numbers with
// their nouns (count.go), and times and rates in suitable units (period.go, rate.go).
package text
