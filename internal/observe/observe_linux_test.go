package observe

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/cm"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/restrack"
	"github.com/softhca/softhca/internal/restrack/file"
	"github.com/softhca/softhca/rdmacm"
	"github.com/softhca/softhca/rdmacm/stream"
	"github.com/softhca/softhca/verbs"
)

// side is an adapter of this process, with a queue pair.
type side struct {
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
}

// privately makes a directory for the tables of a test.
func privately(t testing.TB) {
	t.Helper()
	t.Setenv(file.DirVariable, t.TempDir()) // otherwise root sees the tables of all tests
}

func open(t testing.TB, addr string) *side {
	t.Helper()
	s := &side{}
	var err error
	// On a slow machine an adapter would probe, which changes the counters.
	s.ctx, err = verbs.Open(verbs.Config{Addr: addr, ProbeAfter: time.Hour})
	must.Do(t, err)
	t.Cleanup(func() { _ = s.ctx.Close() })
	s.pd, err = s.ctx.AllocPD()
	must.Do(t, err)
	s.cq, err = s.ctx.CreateCQ(63, nil)
	must.Do(t, err)
	s.mr, err = s.pd.RegMR(make([]byte, 1<<16), ib.AccessLocalWrite|ib.AccessRemote)
	must.Do(t, err)
	s.qp = s.queuePair(t)
	return s
}

func (s *side) queuePair(t testing.TB) *verbs.QP {
	t.Helper()
	q, err := s.pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.RC, SendCQ: s.cq, RecvCQ: s.cq, SQSig: ib.SigAll,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	must.Do(t, err)
	return q
}

// pair opens two adapters with a connection.
func pair(t testing.TB) (a, b *side) {
	t.Helper()
	return pairOn(t, "127.0.0.91", "127.0.0.92")
}

// pairOn is pair with other addresses.
func pairOn(t testing.TB, one, other string) (a, b *side) {
	t.Helper()
	privately(t)
	a, b = open(t, one), open(t, other)
	ea, err := a.qp.Endpoint(ib.NewPSN(0xfffffe), a.ctx.GIDIndex())
	must.Do(t, err)
	eb, err := b.qp.Endpoint(ib.NewPSN(100), b.ctx.GIDIndex())
	must.Do(t, err)
	must.Do(t, a.qp.Connect(ea, eb, verbs.ConnectionAttr()))
	must.Do(t, b.qp.Connect(eb, ea, verbs.ConnectionAttr()))
	return a, b
}

// wait polls n completions of a queue.
func (s *side) wait(t *testing.T, n int) []verbs.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var all []verbs.WC
	for len(all) < n {
		wc := make([]verbs.WC, n-len(all))
		k, err := s.cq.Poll(wc)
		must.Do(t, err)
		if all = append(all, wc[:k]...); len(all) < n {
			must.Do(t, s.cq.Wait(ctx))
		}
	}
	return all
}

// look reads the two adapters of pair.
func look(t *testing.T, s *Set) (a, b *Adapter) {
	t.Helper()
	all, err := s.Read()
	must.Do(t, err)
	if len(all) != 2 {
		t.Fatalf("%d adapters are seen, want 2", len(all))
	}
	return all[0], all[1]
}

// lookSettled looks until no request of the first adapter's queue pair is outstanding. The adapter
// reports once for each turn of its thread, after the program has the completions.
func lookSettled(t *testing.T, s *Set) (a, b *Adapter) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for a, b = look(t, s); len(a.QPs) == 1 && a.QPs[0].Outstanding != 0 && time.Now().Before(end); {
		a, b = look(t, s)
	}
	return a, b
}

