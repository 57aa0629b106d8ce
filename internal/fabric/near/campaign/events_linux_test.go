//go:build !portable

package campaign

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/internal/must"
)

// giveUpLimit is the time within which a side with the timers impatient gives a silent peer up: about
// a second, and more on a busy machine.
const giveUpLimit = 30 * time.Second

// stage is what a test of an event needs.
type stage struct {
	*pair
	random *rand.Rand
	round  int
	addr   string // of the other process
}

// play runs rounds of a test: between two addresses, and between two processes on one address. Each
// round begins with two processes that have met, and must leave nothing in this one.
func play(t *testing.T, round func(*stage)) {
	for _, shared := range []bool{false, true} {
		name := "two addresses"
		if shared {
			name = "one address"
		}
		t.Run(name, func(t *testing.T) {
			random := draw(t)
			must.Do(t, warm(loopback()))
			before := look(os.Getpid())
			own, err := openSide(loopback())
			must.Do(t, err)
			t.Cleanup(func() { _ = own.ctx.Close() }) // in a test that fails it is open
			addr := loopback()
			if shared {
				addr = own.ctx.QueryGID(0).Addr().String()
			}
			var opened traces // after the first round, in which an adapter on a shared address becomes the broker
			for i := range 1 + *rounds {
				other := start(t, addr)
				s := &stage{&pair{t: t, own: own, other: other}, random, i, addr}
				s.meet()
				round(s)
				if t.Failed() {
					t.Fatalf("in round %d", i)
				}
				must.Do(t, own.drop())
				_ = s.other.kill() // the round may have
				eventually(t, "the memory of the other process is given back", func() bool { return peersOf(os.Getpid()) == 0 })
				if i == 0 {
					opened = look(os.Getpid())
				}
				leavesNothing(t, opened)
			}
			must.Do(t, own.ctx.Close())
			leavesNothing(t, before)
		})
	}
}

// job returns a job of n messages in each direction.
func (s *stage) job(n uint64) job {
	return job{Seeds: [2]uint64{s.random.Uint64(), s.random.Uint64()}, Messages: n, Wait: [2]int{s.random.IntN(waitKinds), s.random.IntN(waitKinds)}}
}

// endless is a number of messages that no test sends.
const endless = 1 << 40

// meet sends messages until both processes use shared memory.
func (s *stage) meet() {
	s.t.Helper()
	eventually(s.t, "the processes meet", func() bool {
		s.begin(patient, s.job(20))
		s.finish()
		return peersOf(os.Getpid()) == 1 && peersOf(s.other.cmd.Process.Pid) == 1 && carried(os.Getpid()) > 0 && carried(s.other.cmd.Process.Pid) > 0
	})
	s.byMemory()
}

// byMemory checks that all messages take shared memory.
func (s *stage) byMemory() {
	s.t.Helper()
	own, other := carried(os.Getpid()), carried(s.other.cmd.Process.Pid)
	s.begin(patient, s.job(100))
	s.finish()
	// About a quarter of the messages have 64 KiB on average.
	const least = 100 * (maxMessage / 2) / 8
	if own, other = carried(os.Getpid())-own, carried(s.other.cmd.Process.Pid)-other; own < least || other < least {
		s.t.Errorf("100 messages in each direction: %d and %d bytes through shared memory, want at least %d", own, other, least)
	}
}

// again starts the next process at the address, and meets it.
func (s *stage) again() {
	s.t.Helper()
	s.other = start(s.t, s.addr)
	s.meet()
}

// mid begins a stream and waits until it is in its midst.
func (s *stage) mid(w timers, messages uint64) {
	s.t.Helper()
	s.begin(w, s.job(messages))
	s.until(1 + s.random.Uint64N(400))
}

// TestKilled kills the other process in mid-transfer. This side gives it up by its own timers, and
// meets the next process at the address.
func TestKilled(t *testing.T) {
	play(t, func(s *stage) {
		s.mid(impatient, endless)
		must.Do(s.t, s.other.kill())
		s.fails(giveUpLimit)
		s.again()
	})
}

// TestStopped stops the other process for up to half a second in mid-transfer, and continues it. No byte is
// wrong, and both still use shared memory.
func TestStopped(t *testing.T) {
	play(t, func(s *stage) {
		s.mid(patient, 1500)
		s.other.signal(s.t, unix.SIGSTOP)
		<-time.After(time.Duration(s.random.Int64N(int64(500 * time.Millisecond))))
		s.other.signal(s.t, unix.SIGCONT)
		s.finish()
		s.byMemory()
		s.other.close(s.t)
	})
}

// TestStoppedForLong stops the other process for longer than the retries of this side last. Then each
// gives the other up, and they use shared memory again when they are connected again.
func TestStoppedForLong(t *testing.T) {
	play(t, func(s *stage) {
		s.mid(impatient, endless)
		s.other.signal(s.t, unix.SIGSTOP)
		s.fails(giveUpLimit)
		s.other.signal(s.t, unix.SIGCONT)
		if a := s.other.ask(s.t, order{Do: "wait"}); a.Error == "" {
			s.t.Error("the stopped process does not notice that it was given up")
		}
		s.byMemory()
		s.other.close(s.t)
	})
}

// TestReplaced replaces the program of the other process (exec) in mid-transfer. This side gives it up, and
// meets the next program.
func TestReplaced(t *testing.T) {
	play(t, func(s *stage) {
		s.mid(impatient, endless)
		must.Do(s.t, s.other.enc.Encode(&order{Do: "exec"}))
		s.fails(giveUpLimit)
		s.other.tell(s.t, order{Do: "open", Addr: s.addr})
		s.meet()
		s.other.close(s.t)
	})
}

// TestForked forks the other process in mid-transfer. The child has copies of its descriptors, but no
// ring: the transfer goes on, and when the parent is killed, this process notices, although the
// child lives.
func TestForked(t *testing.T) {
	play(t, func(s *stage) {
		s.mid(patient, 1500)
		child := s.other.tell(s.t, order{Do: "fork"}).Child
		if r := look(child); r.Memory+r.Mappings > 0 {
			s.t.Errorf("the child of a fork has %+v", r)
		}
		s.finish()
		s.byMemory()
		s.begin(impatient, s.job(endless))
		s.until(100)
		s.other.signal(s.t, unix.SIGKILL) // kill would end the leash of the child, too
		s.fails(giveUpLimit)
		eventually(s.t, "this process notices the end of the parent", func() bool { return peersOf(os.Getpid()) == 0 })
		must.Do(s.t, unix.Kill(child, 0)) // it lives
	})
}
