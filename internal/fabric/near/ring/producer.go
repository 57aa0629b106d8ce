package ring

import "fmt"

// Producer is the end of a ring that writes records. It is not safe for concurrent use. Nothing
// in it allocates or blocks.
type Producer struct {
	own  *Memory // the records, the head, and whether the producer waits
	peer *View   // the tail, and whether the consumer sleeps
	size uint64

	next     uint64 // position after the last committed record
	head     uint64 // as published, without headEnd
	tail     uint64 // as read last
	reserved int    // bytes that the last Reserve returned

	waiting uint64 // the value of the word at waitingAt
	woken   uint64 // the value of the consumer's word at the last request for a wake-up
	ended   bool
	err     error
	counts  Counts
}

// NewProducer returns the producing end of the ring in own, which must be new.
func NewProducer(own *Memory, peer *View) *Producer {
	return &Producer{own: own, peer: peer, size: own.size}
}

// Bytes returns the size of the memory in which the ring is, in bytes.
func (p *Producer) Bytes() int { return p.own.Bytes() }

// MaxRecord returns the maximum number of bytes in a record.
func (p *Producer) MaxRecord() int { return int(p.size) - headerLen }

// Err returns ErrGarbage if the consumer has written garbage. Then Reserve returns nil.
func (p *Producer) Err() error { return p.err }

// Counts returns what the producer has counted.
func (p *Producer) Counts() Counts { return p.counts }

// Drop counts packets that the caller dropped because the ring was full.
func (p *Producer) Drop(packets int) { p.counts.Dropped += uint64(packets) }

// Reserve returns room for a record of at most most bytes. It returns nil if fewer than least are
// free, after End, and after an error. It replaces a reservation that was not committed. The
// consumer ignores this part of the shared memory until Publish.
func (p *Producer) Reserve(least, most int) []byte {
	room := p.Lend(p.next, least, most)
	p.reserved = len(room)
	if room == nil && !p.ended && p.err == nil {
		p.counts.Full++
	}
	return room
}

// Next returns the position of the next record.
func (p *Producer) Next() uint64 { return p.next }

// After returns the position of the record that follows one of n bytes.
func After(at uint64, n int) uint64 { return at + span(n) }

// Lend is Reserve for a later record: at is its position, Next or After a record for which Lend
// returned room before. It reserves nothing: Reserve returns the same room again when all
// earlier records are committed, for the caller to commit what it has written there.
func (p *Producer) Lend(at uint64, least, most int) []byte {
	if p.free(at) < span(most) {
		p.readTail()
	}
	if p.ended || p.err != nil || p.free(at) < span(least) {
		return nil
	}
	return p.own.bytes(p.own.place(at)+headerLen, min(most, int(p.free(at))-headerLen))
}

// Commit ends the record for which Reserve returned room: n bytes, which are count packets of
// stride bytes each, the last of which may be shorter. The consumer gets the tag, too. Commit
// panics if the record is larger than its room or the lengths do not fit each other.
func (p *Producer) Commit(n, stride, count int, tag uint64) {
	h := newHeader(n, stride, count)
	if n > p.reserved || stride < 0 || stride > n || uint(count) > maxCount || !h.valid() {
		panic(fmt.Sprintf("ring: record of %d bytes, %d packets of %d bytes, in room for %d", n, count, stride, p.reserved))
	}
	at := p.own.place(p.next)
	p.own.put(at, uint64(h))
	p.own.put(at+8, tag)
	p.next += span(n)
	p.reserved = 0
	p.counts.add(count, n)
}

// Publish makes all committed records visible to the consumer. It reports whether the consumer
// has to be woken.
func (p *Producer) Publish() (wake bool) {
	if p.head == p.next {
		return false
	}
	p.head = p.next
	p.own.store(headAt, p.head)
	return p.consumerSleeps()
}

// Switch announces that everything for the peer goes through the ring from now on, until End.
func (p *Producer) Switch() { p.own.store(switchedAt, 1) }

// End publishes all committed records and the end of the ring. It reports whether the consumer
// has to be woken.
func (p *Producer) End() (wake bool) {
	p.ended = true
	p.head = p.next
	p.own.store(headAt, p.head|headEnd)
	return p.consumerSleeps()
}

// consumerSleeps reports whether the consumer sleeps, but true only once each time it arms.
func (p *Producer) consumerSleeps() bool {
	now := p.peer.load(sleepingAt)
	if now&1 == 0 || now == p.woken {
		return false
	}
	p.woken = now
	p.counts.Wakes++
	return true
}

// Arm asks the consumer for a wake-up when there is room. It reports false, and asks for none, if
// there is already room for a record of n bytes, or the ring has an error. After the wake-up,
// which may come early, call Disarm or Arm again.
func (p *Producer) Arm(n int) bool {
	p.waiting = (p.waiting + 1) | 1 // the next odd number
	p.own.store(waitingAt, p.waiting)
	p.readTail()
	if p.err != nil || p.free(p.next) >= span(n) {
		p.Disarm()
		return false
	}
	return true
}

// Disarm ends the wait for room.
func (p *Producer) Disarm() {
	if p.waiting&1 != 0 {
		p.waiting++
		p.own.store(waitingAt, p.waiting)
	}
}

// free returns the number of free bytes from a position on, according to the tail read last.
func (p *Producer) free(at uint64) uint64 { return p.size - min(at-p.tail, p.size) }

// readTail reads the tail. A correct consumer moves it forward, and not past the head.
func (p *Producer) readTail() {
	t := p.peer.load(tailAt)
	if t%line != 0 || p.head-t > p.head-p.tail {
		p.err = ErrGarbage
		return
	}
	p.tail = t
}
