package ring

import "io"

// Record is a packet, or a run of packets.
type Record struct {
	Bytes  []byte // the packets, end to end; in the peer's memory, valid until Release
	Stride int    // size of every packet but the last, which may be shorter
	Count  int    // packets, at least 1
	Tag    uint64 // from the producer, unchecked
}

// Consumer is the end of a ring that reads records. It is not safe for concurrent use. Nothing in
// it allocates or blocks.
type Consumer struct {
	own  *Memory // the tail, and whether the consumer sleeps
	peer *View   // the records, the head, and whether the producer waits
	size uint64

	next uint64 // position of the next record
	head uint64 // as read last, without headEnd
	tail uint64 // as released

	sleeping uint64 // the value of the word at sleepingAt
	woken    uint64 // the value of the producer's word at the last request for a wake-up
	ended    bool   // the head has headEnd
	err      error
	counts   Counts
}

// NewConsumer returns the consuming end of the ring in peer, which must be new.
func NewConsumer(own *Memory, peer *View) *Consumer {
	return &Consumer{own: own, peer: peer, size: peer.size}
}

// Err returns io.EOF after the last record of a ring that has ended, ErrGarbage if the producer
// has written garbage, otherwise nil. After an error Next reports false.
func (c *Consumer) Err() error { return c.err }

// Counts returns what the consumer has counted.
func (c *Consumer) Counts() Counts { return c.counts }

// Next reads the next record. It reports false if there is none, or an error. The peer may change
// the bytes at any time: read headers in them once.
func (c *Consumer) Next(r *Record) bool {
	if c.err != nil || c.next == c.head && !c.readHead() {
		return false
	}
	at := c.peer.place(c.next)
	h := header(c.peer.load(at))
	if !h.valid() || span(h.length()) > c.head-c.next {
		c.err = ErrGarbage
		return false
	}
	r.Bytes = c.peer.bytes(at+headerLen, h.length())
	r.Stride, r.Count, r.Tag = h.stride(), h.count(), c.peer.load(at+8)
	c.next += span(h.length())
	c.counts.add(r.Count, len(r.Bytes))
	return true
}

// readHead reads the head, and reports whether there is a record. A correct producer moves the head
// forward, to at most the size of the ring past the tail, and no further once the ring has ended.
func (c *Consumer) readHead() bool {
	if c.ended {
		c.err = io.EOF
		return false
	}
	h := c.peer.load(headAt)
	ended := h%line == headEnd
	if ended {
		h -= headEnd
	}
	if h%line != 0 || h-c.next > c.size-(c.next-c.tail) {
		c.err = ErrGarbage
		return false
	}
	c.head, c.ended = h, ended
	if ended && h == c.next {
		c.err = io.EOF
	}
	return h != c.next
}

// Switched reports whether the producer has called Switch, and not End.
func (c *Consumer) Switched() bool {
	return c.peer.load(switchedAt) != 0 && c.peer.load(headAt)%line != headEnd
}

// Release gives the room of all records that Next returned back to the producer. It reports
// whether the producer has to be woken: it waits for room, and half of the ring is free.
func (c *Consumer) Release() (wake bool) {
	if c.tail == c.next {
		return false
	}
	c.tail = c.next
	c.own.store(tailAt, c.tail)
	now := c.peer.load(waitingAt)
	if now&1 == 0 || now == c.woken || c.head-c.tail > c.size/2 {
		return false
	}
	c.woken = now
	c.counts.Wakes++
	return true
}

// Arm asks the producer for a wake-up when there is a record. It reports false, and asks for none,
// if Next has a record or an error to report, or if records were not released. After the wake-up,
// which may come early, call Disarm or Arm again.
func (c *Consumer) Arm() bool {
	if c.tail != c.next || c.next != c.head || c.err != nil {
		return false
	}
	c.sleeping = (c.sleeping + 1) | 1 // the next odd number
	c.own.store(sleepingAt, c.sleeping)
	if c.readHead() || c.err != nil {
		c.Disarm()
		return false
	}
	return true
}

// Disarm ends the wait for a record: the producer requests no more wake-ups.
func (c *Consumer) Disarm() {
	if c.sleeping&1 != 0 {
		c.sleeping++
		c.own.store(sleepingAt, c.sleeping)
	}
}
