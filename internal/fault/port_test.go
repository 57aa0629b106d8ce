package fault

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/clock"
	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/roce"
)

// bench is a port with faults and a plain one on a network in memory, with a
// clock that the test moves.
type bench struct {
	t        testing.TB
	now      clock.Instant
	port     *Port
	far      fabric.Port
	batch    *fabric.Batch
	src, dst netip.Addr
	records  []trace.Record
	next     uint32 // PSN of the next packet
	qpn      ib.QPN // of the packets
}

func newBench(t testing.TB, rules string, v6 bool) *bench {
	t.Helper()
	parsed, err := Parse(rules)
	must.Do(t, err)
	x := &bench{t: t, qpn: 0x11, src: netip.MustParseAddr("10.0.0.1"), dst: netip.MustParseAddr("10.0.0.2")}
	if v6 {
		x.src, x.dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	n := pipe.NewNetwork(pipe.Options{})
	inner, err := n.Port(x.src)
	must.Do(t, err)
	if x.far, err = n.Port(x.dst); err != nil {
		t.Fatal(err)
	}
	var lives []*Live
	for i, r := range parsed {
		lives = append(lives, NewLive(r, 1, i))
	}
	x.port = Wrap(inner, Config{
		Rules: lives, Now: func() clock.Instant { return x.now },
		Trace: func(r *trace.Record) { x.records = append(x.records, *r) },
	})
	x.batch = fabric.NewBatch(1<<17, x.port.Caps())
	return x
}

// fill puts n SENDs of 64 bytes in the batch.
func (x *bench) fill(src, dst netip.Addr, n int) {
	path := fabric.Path{Src: src, Dst: dst, SrcPort: 0xc000, HopLimit: 64}
	for range n {
		p := roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, DestQP: x.qpn, PSN: ib.NewPSN(x.next)}, Payload: bytes.Repeat([]byte{byte(x.next)}, 64)}
		size := roce.Size(p.BTH.Opcode, 64)
		seg, id := x.batch.Append(&path, size)
		if seg == nil {
			x.t.Fatal("the batch is full")
		}
		p.Build(seg)
		roce.Seal(seg, roce.NewPrefix(src, dst, path.SrcPort, fabric.RoCEPort, size).WithID(uint16(id)))
		x.next++
	}
}

// out sends n packets in one run through the faults.
func (x *bench) out(n int) {
	x.t.Helper()
	x.fill(x.src, x.dst, n)
	must.Do(x.t, x.port.Send(x.batch))
}

// in has the plain port send n packets in one run.
func (x *bench) in(n int) {
	x.t.Helper()
	x.fill(x.dst, x.src, n)
	must.Do(x.t, x.far.Send(x.batch))
}

// arrived returns what a port receives, a word for each packet: its PSN, with
// a mark when its ICRC is wrong (!), or its length when it is another.
func (x *bench) arrived(p fabric.Port) string {
	x.t.Helper()
	var words []string
	ds := make([]fabric.Datagram, 4)
	for {
		n, err := p.Receive(ds)
		must.Do(x.t, err)
		if n == 0 {
			return strings.Join(words, " ")
		}
		for i := range ds[:n] {
			words = append(words, x.words(&ds[i])...)
		}
	}
}

func (x *bench) words(d *fabric.Datagram) (words []string) {
	for off, k := 0, 0; off < len(d.Bytes); k++ {
		var seg []byte
		seg, off = d.Segment(off)
		var p roce.Packet
		word := "?"
		if p.Parse(seg) == roce.FaultNone {
			word = fmt.Sprint(p.BTH.PSN.Value())
		}
		if len(seg) != roce.Size(roce.RCSendOnly, 64) {
			word += fmt.Sprintf("(%d)", len(seg))
		}
		pre := roce.NewPrefix(d.Src, d.Dst, d.SrcPort, d.DstPort, len(seg))
		if !roce.Check(seg, pre.WithID(d.ID+uint16(k))) {
			word += "!"
			if _, ok := roce.DeriveID(seg, pre, 0); ok {
				word += "(derivable)"
			}
		}
		words = append(words, word)
	}
	return words
}

