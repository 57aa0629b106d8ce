//go:build !portable && !ringmodel

package ring

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRecordsArriveInOrder(t *testing.T) {
	a, b := pair(t, minSize)
	b.none(t, nil)
	a.write(t, 100, 1, 1)
	b.none(t, nil) // not published yet
	a.write(t, 64, 3, 2)
	for range 2 {
		if a.p.Publish() {
			t.Error("the consumer has to be woken although it does not sleep")
		}
	}
	b.read(t, 100, 1, 1)
	b.read(t, 64, 3, 2)
	b.none(t, nil)
	b.write(t, 7, 1, 3) // the other direction
	b.p.Publish()
	a.read(t, 7, 1, 3)
	if got, want := a.p.Counts(), (Counts{Records: 2, Packets: 4, Bytes: 292}); got != want || b.c.Counts() != want {
		t.Errorf("counted %+v and %+v, want %+v", got, b.c.Counts(), want)
	}
}

func TestShortLastPacket(t *testing.T) {
	a, b := pair(t, minSize)
	a.p.Reserve(1, 250)
	a.p.Commit(250, 100, 3, 0)
	a.p.Publish()
	var r Record
	if !b.c.Next(&r) || len(r.Bytes) != 250 || r.Stride != 100 || r.Count != 3 {
		t.Errorf("a run of packets of 100, 100 and 50 bytes arrived as %d packets of %d in %d bytes", r.Count, r.Stride, len(r.Bytes))
	}
}

// Records of all sizes cross the end of the ring: each arrives contiguous and unchanged.
func TestRecordsCrossTheEnd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	a, b := pair(t, minSize)
	crossed := 0
	for i := range 20000 {
		n := 1 + random.IntN(a.p.MaxRecord())
		if i%3 > 0 {
			n = 1 + n%200
		}
		if at := a.own.place(a.p.next) - a.own.data; at+span(n) > a.own.size {
			crossed++
		}
		a.write(t, n, 1, byte(i))
		a.p.Publish()
		b.read(t, n, 1, byte(i))
		b.c.Release()
	}
	if crossed < 1000 {
		t.Errorf("%d records cross the end of the ring, want a thousand", crossed)
	}
}

func TestFullRing(t *testing.T) {
	a, b := pair(t, minSize)
	for round := range 3 { // room is used again
		n := 0
		for ; a.p.Reserve(48, 48) != nil; n++ {
			a.p.Commit(48, 48, 1, uint64(n))
		}
		if n != minSize/line {
			t.Fatalf("%d records of one line in a ring of %d lines", n, minSize/line)
		}
		if full := a.p.Counts().Full; full != uint64(2*round+1) {
			t.Errorf("the ring was full %d times, want %d", full, 2*round+1)
		}
		a.p.Publish()
		var r Record
		for i := range n {
			if !b.c.Next(&r) || r.Tag != uint64(i) {
				t.Fatalf("record %d has the tag %d", i, r.Tag)
			}
		}
		if a.p.Reserve(1, 1) != nil {
			t.Fatal("there is room before the consumer has released it")
		}
		b.c.Release()
	}
	a.p.Drop(5)
	if a.p.Counts().Dropped != 5 {
		t.Error("dropped packets are not counted")
	}
}

func TestReserveReturnsWhatThereIs(t *testing.T) {
	a, _ := pair(t, minSize)
	if a.p.Reserve(minSize-headerLen+1, minSize) != nil {
		t.Error("a record larger than the ring has room")
	}
	if n := len(a.p.Reserve(1, 1<<20)); n != a.p.MaxRecord() {
		t.Errorf("room for %d bytes in an empty ring, want %d", n, a.p.MaxRecord())
	}
	if n := len(a.p.Reserve(1, 100)); n != 100 {
		t.Errorf("room for %d bytes, want 100", n)
	}
	a.p.Commit(60, 60, 1, 0)
	if n := len(a.p.Reserve(1, 1<<20)); n != minSize-2*line-headerLen {
		t.Errorf("room for %d bytes after a record of two lines, want %d", n, minSize-2*line-headerLen)
	}
}

func TestCommitChecksTheRecord(t *testing.T) {
	a, _ := pair(t, minSize)
	for _, c := range []struct{ n, stride, count int }{
		{101, 101, 1}, {0, 0, 0}, {0, 0, 1}, {-1, -1, 1}, {100, 100, 2}, {100, 50, 1}, {100, 200, 1}, {100, 50, 3}, {100, -1, 1}, {100, 1, -1}, {100, 100, 1 << 12},
	} {
		a.p.Reserve(100, 100)
		if !panics(func() { a.p.Commit(c.n, c.stride, c.count, 0) }) {
			t.Errorf("a record of %d bytes, %d packets of %d, is committed in room for 100", c.n, c.count, c.stride)
		}
	}
	a.p.Reserve(100, 100)
	a.p.Commit(100, 100, 1, 0)
	if !panics(func() { a.p.Commit(100, 100, 1, 0) }) {
		t.Error("a record is committed without a reservation")
	}
}