// TestW1_ObjectsAreSeen opens two adapters, connects them and sends messages, and compares what the
// tables show with what the verbs say.
func TestW1_ObjectsAreSeen(t *testing.T) {
	a, b := pair(t)
	s := NewSet()
	defer s.Close()
	const messages, size = 10, 3000 // three packets each, with a path MTU of 1024
	for i := range messages {
		must.Do(t, b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, size)}}))
		must.Do(t, a.qp.PostSend(verbs.SendWR{WRID: uint64(i), Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, size)}}))
	}
	a.wait(t, messages)
	b.wait(t, messages)
	_, other := look(t, s)
	const next = 0xfffffe + messages*3 - 1<<24
	if c := other.QPs[0].QPCounts; c.RcvdMessages != messages || c.RcvdBytes != messages*size || c.RecvPSN != next || c.SentMessages != 0 || c.SentBytes != 0 {
		t.Errorf("the responder shows %+v, want %d messages and PSN %#x next", c, messages, next)
	}
	must.Do(t, b.ctx.Close()) // a closed adapter shows nothing
	if all, err := s.Read(); err != nil || len(all) != 1 || all[0].Addr != netip.MustParseAddr("127.0.0.91") {
		t.Fatalf("after a Close there are %d adapters, %v", len(all), err)
	}
	b2 := open(t, "127.0.0.92")
	x, y := lookSettled(t, s)
	if x.Name != "softhca0" || x.PID != os.Getpid() || x.UID != os.Geteuid() || !x.Running || x.Failed || x.Down || x.Command == "" ||
		time.Since(x.Started) > time.Minute || y.Addr != netip.MustParseAddr("127.0.0.92") {
		t.Errorf("adapter %+v", x)
	}
	if len(x.QPs) != 1 || len(x.CQs) != 1 || len(x.MRs) != 1 || len(x.PDs) != 1 || len(x.Missing) != 0 {
		t.Fatalf("objects are %+v %+v %+v %+v", x.QPs, x.CQs, x.MRs, x.PDs)
	}
	q := x.QPs[0]
	want := QP{
		Num: a.qp.QPN(), Type: ib.RC, State: ib.RTS, Peer: b.qp.QPN(), Local: x.Addr, Remote: y.Addr, SrcPort: q.SrcPort, MTU: q.MTU,
		PKey: ib.PKeyDefault, PD: x.PDs[0].Num, SendCQ: x.CQs[0].Num, RecvCQ: x.CQs[0].Num, MaxSend: 16, MaxRecv: 16, QPCounts: q.QPCounts,
	}
	if q != want {
		t.Errorf("queue pair\n%+v, want\n%+v", q, want)
	}
	packets := uint64(messages * ((size + q.MTU.Bytes() - 1) / q.MTU.Bytes()))
	psn := (0xfffffe + packets) & 0xffffff
	c := q.QPCounts
	if c.SentMessages != messages || c.SentBytes != messages*size || c.SentPackets < packets || c.SendPSN != psn || c.AckPSN != psn ||
		c.RcvdPackets == 0 || c.RcvdBytes != 0 || c.InFlight != 0 || c.Outstanding != 0 || c.Window == 0 || c.Errors != 0 {
		t.Errorf("counters %+v; want %d messages of %d bytes, next PSN %#x", c, messages, size, psn)
	}
	var timed uint64
	for _, n := range c.Latency {
		timed += n
	}
	if timed != messages {
		t.Errorf("%d completions are in the histogram, want %d", timed, messages)
	}
	cq := x.CQs[0]
	if cq.Depth != 63 || cq.Waiting != 0 || cq.Produced != messages || cq.HighWater == 0 || cq.HighWater > messages {
		t.Errorf("completion queue %+v", cq)
	}
	if m := x.MRs[0]; m.Length != 1<<16 || m.Addr != 0 || m.PD != x.PDs[0].Num || m.Rights != ib.AccessLocalWrite|ib.AccessRemote {
		t.Errorf("region %+v", m)
	}
	if x.PDs[0].Users != 2 {
		t.Errorf("domain %+v, want a region and a queue pair in it", x.PDs[0])
	}
	if n := a.sent(t); x.Counters.SentPkts != n || n == 0 || x.Port.SentPackets == 0 {
		t.Errorf("the adapter sent %d packets, its port %d, want %d", x.Counters.SentPkts, x.Port.SentPackets, n)
	}
	must.Do(t, b2.qp.Destroy())
	if _, y = look(t, s); len(y.QPs) != 0 || y.PDs[0].Users != 1 {
		t.Errorf("a destroyed queue pair is seen: %+v", y.QPs)
	}
}

