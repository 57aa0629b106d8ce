// Package text breaks text for people into lines. wrap.go is all of it.
package text