func TestPacketsOfARecordAreBounded(t *testing.T) {
	a, b := pair(t, minSize)
	a.p.Reserve(maxCount, maxCount)
	a.p.Commit(maxCount, 1, maxCount, 0)
	a.p.Publish()
	b.c.Next(new(Record))
	if b.c.Counts().Packets != maxCount {
		t.Errorf("%d packets arrived, want %d", b.c.Counts().Packets, maxCount)
	}
	a.p.Reserve(maxCount+1, maxCount+1)
	if !panics(func() { a.p.Commit(maxCount+1, 1, maxCount+1, 0) }) {
		t.Errorf("a record of more than %d packets is committed", maxCount)
	}
}

// panics reports whether f panics.
func panics(f func()) (does bool) {
	defer func() { does = recover() != nil }()
	f()
	return false
}

func TestEnd(t *testing.T) {
	a, b := pair(t, minSize)
	a.write(t, 10, 1, 1)
	a.p.Publish()
	a.write(t, 20, 1, 2) // End publishes it
	a.p.End()
	if a.p.Reserve(1, 1) != nil {
		t.Error("there is room for a record after the end")
	}
	b.read(t, 10, 1, 1)
	b.read(t, 20, 1, 2)
	if b.c.Arm() {
		t.Error("the consumer may sleep before it has released the records")
	}
	b.c.Release()
	if b.c.Arm() {
		t.Error("the consumer may sleep although the ring has ended")
	}
	b.none(t, io.EOF)

	a, b = pair(t, minSize) // an end without records
	a.p.End()
	b.none(t, io.EOF)
	a, b = pair(t, minSize) // an end that comes after the last record
	a.write(t, 10, 1, 1)
	a.p.Publish()
	b.read(t, 10, 1, 1)
	b.none(t, nil)
	a.p.End()
	b.none(t, io.EOF)
}

func TestConsumerIsWokenOnceForEachSleep(t *testing.T) {
	a, b := pair(t, minSize)
	send := func(n int, want bool, why string) {
		t.Helper()
		for i := range n {
			a.write(t, 10, 1, 1)
			if wake := a.p.Publish(); wake != (want && i == 0) {
				t.Errorf("%s: publication %d asks for a wake-up: %t", why, i, wake)
			}
		}
		for range n {
			b.read(t, 10, 1, 1)
		}
	}
	send(3, false, "the consumer polls")
	if b.c.Arm() {
		t.Error("the consumer may sleep before it has released the records")
	}
	b.c.Release()
	for range 3 { // without Disarm, too
		if !b.c.Arm() {
			t.Fatal("the consumer may not sleep although the ring is empty")
		}
		send(3, true, "the consumer sleeps")
		b.c.Release()
	}
	b.c.Disarm()
	send(3, false, "the consumer polls again")
	b.c.Release()
	a.write(t, 10, 1, 1)
	a.p.Publish()
	if b.c.Arm() {
		t.Error("the consumer may sleep although there is a record")
	}
	send(1, false, "the consumer does not sleep")
	b.read(t, 10, 1, 1)
	b.c.Release()
	b.c.Arm()
	if !a.p.End() {
		t.Error("the end does not wake the consumer")
	}
}

func TestProducerIsWokenWhenHalfOfTheRingIsFree(t *testing.T) {
	a, b := pair(t, minSize)
	const records = minSize / line
	if a.p.Arm(1) {
		t.Error("the producer waits for room although there is some")
	}
	for round := range 3 {
		for range records {
			a.write(t, 1, 1, 1)
		}
		a.p.Publish()
		if round < 2 && !a.p.Arm(1) {
			t.Fatal("the producer does not wait for room although there is none")
		}
		if round == 2 {
			a.p.Disarm()
		}
		for i := range records {
			b.read(t, 1, 1, 1)
			if wake := b.c.Release(); wake != (round < 2 && i == records/2-1) {
				t.Errorf("round %d: release %d asks for a wake-up: %t", round, i, wake)
			}
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	a, b := pair(t, minSize)
	var r Record
	if n := testing.AllocsPerRun(1000, func() {
		b.c.Arm()
		a.p.Reserve(100, 200)
		a.p.Commit(100, 50, 2, 0)
		a.p.Publish()
		b.c.Next(&r)
		b.c.Release()
	}); n != 0 {
		t.Errorf("%v allocations for each record, want none", n)
	}
}

// TestSwitch announces that everything goes through the ring, and then its end.
func TestSwitch(t *testing.T) {
	a, b := pair(t, 1<<16)
	want := func(when string, want bool) {
		t.Helper()
		if b.c.Switched() != want {
			t.Errorf("%s: switched is %v, want %v", when, !want, want)
		}
		if a.c.Switched() {
			t.Errorf("%s: the other ring has switched", when)
		}
	}
	want("in the beginning", false)
	a.write(t, 64, 1, 1)
	a.p.Publish()
	want("after a record", false)
	a.p.Switch()
	want("after the switch", true)
	b.read(t, 64, 1, 1)
	a.write(t, 64, 1, 2)
	a.p.Publish()
	want("after another record", true)
	a.p.End()
	want("after the end, with a record unread", false)
	b.read(t, 64, 1, 2)
	b.none(t, io.EOF)
}