// sent returns how many packets the adapter says that it sent.
func (s *side) sent(t *testing.T) uint64 {
	t.Helper()
	counters, err := s.ctx.Counters()
	must.Do(t, err)
	return counters[slices.IndexFunc(counters, func(c verbs.Counter) bool { return c.Name == "sent_pkts" })].Value
}

// TestW1_TroubleIsSeen makes a request fail and looks for its traces.
func TestW1_TroubleIsSeen(t *testing.T) {
	a, b := pair(t)
	s := NewSet()
	defer s.Close()
	for range 3 {
		must.Do(t, a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, 8)}}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for { // until the receiver was found not ready
		x, y := look(t, s)
		if y.QPs[0].RNRSent > 0 && x.QPs[0].RNRRcvd > 0 {
			if q := x.QPs[0]; q.Outstanding != 3 {
				t.Errorf("%d requests are outstanding, want 3", q.Outstanding)
			}
			break
		}
		must.Do(t, ctx.Err())
	}
	must.Do(t, b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 4)}})) // too small
	if wc := a.wait(t, 3); wc[0].Status != ib.WCRemInvReqErr || wc[1].Status != ib.WCWRFlushErr {
		t.Fatalf("completions are %+v", wc)
	}
	x, y := look(t, s)
	if q := x.QPs[0]; q.State != ib.ERR || q.Errors != 1 || q.LastStatus != ib.WCRemInvReqErr || q.Outstanding != 0 || time.Since(q.LastAt) > time.Minute || time.Since(q.LastAt) < 0 {
		t.Errorf("the requester shows %v, %d errors, %v at %v", q.State, q.Errors, q.LastStatus, q.LastAt)
	}
	if q := y.QPs[0]; q.State != ib.ERR || q.LastStatus != ib.WCLocLenErr || q.RNRSent == 0 {
		t.Errorf("the responder shows %v, %v", q.State, q.LastStatus)
	}
	if c := y.CQs[0]; c.Waiting == 0 {
		t.Error("the completion that the responder has not polled does not wait")
	}
}

// TestW1_MigrationIsSeen moves a connection to its alternate path: the side that follows its peer, by
// itself, shows the new addresses.
func TestW1_MigrationIsSeen(t *testing.T) {
	a, b := pairOn(t, "127.0.0.91,127.0.0.97", "127.0.0.92,127.0.0.98")
	s := NewSet()
	defer s.Close()
	for _, p := range [][2]*side{{a, b}, {b, a}} {
		attr := verbs.QPAttr{
			State: ib.RTS, PathMigState: ib.REARM, AltPort: 1, AltTimeout: 14,
			AltAV: verbs.AHAttr{DGID: p[1].ctx.QueryGID(1), SGIDIndex: 1, HopLimit: 64, Port: 1},
		}
		must.Do(t, p[0].qp.Modify(&attr, ib.AttrState|ib.AttrAltPath|ib.AttrPathMigState))
	}
	exchange := func() QP {
		must.Do(t, b.qp.PostRecv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.SGE(0, 64)}}))
		must.Do(t, a.qp.PostSend(verbs.SendWR{Opcode: ib.WRSend, SGList: []verbs.SGE{a.mr.SGE(0, 64)}}))
		a.wait(t, 1)
		b.wait(t, 1)
		_, y := look(t, s)
		return y.QPs[0]
	}
	if q := exchange(); q.Mig != ib.ARMED || q.Local != netip.MustParseAddr("127.0.0.92") {
		t.Errorf("before the migration: %v at %v", q.Mig, q.Local)
	}
	must.Do(t, a.qp.Modify(&verbs.QPAttr{PathMigState: ib.MIGRATED}, ib.AttrPathMigState))
	if q := exchange(); q.Mig != ib.MIGRATED || q.Local != netip.MustParseAddr("127.0.0.98") || q.Remote != netip.MustParseAddr("127.0.0.97") {
		t.Errorf("after the migration: %v from %v to %v", q.Mig, q.Local, q.Remote)
	}
}

