package packet

import "github.com/softhca/softhca/roce"

// Prefixes keeps the ICRC prefixes of the four packet sizes that were last used on one path. A
// message has at most three sizes, and its acknowledgement one. The zero value is empty; a path
// that changes needs an empty one.
type Prefixes struct {
	size [4]int32
	pre  [4]roce.Prefix
	turn uint8
}

// Find returns the prefix of packets of size bytes, if it is there.
func (c *Prefixes) Find(size int) (pre roce.Prefix, ok bool) {
	for i, s := range c.size {
		if int(s) == size {
			return c.pre[i], true
		}
	}
	return roce.Prefix{}, false
}

// Add keeps the prefix of packets of size bytes and returns it. It replaces the oldest of the four.
func (c *Prefixes) Add(size int, pre roce.Prefix) roce.Prefix {
	i := c.turn & 3
	c.turn++
	c.size[i], c.pre[i] = int32(size), pre
	return pre
}