// TestPackets is each fault on packets, on the way out and on the way in: of
// what is left of a run every ICRC is right.
func TestPackets(t *testing.T) {
	for _, c := range []struct{ rules, want string }{
		{"drop nth=3", "0 1 3 4 5"},
		{"drop every=2", "0 2 4"},
		{"drop nth=1; drop nth=1", "2 3 4 5"},
		{"drop p=1", ""},
		{"dup nth=2", "0 1 1 2 3 4 5"},
		{"dup; drop nth=3", "0 0 1 1 3 3 4 4 5 5"},
		{"dup nth=2; dup nth=2", "0 1 1 1 2 3 4 5"},
		{"corrupt byte=20 nth=2", "0 1! 2 3 4 5"},
		{"corrupt nth=6", "0 1 2 3 4 5!"},
		{"corrupt byte=-1 xor=1 nth=1", "0! 1 2 3 4 5"},
		{"corrupt bit=160 nth=4", "0 1 2 3! 4 5"},
		{"corrupt byte=4 nth=1", "0 1 2 3 4 5"}, // congestion bits are not covered
		{"corrupt byte=0 xor=31 nth=1", "?! 1 2 3 4 5"},
		{"corrupt byte=20 nth=2 reseal", "0 1 2 3 4 5"},
		{"corrupt byte=11 xor=128 reseal nth=2", "0 129 2 3 4 5"},
		{"corrupt byte=80", "0 1 2 3 4 5"}, // no packet has that byte
		{"truncate 40 nth=2", "0 1(40)! 2 3 4 5"},
		{"truncate 41 nth=2", "0 ?(41)! 2 3 4 5"},
		{"truncate 43 nth=2 reseal", "0 1(40) 2 3 4 5"},
		{"truncate 0 nth=2", "0 2 3 4 5"},
		{"truncate 80", "0 1 2 3 4 5"},
		{"truncate 40 nth=2; corrupt byte=50 nth=2", "0 1(40)! 2 3 4 5"},
		{"truncate 0 nth=2; corrupt nth=2; truncate 40 reseal nth=2", "0 2 3 4 5"},
		{"reorder nth=2", "0 2 1 3 4 5"},
		{"reorder", "1 0 3 2 5 4"},
		{"reorder nth=1 by=3", "1 2 3 0 4 5"},
		{"dup nth=1; reorder nth=1", "0 0 1 2 3 4 5"}, // the copy overtakes
		{"partition", ""},
		{"drop qpn=0x11 psn=4", "0 1 2 3 5"},
		{"drop qpn=0x12", "0 1 2 3 4 5"},
		{"drop op=SEND_ONLY nth=6", "0 1 2 3 4"},
		{"drop op=RDMA_WRITE; dup op=ACK", "0 1 2 3 4 5"},
	} {
		for _, dir := range []string{"out", "in"} {
			for _, v6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/v6=%t", c.rules, dir, v6), func(t *testing.T) {
					rules := strings.ReplaceAll(c.rules+" ", ";", " dir="+dir+";") + "dir=" + dir
					x := newBench(t, rules, v6)
					got := ""
					if dir == "out" {
						x.out(6)
						got = x.arrived(x.far)
					} else {
						x.in(6)
						got = x.arrived(x.port)
					}
					if got != c.want {
						t.Errorf("arrived is %q, want %q", got, c.want)
					}
				})
			}
		}
	}
}

// TestAddresses chooses by where packets come from and go to.
func TestAddresses(t *testing.T) {
	for rule, want := range map[string]string{
		"drop src=10.0.0.1": "", "drop src=10.0.0.2": "0 1", "drop dst=10.0.0.2": "", "drop dst=10.0.0.1": "0 1",
	} {
		x := newBench(t, rule, false)
		x.out(2)
		if got := x.arrived(x.far); got != want {
			t.Errorf("%s: %q arrives, want %q", rule, got, want)
		}
	}
}

