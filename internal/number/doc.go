// Package number allocates and looks up the numbers of queue pairs and EE contexts. A Pool
// draws unused numbers; a Table maps the number in a packet to its object. The upper 8 of
// the 24 bits are the slot, which all numbers of an adapter share.
//
// Reading order: pool.go, table.go. Neither type is safe for concurrent use.
package number
