//go:build linux

package ucm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/rdmacm"
)

// shapes has the offsets in each command of the program's answer address, which must
// not be random, and of an ID's number; -1 for none.
var shapes = [...]struct{ response, id int }{
	0: {8, -1}, 1: {0, 8}, 2: {0, 36}, 3: {-1, 56}, 4: {-1, 0}, 5: {0, 8}, 6: {-1, 272}, 7: {-1, 0}, 8: {-1, 280}, 9: {-1, 0}, 10: {-1, 0},
	11: {0, 8}, 12: {0, -1}, 13: {-1, 0}, 14: {-1, 8}, 15: {-1, 0}, 16: {0, 44}, 17: {0, 8}, 18: {0, 8}, 19: {0, 8}, 20: {-1, 0}, 21: {-1, 0}, 22: {0, 16},
}

// The beginning of a step of a random program. The body of the command follows.
const (
	stepCmd    = iota // modulo the commands there are, and a few that there are not
	stepUser          // modulo the files; from reopens on it is closed and opened again
	stepID            // modulo the IDs that are known; from strange on, the body's
	stepRoom          // for the answer, times 4
	stepPlace         // of the answer: nowhere from nowhere on
	stepLen           // of the body, times 4
	stepHeader        // bytes

	reopens, strange, nowhere = 250, 240, 250
)

// steps bounds a program.
const steps = 200

// stranger is a program with a file, which writes whatever is drawn.
type stranger struct {
	*user
	answer []byte
	where  uint64   // that is
	known  []uint32 // IDs and joins, also those that are gone
}

// guard is what the memory behind an answer holds.
const guard = 0xa5

func (h *host) stranger() *stranger {
	b := make([]byte, 1<<11)
	return &stranger{user: h.open(), answer: b, where: h.at(&b[0])}
}

// step does the first step of a program and returns the others.
func (s *stranger) step(p []byte) (rest []byte) {
	h, p := p[:stepHeader], p[stepHeader:]
	n := min(int(h[stepLen])*4, len(p))
	body, rest := bytes.Clone(p[:n]), p[n:]
	if h[stepUser] >= reopens {
		s.close()
		s.user = s.host.open()
		return rest
	}
	cmd, room := uint32(h[stepCmd])%uint32(len(shapes)+2), int(h[stepRoom])*4
	for i := range s.answer {
		s.answer[i] = guard
	}
	if int(cmd) < len(shapes) {
		if at := shapes[cmd].response; at >= 0 && len(body) >= at+8 {
			where := uint64(8) // the first page, which is never mapped
			if h[stepPlace] < nowhere {
				where = s.where
			}
			binary.NativeEndian.PutUint64(body[at:], where)
		}
		if at := shapes[cmd].id; at >= 0 && len(body) >= at+4 && h[stepID] < strange && len(s.known) > 0 {
			binary.NativeEndian.PutUint32(body[at:], s.known[int(h[stepID])%len(s.known)])
		}
	}
	if cmd == 12 && !s.readByte() {
		return rest
	}
	err := s.f.Write(command(cmd, body, room))
	if err != nil && !errors.As(err, new(syscall.Errno)) {
		s.t.Errorf("command %d with %d bytes: error %v without a number", cmd, n, err)
	}
	if behind := s.answer[room:]; bytes.Count(behind, []byte{guard}) != len(behind) {
		s.t.Errorf("command %d wrote behind its room of %d bytes", cmd, room)
	}
	if err == nil && h[stepPlace] < nowhere {
		s.learn(cmd)
	}
	return rest
}

// learn notes the number that an answer has.
func (s *stranger) learn(cmd uint32) {
	switch cmd {
	case 0, 16, 22:
		s.known = append(s.known, binary.NativeEndian.Uint32(s.answer))
	case 12:
		s.known = append(s.known, binary.NativeEndian.Uint32(s.answer[8:]))
	}
}

// readByte takes a byte out of the pipe, if there is one, as a reader of an event must.
func (s *stranger) readByte() bool {
	must.Do(s.t, unix.SetNonblock(s.fd, true))
	n, _ := unix.Read(s.fd, make([]byte, 1))
	return n == 1
}

// strangers returns three programs, two of them of one process.
func strangers(t testing.TB) []*stranger {
	t.Helper()
	a, b := newPair(t)
	return []*stranger{a.stranger(), a.stranger(), b.stranger()}
}

// wantNothingLeft closes the files, after which no object of them may be left.
func wantNothingLeft(t testing.TB, all []*stranger) {
	t.Helper()
	for _, s := range all {
		s.close()
	}
	for _, s := range all {
		s.m.mu.Lock()
		if n := [...]int{len(s.m.ids), len(s.m.of), len(s.m.joins), len(s.m.files)}; n != [4]int{} {
			t.Errorf("%v IDs, their numbers, joins and files are left when all files are closed", n)
		}
		s.m.mu.Unlock()
	}
}

// seed returns a step of a program. c is the body of the command.
func seed(user, cmd, id uint8, c any) []byte {
	body, _ := binary.Append(nil, binary.NativeEndian, c)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	return append([]byte{stepCmd: cmd, stepUser: user, stepID: id, stepRoom: 255, stepPlace: 0, stepLen: uint8(len(body) / 4)}, body...)
}