// TestWindow opens and closes a partition.
func TestWindow(t *testing.T) {
	x := newBench(t, "partition after=2s for=1s", false)
	var got []string
	for range 8 {
		x.out(1)
		x.in(1)
		got = append(got, x.arrived(x.far)+"/"+x.arrived(x.port))
		x.now += clock.Instant(500 * time.Millisecond)
	}
	if want := []string{"0/1", "2/3", "4/5", "6/7", "/", "/", "12/13", "14/15"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDelay holds packets back for as long as the rule says, each way.
func TestDelay(t *testing.T) {
	for _, dir := range []string{"out", "in"} {
		x := newBench(t, "delay 5ms every=2 dir="+dir, false)
		send, far := x.out, x.far
		if dir == "in" {
			send, far = x.in, fabric.Port(x.port)
		}
		look := func() string {
			if _, err := x.port.Receive(nil); err != nil { // what is due leaves
				t.Fatal(err)
			}
			return x.arrived(far)
		}
		send(3)
		if got := look(); got != "0 2" {
			t.Errorf("%s: at once %q arrives", dir, got)
		}
		x.now += clock.Instant(4 * time.Millisecond)
		send(2)
		if got := look(); got != "4" {
			t.Errorf("%s: after 4ms %q arrives", dir, got)
		}
		x.now += clock.Instant(time.Millisecond)
		if got := look(); got != "1" {
			t.Errorf("%s: after 5ms %q arrives", dir, got)
		}
		x.now += clock.Instant(time.Hour)
		if got := look(); got != "3" {
			t.Errorf("%s: in the end %q arrives", dir, got)
		}
	}
}

// TestReorderEnds lets a packet go that nothing overtakes.
func TestReorderEnds(t *testing.T) {
	x := newBench(t, "reorder nth=1", false)
	x.out(1)
	if got := x.arrived(x.far); got != "" {
		t.Fatalf("%q arrives at once", got)
	}
	x.now += clock.Instant(maxLate)
	if _, err := x.port.Receive(nil); err != nil {
		t.Fatal(err)
	}
	if got := x.arrived(x.far); got != "0" {
		t.Errorf("%q arrives after %v", got, maxLate)
	}
}

// TestReorderOneFlow lets only packets to the same queue pair overtake.
func TestReorderOneFlow(t *testing.T) {
	x := newBench(t, "reorder nth=1", false)
	var got []string
	for _, qpn := range []ib.QPN{0x11, 0x12, 0x12, 0x11} {
		x.qpn = qpn
		x.out(1)
		got = append(got, x.arrived(x.far))
	}
	if want := []string{"", "1", "2", "3 0"}; !slices.Equal(got, want) {
		t.Errorf("%q arrives, want %q", got, want)
	}
}

// TestRate lets through as much as the rule says, in order, and bounds what
// waits.
func TestRate(t *testing.T) {
	for rule, gap := range map[string]time.Duration{
		"rate 1000packets/s queue=5": time.Millisecond,
		"rate 640kbit/s queue=5":     time.Millisecond, // 80 bytes
	} {
		x := newBench(t, rule, false)
		x.out(10)
		var got []string
		for range 8 {
			got = append(got, x.arrived(x.far))
			x.now += clock.Instant(gap)
			if _, err := x.port.Receive(nil); err != nil {
				t.Fatal(err)
			}
		}
		if want := []string{"0", "1", "2", "3", "4", "5", "", ""}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
		if s := x.port.rules[0].Stat(); s.Overflow != 4 || s.Applied != 9 {
			t.Errorf("%s: %+v, want 4 lost for want of room", rule, s)
		}
	}
}

// TestHeldBound fills what may be held back, each way: one more is lost, and
// counted.
func TestHeldBound(t *testing.T) {
	for _, dir := range []string{"out", "in"} {
		x := newBench(t, "delay 1s dir="+dir, false)
		for range maxQueue/64 + 1 {
			if dir == "out" {
				x.out(64)
			} else {
				x.in(64)
				x.arrived(x.port)
			}
		}
		held := x.port.leave.heap.Len() + x.port.arrive.heap.Len()
		if s := x.port.rules[0].Stat(); held != maxQueue || s.Overflow != 64 {
			t.Errorf("%s: %d packets are held, %d lost", dir, held, s.Overflow)
		}
		// They go on when they are due, no later, and leave room.
		x.now += clock.Instant(time.Second) - 1
		if x.arrived(x.port); x.port.leave.heap.Len()+x.port.arrive.heap.Len() != maxQueue {
			t.Errorf("%s: packets go on before they are due", dir)
		}
		x.now++
		if x.arrived(x.port); x.port.leave.heap.Len()+x.port.arrive.heap.Len() != 0 {
			t.Errorf("%s: packets are held after they were due", dir)
		}
		if dir == "out" {
			x.out(64)
		} else {
			x.in(64)
			x.arrived(x.port)
		}
		if s := x.port.rules[0].Stat(); x.port.leave.heap.Len()+x.port.arrive.heap.Len() != 64 || s.Overflow != 64 {
			t.Errorf("%s: after room was made, of 64 packets %d are held; %d were lost in all, want 64", dir, x.port.leave.heap.Len()+x.port.arrive.heap.Len(), s.Overflow)
		}
	}
}

// TestTrace checks that each action of a rule has a record.
func TestTrace(t *testing.T) {
	x := newBench(t, "drop every=2", false)
	x.out(4)
	if len(x.records) != 2 {
		t.Fatalf("%d records of two lost packets", len(x.records))
	}
	r := &x.records[1]
	if r.Kind != trace.Fault || r.QPN != 0x11 || r.PSN != ib.NewPSN(3) || r.Len != 80 || r.Header[0] != byte(roce.RCSendOnly) ||
		r.String() != "to qp 0x000011 fault: drop every=2: RC_SEND_ONLY psn 0x000003 len 80" {
		t.Errorf("the record is %v", r)
	}
	if s := x.port.rules[0].Stat(); s.Matched != 4 || s.Applied != 2 || s.Rule != "drop every=2" {
		t.Errorf("the statistics are %+v", s)
	}
}

// TestWaitEndsWhenDue has a Wait end for a packet that is held back, also one
// that came to be held while it slept.
func TestWaitEndsWhenDue(t *testing.T) {
	begin := time.Now()
	x := newBench(t, "delay 20ms dir=out", false)
	x.port.cfg.Now = func() clock.Instant { return clock.Instant(time.Since(begin)) }
	done := make(chan error)
	go func() {
		for { // a wake may come early
			err := x.port.Wait(10*time.Second, true, false)
			if err != nil || clock.Instant(x.port.due.Load()) <= x.port.cfg.Now() {
				done <- err
				return
			}
		}
	}()
	for !x.port.asleep.Load() {
		runtime.Gosched()
	}
	x.out(1)
	must.Do(t, <-done)
	if d := time.Since(begin); d < 20*time.Millisecond || d > 5*time.Second {
		t.Errorf("the wait took %v", d)
	}
	if got := x.arrived(x.far); got != "" {
		t.Errorf("%q left without the shard", got)
	}
	if _, err := x.port.Receive(make([]fabric.Datagram, 1)); err != nil {
		t.Fatal(err)
	}
	if got := x.arrived(x.far); got != "0" {
		t.Errorf("%q left when it was due", got)
	}
}

// TestUntouchedRunsPassWhole checks that runs on which no rule acts have no
// cost: they arrive as one datagram, without allocation.
func TestUntouchedRunsPassWhole(t *testing.T) {
	for _, rules := range []string{
		"drop op=COMPARE_SWAP dir=both", "drop nth=1; dup nth=1; reorder nth=1 dir=in", "corrupt after=1h dir=both", "rnr; fail op=RegMR",
	} {
		x := newBench(t, rules, false)
		x.port.cfg.Trace = nil
		ds := make([]fabric.Datagram, 4)
		round := func() {
			x.next = 0
			x.out(8)
			x.in(8)
			for _, p := range []fabric.Port{x.far, x.port} {
				n, err := p.Receive(ds)
				if err != nil || n != 1 || len(ds[0].Bytes) != 8*80 {
					t.Fatalf("%s: %d datagrams, %v", rules, n, err)
				}
			}
		}
		for range 2 { // rules that act once have acted then
			x.out(8)
			x.in(8)
			x.arrived(x.port)
			x.arrived(x.far)
		}
		round()
		allocs := testing.AllocsPerRun(100, round)
		plain := newBench(t, "rnr", false)
		base := testing.AllocsPerRun(100, func() { plain.next = 0; plain.fill(plain.src, plain.dst, 16); plain.batch.Reset() })
		if allocs > base {
			t.Errorf("%s: %v allocations a round, making the packets costs %v", rules, allocs, base)
		}
	}
}
