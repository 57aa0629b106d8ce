// Package wording is what messages about misspelt words share: how far words are apart, and
// lists of words to choose from.
//
// Everything is in wording.go.
package wording