// seeds are programs that make sense: a connection, one that is refused, datagrams and
// groups, and IDs that move.
func seeds() (all [][]byte) {
	here, size := sockaddr(netip.MustParseAddr("10.0.0.1"), port)
	there, _ := sockaddr(netip.MustParseAddr("10.0.0.2"), port)
	group, _ := sockaddr(netip.MustParseAddr("239.1.2.3"), 0)
	param := connParam{Valid: 1, QPNum: 0x123, RetryCount: 7, PrivateDataLen: 50}
	newID := func(user uint8, ps rdmacm.PortSpace) []byte {
		return seed(user, 0, strange, createID{UID: 7, PS: uint16(ps), QPType: uint8(ib.RC)})
	}
	event := func(user uint8) []byte { return seed(user, 12, strange, getEvent{}) }
	join := func(steps ...[]byte) []byte { return bytes.Join(steps, nil) }
	for _, ps := range []rdmacm.PortSpace{rdmacm.TCP, rdmacm.UDP, rdmacm.IB} {
		listens := join(newID(2, ps), seed(2, 20, 0, bind{AddrSize: size, Addr: there}), seed(2, 7, 0, listen{Backlog: 3}))
		asks := join(newID(0, ps), seed(0, 21, 0, resolveAddr{TimeoutMS: 100, DstSize: size, Dst: there}), event(0),
			seed(0, 4, 0, resolveRoute{TimeoutMS: 100}), event(0), seed(0, 6, 0, connect{Param: param}))
		all = append(all,
			join(listens, asks, event(2), seed(2, 8, 1, accept{UID: 9, Param: param}), event(0), seed(0, 11, 0, initQPAttr{QPState: uint32(ib.RTR)}),
				seed(0, 8, 0, accept{}), event(2), seed(0, 5, 0, query{}), seed(0, 10, 0, disconnect{}), event(2)),
			join(listens, asks, event(2), seed(2, 9, 1, reject{PrivateDataLen: 5}), event(0), seed(2, 1, 0, destroyID{})))
	}
	return append(all,
		join(newID(0, rdmacm.UDP), seed(0, 20, 0, bind{AddrSize: size, Addr: here}), seed(0, 22, 0, joinMcast{UID: 2, AddrSize: size, Addr: group}), event(0),
			seed(0, 19, 0, query{Option: queryGID}), seed(0, 17, 1, destroyID{}), seed(0, 17, 1, destroyID{})),
		join(newID(0, rdmacm.TCP), seed(1, 18, 0, migrateID{}), seed(1, 14, 0, setOption{Optval: 8, Optlen: 1}), seed(1, 15, 0, notify{Event: 1}),
			seed(reopens+0, 0, 0, struct{}{}), seed(1, 1, 0, destroyID{}), []byte{99, 1, 0, 9, 0, 1, 1, 2, 3, 4}))
}

// FuzzCommands has three programs, two of them of one process, write commands in any
// order: each is done or refused with a number, the answer stays in its room, and what was
// made goes with the files.
func FuzzCommands(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		all := strangers(t)
		for n := 0; len(p) >= stepHeader && n < steps; n++ {
			p = all[int(p[stepUser])%len(all)].step(p)
		}
		wantNothingLeft(t, all)
	})
}

// TestCMSeeds checks that the seeds do what they are meant to do. Otherwise the fuzzer would
// begin with errors only.
func TestCMSeeds(t *testing.T) {
	all := strangers(t)
	p := seeds()[0]
	for len(p) >= stepHeader {
		s := all[int(p[stepUser])%len(all)]
		if p[stepCmd] == 12 {
			s.await()
		}
		p = s.step(p)
	}
	if n := len(all[0].known) + len(all[2].known); n < 8 {
		t.Errorf("a connection shows %d numbers in answers, want 8: two IDs and six events", n)
	}
	wantNothingLeft(t, all)
}

// TestCMThreads lets threads that share files write random commands about the same IDs at
// the same time.
func TestCMThreads(t *testing.T) {
	const threads = 4
	n := uint64(1)
	t.Logf("seeds %d to %d", n, n+threads-1)
	ha, hb := newPair(t)
	all := []*stranger{ha.stranger(), hb.stranger()}
	var wg sync.WaitGroup
	for i := range uint64(threads) {
		r := rand.New(rand.NewPCG(n+i, 0))
		b := make([]byte, len(all[0].answer)) // the file is shared, the memory for answers is not
		mine := &stranger{user: all[i%2].user, answer: b, where: ha.at(&b[0])}
		for id := range uint32(32) { // those of all
			mine.known = append(mine.known, id)
		}
		wg.Go(func() {
			for range 300 {
				p := bytes.Clone(seeds()[r.IntN(len(seeds()))])
				for len(p) >= stepHeader {
					p[stepUser] = 0 // no thread closes a file that others write to
					p[stepID] = uint8(r.IntN(256))
					p = mine.step(p)
				}
			}
		})
	}
	wg.Wait()
	wantNothingLeft(t, all)
}

// TestCMManyIDs checks that each of very many IDs exists, and that none is left at the end.
func TestCMManyIDs(t *testing.T) {
	const ids = 10_000
	ha, _ := newPair(t)
	a := ha.stranger()
	for round := range 2 {
		for range ids {
			a.step(seed(0, 0, strange, createID{UID: 7, PS: uint16(rdmacm.UDP)}))
		}
		if n, known := ha.cm.IDs(), len(a.known); n != ids || known != (round+1)*ids {
			t.Fatalf("%d IDs, and %d numbers, want %d", n, known, ids)
		}
		for _, id := range a.known[round*ids:][:ids/2] {
			if n := a.destroy(id); n != 0 {
				t.Fatalf("ID %d had %d events, want none", id, n)
			}
		}
		a.close()
		a.user = ha.open()
	}
	wantNothingLeft(t, []*stranger{a})
}