// TestW1_AllKindsAreSeen creates, changes and destroys objects of the other kinds.
func TestW1_AllKindsAreSeen(t *testing.T) {
	privately(t)
	a := open(t, "127.0.0.91")
	s := NewSet()
	defer s.Close()
	must.Do(t, a.cq.Resize(200))
	srq, err := a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 32, MaxSGE: 2})
	must.Do(t, err)
	mw, err := a.pd.AllocMW(ib.MWType1)
	must.Do(t, err)
	domain, err := a.ctx.OpenXRCDomain()
	must.Do(t, err)
	ud, err := a.pd.CreateQP(&verbs.QPInitAttr{
		Type: ib.UD, SendCQ: a.cq, RecvCQ: a.cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1},
	})
	must.Do(t, err)
	all, err := s.Read()
	must.Do(t, err)
	x := all[0]
	if int(x.CQs[0].Depth) != a.cq.Cap() || x.CQs[0].Depth < 200 {
		t.Errorf("the resized queue has %d entries", x.CQs[0].Depth)
	}
	if len(x.SRQs) != 1 || x.SRQs[0].MaxWR < 32 || x.SRQs[0].MaxSGE != 2 || x.SRQs[0].PD != x.PDs[0].Num {
		t.Errorf("shared receive queues %+v", x.SRQs)
	}
	if len(x.MRs) != 2 || x.MRs[1].Form != restrack.FormWindow || len(x.XRCDs) != 1 {
		t.Errorf("regions and windows %+v, XRC domains %+v", x.MRs, x.XRCDs)
	}
	if i := slices.IndexFunc(x.QPs, func(q QP) bool { return q.Num == ud.QPN() }); i < 0 || x.QPs[i].Type != ib.UD || x.QPs[i].SRQ != x.SRQs[0].Num || x.QPs[i].MaxRecv != 0 {
		t.Errorf("queue pairs %+v", x.QPs)
	}
	must.Do(t, errors.Join(ud.Destroy(), srq.Destroy(), mw.Dealloc(), domain.Close(), a.mr.Dereg()))
	if all, err = s.Read(); err != nil || len(all[0].SRQs)+len(all[0].MRs)+len(all[0].XRCDs) != 0 || len(all[0].QPs) != 1 {
		t.Errorf("destroyed objects are seen: %+v, %v", all[0], err)
	}
}

// TestTablesOfAUserAreBounded reads a user's tables up to the limit, and reports the others.
func TestTablesOfAUserAreBounded(t *testing.T) {
	pair(t)
	s := NewSet()
	defer s.Close()
	all, err := s.Read()
	must.Do(t, err)
	table, err := os.ReadFile(all[0].Path)
	must.Do(t, err)
	// The number of extents, after two words and the description of the process.
	binary.NativeEndian.PutUint64(table[16+unsafe.Sizeof(restrack.Process{}):], restrack.MaxExtents)
	for i := range 3 {
		path := filepath.Join(filepath.Dir(all[0].Path), "big-"+string(rune('a'+i)))
		must.Do(t, os.WriteFile(path, table, 0o600))
		must.Do(t, os.Truncate(path, restrack.MaxExtents*restrack.ExtentSize))
	}
	if all, err = s.Read(); !errors.Is(err, ErrTooMuch) || len(all) < 2 || len(all) > 4 {
		t.Errorf("%d adapters, %v", len(all), err)
	}
}

