//go:build !portable

package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/fabric/near/meeting"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/verbs"
)

// What a member of a crowd sends to each other member in a round.
const (
	burst     = 4
	burstSize = 8 << 10
)

// member is an adapter with a queue pair to each of its crowd, itself included, which it does not use.
type member struct {
	ctx  *verbs.Context
	ch   *verbs.CompChannel
	cq   *verbs.CQ
	mr   *verbs.MR
	qps  []*verbs.QP
	self int
	text []byte
}

// enter opens the adapter of a member.
func enter(addr string, self, members int) (m *member, err error) {
	m = &member{ch: verbs.NewCompChannel(1), self: self, text: text()}
	if m.ctx, err = verbs.Open(verbs.Config{Addr: addr, Wire: verbs.WireAuto}); err != nil {
		return nil, err
	}
	if err := m.fill(members); err != nil {
		return nil, errors.Join(err, m.ctx.Close())
	}
	return m, nil
}

func (m *member) fill(members int) error {
	pd, err := m.ctx.AllocPD()
	if err != nil {
		return err
	}
	if m.cq, err = m.ctx.CreateCQ(2*burst*members, m.ch); err != nil {
		return err
	}
	if m.mr, err = pd.RegMR(make([]byte, 2*burst*burstSize*members), ib.AccessLocalWrite); err != nil {
		return err
	}
	for range members {
		q, err := pd.CreateQP(&verbs.QPInitAttr{
			Type: ib.RC, SendCQ: m.cq, RecvCQ: m.cq, SQSig: ib.SigAll,
			Cap: verbs.QPCap{MaxSendWR: burst, MaxRecvWR: burst, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		if err != nil {
			return err
		}
		m.qps = append(m.qps, q)
	}
	return nil
}

// addresses returns the address of the queue pair to each member.
func (m *member) addresses() (all []address) {
	for _, q := range m.qps {
		all = append(all, address{GID: m.ctx.QueryGID(0), QPN: q.QPN()})
	}
	return all
}

// introduce connects the queue pair to each member.
func (m *member) introduce(to []address) error {
	for _, i := range m.others() {
		if err := m.introduceOne(i, to[i]); err != nil {
			return err
		}
	}
	return nil
}

// introduceOne connects the queue pair to a member, and posts its receives.
func (m *member) introduceOne(i int, to address) error {
	err := m.qps[i].ModifyToRTS(verbs.QPAttr{
		Port: 1, PathMTU: ib.MTU4096, DestQPN: to.QPN, MinRNRTimer: 1, Timeout: patient.Timeout, RetryCnt: patient.Retries, RNRRetry: 7,
		AV: verbs.AHAttr{DGID: to.GID, HopLimit: 64, Port: 1},
	})
	for k := 0; k < burst && err == nil; k++ {
		err = m.postRecv(i, k)
	}
	return err
}

// at returns the offset of message k from member i, or of that to it.
func at(i, k int, out bool) uint64 {
	n := (2*i*burst + k) * burstSize
	if out {
		n += burst * burstSize
	}
	return uint64(n)
}

func (m *member) postRecv(i, k int) error {
	return m.qps[i].PostRecv(verbs.RecvWR{WRID: uint64(i*burst + k), SGList: []verbs.SGE{m.mr.SGE(at(i, k, false), burstSize)}})
}

// part returns message k of a round from one member to another.
func (m *member) part(round uint64, from, to, k int) []byte {
	r := rand.New(rand.NewPCG(round, uint64(from)<<32|uint64(to)<<8|uint64(k)))
	n := 1 + r.IntN(burstSize)
	return m.text[r.IntN(textSize-n):][:n]
}

// talk sends a burst to each of some members, and expects one from each of them.
func (m *member) talk(round uint64, with []int) error {
	for _, i := range with {
		for k := range burst {
			b := m.part(round, m.self, i, k)
			copy(m.mr.Bytes()[at(i, k, true):], b)
			if err := m.qps[i].PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{m.mr.SGE(at(i, k, true), uint32(len(b)))}}); err != nil {
				return err
			}
		}
	}
	late, end := context.WithTimeoutCause(context.Background(), 4*hangTime, errHangs)
	defer end()
	next := make([]int, len(m.qps))
	wcs := make([]verbs.WC, 64)
	for left := 2 * burst * len(with); left > 0; {
		if err := m.cq.ReqNotify(false); err != nil {
			return err
		}
		n, err := m.cq.Poll(wcs)
		if err == nil && n == 0 {
			_, err = m.ch.Get(late)
		}
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := m.took(&wcs[i], round, next); err != nil {
				return err
			}
		}
		left -= n
	}
	return nil
}

// took takes a completion. The messages of each member arrive in order.
func (m *member) took(wc *verbs.WC, round uint64, next []int) error {
	if wc.Status != ib.WCSuccess {
		return wc.Err()
	}
	if wc.Opcode != ib.WCRecv {
		return nil
	}
	i, k := int(wc.WRID/burst), int(wc.WRID%burst)
	want := m.part(round, i, m.self, k)
	if k != next[i] || !bytes.Equal(m.mr.Bytes()[at(i, k, false):][:wc.ByteLen], want) {
		return fmt.Errorf("%w: message %d of member %d in round %#x, want message %d", errWrong, k, i, round, next[i])
	}
	next[i]++
	return m.postRecv(i, k)
}

// others returns the numbers of all other members.
func (m *member) others() (all []int) {
	for i := range m.qps {
		if i != m.self {
			all = append(all, i)
		}
	}
	return all
}

