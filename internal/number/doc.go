// Package number has the numbers of queue pairs and of EE contexts: a Pool draws them for
// new objects, a Table finds the objects of arriving packets. All numbers of an adapter
// are in one slot, the upper 8 of their 24 bits.
//
// Reading order: pool.go, table.go. Neither type is safe for concurrent use.
package number