// TestW1_ConnectionsAreSeen connects by rdmacm: the listener and both ends are seen, and joined to
// their queue pairs, until they are closed.
func TestW1_ConnectionsAreSeen(t *testing.T) {
	privately(t)
	manager, err := rdmacm.Open(verbs.Config{Addr: "127.0.0.96"})
	must.Do(t, err)
	defer manager.Close()
	s := NewSet()
	defer s.Close()
	read := func() []CMID {
		all, err := s.Read()
		must.Do(t, err)
		return all[0].CMIDs
	}
	at := netip.MustParseAddrPort("127.0.0.96:7471")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := stream.ListenOn(ctx, manager, at.String())
	must.Do(t, err)
	if ids := read(); len(ids) != 1 || !ids[0].Listener || ids[0].State != cm.Listen || ids[0].Local != at || ids[0].Type != ib.RC {
		t.Fatalf("the listener is seen as %+v", ids)
	}
	accepted := make(chan *stream.Conn, 1)
	go func() {
		server, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- server
	}()
	client, err := stream.DialOn(ctx, manager, at.String())
	must.Do(t, err)
	server := <-accepted
	all, err := s.Read()
	must.Do(t, err)
	qps := make(map[uint32]QP)
	for _, q := range all[0].QPs {
		qps[q.CM] = q
	}
	ends, from := 0, map[netip.AddrPort]netip.AddrPort{}
	for _, c := range all[0].CMIDs {
		if c.Listener {
			continue
		}
		ends++
		from[c.Local] = c.Remote
		q := qps[c.Num]
		if c.State != cm.Established || c.RemoteID == 0 || q.Num != c.QPN || q.Peer != c.RemoteQPN || c.Remote.Addr() != at.Addr() {
			t.Errorf("connection %+v of queue pair %+v", c, q)
		}
	}
	if ends != 2 {
		t.Errorf("%d ends of the connection are seen", ends)
	}
	if dialer := from[at]; dialer.Port() == 0 || from[dialer] != at {
		t.Errorf("the ends are seen as %v", from)
	}
	must.Do(t, errors.Join(client.Close(), server.Close(), l.Close()))
	if ids := read(); slices.ContainsFunc(ids, func(c CMID) bool { return c.Listener }) {
		t.Errorf("the closed listener is seen: %+v", ids)
	}
}

// killedEnv makes the test binary send messages until it is killed.
const killedEnv = "SOFTHCA_TEST_KILLED"

// TestHelperKilled is the process of TestW1_KilledProcess.
func TestHelperKilled(t *testing.T) {
	if os.Getenv(killedEnv) == "" {
		t.Skip("it is the other process of TestW1_KilledProcess") // not a test by itself
	}
	s := &side{}
	var err error
	s.ctx, err = verbs.Open(verbs.Config{Addr: "127.0.0.95"})
	must.Do(t, err)
	s.pd, err = s.ctx.AllocPD()
	must.Do(t, err)
	s.cq, err = s.ctx.CreateCQ(63, nil)
	must.Do(t, err)
	s.queuePair(t)
	_, _ = os.Stdout.WriteString("ready")
	select {}
}

// TestW1_KilledProcess kills a process: its table tells the last state, alone and among others.
func TestW1_KilledProcess(t *testing.T) {
	privately(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperKilled$")
	cmd.Env = append(os.Environ(), killedEnv+"=1")
	out, err := cmd.StdoutPipe()
	must.Do(t, errors.Join(err, cmd.Start()))
	_, err = out.Read(make([]byte, 5))
	must.Do(t, err)
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	s := NewSet()
	defer s.Close()
	all, err := s.Read()
	must.Do(t, err)
	if len(all) != 1 || all[0].Running || all[0].PID != cmd.Process.Pid || len(all[0].QPs) != 1 || all[0].QPs[0].State != ib.RESET {
		t.Fatalf("after a kill: %+v", all)
	}
	alone, err := Open(all[0].Path)
	must.Do(t, err)
	defer alone.Close()
	if again, err := alone.Read(); err != nil || len(again) != 1 || len(again[0].QPs) != 1 {
		t.Errorf("the table alone: %v, %v", again, err)
	}
}

// TestForeignTables adds a file that is not a table of this version: the other tables are read, and the
// error is reported once.
func TestForeignTables(t *testing.T) {
	a, _ := pair(t)
	s := NewSet()
	defer s.Close()
	all, err := s.Read()
	must.Do(t, err)
	bad := filepath.Join(filepath.Dir(all[0].Path), "bad")
	must.Do(t, os.WriteFile(bad, make([]byte, restrack.ExtentSize), 0o600))
	if all, err = s.Read(); !errors.Is(err, restrack.ErrLayout) || len(all) != 2 {
		t.Errorf("%d adapters, %v", len(all), err)
	}
	if all, err = s.Read(); err != nil || len(all) != 2 {
		t.Errorf("%d adapters, %v", len(all), err)
	}
	if _, err := Open(bad); !errors.Is(err, restrack.ErrLayout) {
		t.Errorf("garbage alone: %v", err)
	}
	_ = a
}
