package verbs

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

var (
	transferBytes = flag.Uint64("transfer-bytes", 8<<20, "bytes that each operation moves between two processes")
	lossyBytes    = flag.Uint64("transfer-lossy-bytes", 1<<20, "bytes that each operation moves with loss and reordering")
	channelBytes  = flag.Uint64("transfer-rd-bytes", 16<<20, "bytes that each operation moves over a channel of reliable datagrams")
	transferSeed  = flag.Uint64("transfer-seed", 0, "seed of loss and reordering; 0 draws one")
)

// peer is the other process.
type peer struct {
	t   *testing.T
	cmd *exec.Cmd
	enc *json.Encoder
	dec *json.Decoder
}

// startPeer runs this test binary as the other process.
func startPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), peerEnv+"=1")
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	must.Do(t, err)
	out, err := p.cmd.StdoutPipe()
	must.Do(t, err)
	must.Do(t, p.cmd.Start())
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), p.cmd.Wait()); err != nil {
			t.Errorf("the peer process: %v", err)
		}
	})
	p.enc, p.dec = json.NewEncoder(in), json.NewDecoder(out)
	return p
}

// tell sends an order and waits until it is carried out.
func (p *peer) tell(o order) answer {
	p.t.Helper()
	var a answer
	must.Do(p.t, p.enc.Encode(&o))
	must.Do(p.t, p.dec.Decode(&a))
	if a.Error != "" {
		p.t.Fatalf("the peer process, told to %s: %s", o.Do, a.Error)
	}
	return a
}

// way describes a transfer.
type way struct {
	mtu     ib.MTU
	timeout uint8
	size    uint64    // bytes that each operation moves
	faults  [2]Faults // of this process and of the peer
	rd      bool      // over a reliable datagram channel
}

// transfer is one connection between the two processes.
type transfer struct {
	t    *testing.T
	peer *peer
	own  *mover
	to   remote

	moving time.Duration // of the operation, without generating and hashing the bytes
}

// TestTransfer moves bytes between two processes over UDP, by WRITE, READ and
// SEND at each path MTU, and compares the SHA-256 of both ends.
func TestTransfer(t *testing.T) {
	p := startPeer(t)
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		t.Run(fmt.Sprint(mtu.Bytes()), func(t *testing.T) {
			p.t = t
			testTransfer(t, p, way{mtu: mtu, timeout: 16, size: *transferBytes})
		})
	}
	p.t = t
}

// lossy are rules that drop and reorder arriving packets.
const lossy = "drop p=0.01 dir=in; reorder p=0.01 dir=in"

// TestTransferLossy is TestTransfer with packets dropped and reordered at both ends.
func TestTransferLossy(t *testing.T) {
	seed := transferSeedOf(t)
	p := startPeer(t)
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		t.Run(fmt.Sprint(mtu.Bytes()), func(t *testing.T) {
			p.t = t
			testTransfer(t, p, way{mtu: mtu, timeout: 12, size: *lossyBytes, faults: bothWays(lossy, seed)})
		})
	}
	p.t = t
}

// transferSeedOf returns the seed of a test's faults, which it prints.
func transferSeedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *transferSeed
	if seed == 0 {
		seed = rand.Uint64()>>1 + 1
	}
	t.Logf("-transfer-seed %d", seed)
	return seed
}

// bothWays returns faults at both ends.
func bothWays(rules string, seed uint64) [2]Faults {
	return [2]Faults{{Rules: rules, Seed: seed}, {Rules: rules, Seed: seed + 1}}
}

// TestV18_Transfer moves bytes between two processes over UDP as TestTransfer does,
// but over a channel of reliable datagrams that several queue pairs share, also with
// one packet of a hundred lost each way.
func TestV18_Transfer(t *testing.T) {
	seed := transferSeedOf(t)
	p := startPeer(t)
	for _, c := range []struct {
		name string
		way  way
	}{
		{"lossless", way{timeout: 16}},
		{"lossy", way{timeout: 12, faults: bothWays("drop p=0.01 dir=in", seed)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t = t
			c.way.mtu, c.way.size, c.way.rd = ib.MTU4096, *channelBytes, true
			testTransfer(t, p, c.way)
		})
	}
	p.t = t
}

