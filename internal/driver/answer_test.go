package driver

import (
	"slices"
	"sync"
	"testing"

	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// TestAnswerBeforeWhatTheProgramPosts has a program post as soon as a packet
// arrives, while the goroutine that received it has the lock: the
// acknowledgement still leaves before the request, so that a peer that sleeps
// for each of its completions sees the completion of its own request first.
func TestAnswerBeforeWhatTheProgramPosts(t *testing.T) {
	a, b := newSides(t)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	post := func(r *trace.Record) {
		if r.Kind == trace.PacketIn && roce.Opcode(r.Header[0]) == roce.RCRDMAWriteOnly {
			b.post(t, a, 8)
		}
	}
	b.trace.Store(&post)
	var mu sync.Mutex // guards got
	var got []roce.Opcode
	take := func(r *trace.Record) {
		if r.Kind == trace.PacketIn {
			mu.Lock()
			got = append(got, roce.Opcode(r.Header[0]))
			mu.Unlock()
		}
	}
	a.trace.Store(&take)
	for range 20 {
		mu.Lock()
		got = got[:0]
		mu.Unlock()
		a.post(t, b, 8)
		both := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) == 2
		}
		await(t, "an acknowledgement and a request", both)
		mu.Lock()
		if want := []roce.Opcode{roce.RCAcknowledge, roce.RCRDMAWriteOnly}; !slices.Equal(got, want) {
			t.Fatalf("the peer is sent %v, want %v", got, want)
		}
		mu.Unlock()
		a.completion(t)
		b.completion(t)
	}
}

// TestAnswerOfWhoSleepsAtThePort has the program itself take the packet, sleeping
// at the port, and then post, as it does in Sleep: the acknowledgement that its
// thread still owes leaves before the request.
func TestAnswerOfWhoSleepsAtThePort(t *testing.T) {
	n := pipe.NewNetwork(pipe.Options{})
	a, b := newStillSide(t, n, 1), newStillSide(t, n, 2)
	a.connect(t, b, 0, 7)
	b.connect(t, a, 0, 7)
	var got []roce.Opcode
	take := func(r *trace.Record) {
		if r.Kind == trace.PacketIn {
			got = append(got, roce.Opcode(r.Header[0]))
		}
	}
	a.trace.Store(&take)
	a.postSend(t, b, 8)
	b.drv.afterWait(&Sleeper{})
	b.postSend(t, a, 8)
	a.drv.afterWait(&Sleeper{})
	if want := []roce.Opcode{roce.RCAcknowledge, roce.RCRDMAWriteOnly}; !slices.Equal(got, want) {
		t.Errorf("the peer is sent %v, want %v", got, want)
	}
}