// ringMemory is the size of the memory that a process allocates for each peer, without the page
// of its words.
const ringMemory = 1 << 20

// crowdLimit is how long a crowd may need until all have met. An invitation that a busy process refuses is
// repeated after a pause, and not before 256 runs were sent to it.
const crowdLimit = 10 * time.Minute

// settleLimit is how long a crowd in which all have met may need to undo the meetings that are too many.
const settleLimit = 20 * time.Second

// meetingsOf returns how many peers processes have, in all.
func meetingsOf(all []*process) (n int) {
	for _, p := range all {
		n += peersOf(p.cmd.Process.Pid)
	}
	return n
}

// TestCrowd has processes on one address send to each other, all to all. Each meets all others, and every
// byte is right. Their memory is what the number of peers says.
func TestCrowd(t *testing.T) {
	addr, all := loopback(), make([]*process, *crowd)
	round := draw(t).Uint64()
	qps := make([][]address, *crowd)
	for i := range all {
		all[i] = launch(t, here)
		qps[i] = all[i].tell(t, order{Do: "enter", Addr: addr, Self: i, Members: *crowd}).Addresses
	}
	for i, p := range all {
		to := make([]address, *crowd)
		for j := range qps {
			to[j] = qps[j][i]
		}
		p.tell(t, order{Do: "introduce", All: to})
	}
	meetings, late := 0, time.Now().Add(crowdLimit)
	for first := round; meetings < *crowd*(*crowd-1); meetings = meetingsOf(all) {
		if time.Now().After(late) {
			t.Fatalf("%d processes have met %d times after %d rounds", *crowd, meetings, round-first)
		}
		round++
		tellAll(t, all, order{Do: "talk", Round: round})
	}
	before := make([]uint64, len(all))
	late = time.Now().Add(settleLimit)
	for i, p := range all {
		before[i] = carried(p.cmd.Process.Pid)
		n, want := look(p.cmd.Process.Pid), mappingsOfPeer*(*crowd-1)
		for ; (n.Mappings != want || n.Memory != 0) && time.Now().Before(late); n = look(p.cmd.Process.Pid) {
			runtime.Gosched() // two processes that met each other twice at a time undo one of the meetings
		}
		if n.Mappings != want || n.Memory != 0 {
			t.Errorf("process %d has %d mappings of rings and %d descriptors of their memory, want %d and none", i, n.Mappings, n.Memory, want)
		}
		if n := ownMemory(p.cmd.Process.Pid) / (*crowd - 1); n < ringMemory || n > ringMemory+ringMemory/8 {
			t.Errorf("process %d allocates %d bytes for each peer", i, n)
		}
	}
	round++
	tellAll(t, all, order{Do: "talk", Round: round})
	for i, p := range all {
		if n := carried(p.cmd.Process.Pid) - before[i]; n < uint64(*crowd-1)*burst*burstSize/8 {
			t.Errorf("process %d sends %d bytes in a round through shared memory", i, n)
		}
	}
	for _, p := range all {
		must.Do(t, p.kill())
	}
}

// tellAll gives an order to all processes at once.
func tellAll(t *testing.T, all []*process, o order) {
	t.Helper()
	for _, p := range all {
		must.Do(t, p.enc.Encode(&o))
	}
	for i, p := range all {
		var a answer
		must.Do(t, p.dec.Decode(&a))
		if a.Error != "" {
			t.Fatalf("process %d, told to %s: %s", i, o.Do, a.Error)
		}
	}
}

// TestMoreThanTheBound connects an adapter to more processes than it may meet, and sends to them in
// random order, again and again. It never has the memory of many more peers than the bound, and no
// byte is lost or wrong, whichever way it takes.
func TestMoreThanTheBound(t *testing.T) {
	const spokes, most = meeting.MaxPeers + 6, 2 * meeting.MaxPeers
	random := draw(t)
	hub := launch(t, here)
	own := hub.tell(t, order{Do: "enter", Addr: loopback(), Self: spokes, Members: spokes + 1}).Addresses
	addrs := []string{loopback(), loopback()} // one has too few slots
	var rim []*member
	t.Cleanup(func() {
		for _, m := range rim {
			_ = m.ctx.Close()
		}
	})
	to := make([]address, spokes+1)
	for i := range spokes {
		m, err := enter(addrs[i%2], i, spokes+1)
		must.Do(t, err)
		rim = append(rim, m)
		to[i] = m.addresses()[spokes]
		must.Do(t, m.introduceOne(spokes, own[i]))
	}
	hub.tell(t, order{Do: "introduce", All: to})
	for left, end := 12, time.Now().Add(waitLimit); left > 0; {
		round := random.Uint64()
		with := random.Perm(spokes)[:spokes/2+random.IntN(spokes/2)]
		must.Do(t, hub.enc.Encode(&order{Do: "talk", Round: round, With: with}))
		errs := make(chan error, spokes)
		for _, i := range with {
			go func() { errs <- rim[i].talk(round, []int{spokes}) }()
		}
		for range with {
			must.Do(t, <-errs)
		}
		var a answer
		must.Do(t, hub.dec.Decode(&a))
		if a.Error != "" {
			t.Fatalf("the hub, in round %#x: %s", round, a.Error)
		}
		switch n := peersOf(hub.cmd.Process.Pid); {
		case n > most:
			t.Fatalf("the hub has the memory of %d peers", n)
		case n >= meeting.MaxPeers:
			left-- // a round that begins with all places taken
		case time.Now().After(end):
			t.Fatalf("the hub has met only %d processes", n)
		}
	}
	must.Do(t, hub.kill())
}