func testTransfer(t *testing.T, p *peer, w way) {
	t.Helper()
	x := &transfer{t: t, peer: p}
	region := min(w.size, transferRegion)
	var err error
	x.own, err = openMover(&order{Addr: loopback(), Faults: w.faults[0], Bytes: region, RD: w.rd})
	must.Do(t, err)
	defer func() { must.Do(t, x.own.ctx.Close()) }()
	own := x.own.local()
	own.PathMTU, own.Timeout = w.mtu, w.timeout
	x.to = p.tell(order{Do: "open", Addr: loopback(), Faults: w.faults[1], Bytes: region, RD: w.rd, Remote: own}).Remote
	defer p.tell(order{Do: "close"})
	x.to.PathMTU, x.to.Timeout = w.mtu, w.timeout
	must.Do(t, x.own.connect(&x.to))
	before := [2]map[string]uint64{}
	for _, op := range []struct {
		name string
		move func(x *transfer, n, seed uint64)
	}{{"WRITE", (*transfer).write}, {"READ", (*transfer).read}, {"SEND", (*transfer).send}} {
		start := time.Now()
		for done := uint64(0); done < w.size; done += region {
			op.move(x, min(w.size-done, region), done+uint64(len(op.name)))
		}
		took := time.Since(start)
		a := p.tell(order{Do: "sum"})
		if sum := x.own.total(); sum != a.Sum {
			t.Errorf("%s: SHA-256 %s here, %s there", op.name, sum, a.Sum)
		}
		own, err := x.own.counters()
		must.Do(t, err)
		t.Logf("%-5s %d MiB in %v, moving %v: %.2f Gb/s; here %s; there %s", op.name, w.size>>20, took.Round(time.Millisecond),
			x.moving.Round(time.Millisecond), float64(w.size)*8/x.moving.Seconds()/1e9, trouble(own, before[0]), trouble(a.Counters, before[1]))
		x.moving = 0
		before = [2]map[string]uint64{own, a.Counters}
	}
}

// trouble names the counters of lost and retransmitted packets that have grown.
func trouble(now, before map[string]uint64) string {
	s := ""
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if n := now[name] - before[name]; n != 0 && !strings.HasPrefix(name, "rdma_") && !strings.HasPrefix(name, "rx_") && name != "state_changes" {
			s += fmt.Sprintf(" %s=%d", name, n)
		}
	}
	return "{" + strings.TrimSpace(s) + "}"
}

// post posts one request for each message of n bytes and waits for all.
func (x *transfer) post(n uint64, op ib.WROpcode) {
	x.t.Helper()
	start := time.Now()
	for off := uint64(0); off < n; off += transferMessage {
		must.Do(x.t, x.own.send(&x.to, off, SendWR{
			WRID: off, Opcode: op, SGList: []SGE{x.own.mr.SGE(off, uint32(min(n-off, transferMessage)))},
			RemoteAddr: x.to.Addr + off, RKey: x.to.RKey,
		}))
	}
	must.Do(x.t, x.own.take(int(messages(n))))
	x.moving += time.Since(start)
}

func (x *transfer) write(n, seed uint64) {
	x.own.make(n, seed)
	x.post(n, ib.WRRDMAWrite)
	x.peer.tell(order{Do: "hash", Bytes: n})
}

func (x *transfer) read(n, seed uint64) {
	x.peer.tell(order{Do: "fill", Bytes: n, Seed: seed})
	x.post(n, ib.WRRDMARead)
	x.own.add(n)
}

func (x *transfer) send(n, seed uint64) {
	x.own.make(n, seed)
	x.peer.tell(order{Do: "recv", Bytes: n})
	x.post(n, ib.WRSend)
	x.peer.tell(order{Do: "take", Bytes: n})
}
