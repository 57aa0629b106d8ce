package testagent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/testagent"
)

const hello = "ok protocol=1 device=rxe0 kernel=6.1.0 fw=0.0.0 max_qp=1000 active_mtu=4096 gid=0,2,fe80::1 gid=1,2,::ffff:10.77.0.2 gid=2,1,fd00:77::2 gid=3,2,fd00:77::2\n"

// serve is a program that answers "hello", and then, in order, requests as
// they must come. After them it closes the connection.
func serve(t *testing.T, exchanges ...[2]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	done := make(chan error, 1)
	go func() { done <- play(l, append([][2]string{{"hello", hello}}, exchanges...)) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func play(l net.Listener, exchanges [][2]string) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for _, x := range exchanges {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("instead of %q: %w", x[0], err)
		}
		if got := strings.TrimSuffix(line, "\n"); got != x[0] {
			_, _ = io.WriteString(conn, "err 1 unexpected\n")
			return fmt.Errorf("the request is\n%s\nnot\n%s", got, x[0])
		}
		if _, err := io.WriteString(conn, x[1]); err != nil {
			return err
		}
	}
	return nil
}

func dial(t *testing.T, addr string) *testagent.Client {
	t.Helper()
	c, err := testagent.Dial(t.Context(), addr, nil)
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestDeviceIsAsItSays(t *testing.T) {
	d := dial(t, serve(t)).Device()
	if d.Name != "rxe0" || d.Kernel != "6.1.0" || d.ActiveMTU != 4096 || d.Numbers["max_qp"] != 1000 || len(d.GIDs) != 4 {
		t.Errorf("device %+v", d)
	}
	for addr, want := range map[string]int{"10.77.0.2": 1, "fd00:77::2": 3, "10.77.0.9": -1} {
		i, ok := d.GIDIndex(netip.MustParseAddr(addr))
		if ok != (want >= 0) || ok && i != want {
			t.Errorf("GIDIndex(%s) is %d, %v", addr, i, ok)
		}
	}
}

// Each call sends a valid request, and parses the reply.
func TestCallsOnTheWire(t *testing.T) {
	ctx := t.Context()
	c := dial(t, serve(t,
		[2]string{"pd", "ok id=1\n"},
		[2]string{"mr pd=1 size=100 align=3 access=0x3 iova=0x1000", "ok id=2 addr=0x1000 lkey=0x11 rkey=0x12\n"},
		[2]string{"fill mr=2 off=1 len=2 seed=3 at=4", "ok\n"},
		[2]string{"verify mr=2 off=1 len=2 seed=3 at=4", "ok bad=2 first=1 want=0x0a got=0x0b\n"},
		[2]string{"verify mr=2 off=1 len=2 byte=7", "ok bad=0\n"},
		[2]string{"read mr=2 off=5 len=3", "ok hex=0a0b0c\n"},
		[2]string{"cq cqe=10 events=1", "ok id=3 cqe=15\n"},
		[2]string{"qp pd=1 type=RC scq=3 rcq=3 swr=1 rwr=2 ssge=3 rsge=4 inline=5", "ok id=4 qpn=0x11 swr=10 rwr=20 ssge=30 rsge=40 inline=50\n"},
		[2]string{"modify qp=4 state=2 path_mtu=1024 rq_psn=16777215 dest_qpn=17 dgid=0000:0000:0000:0000:0000:ffff:0a4d:0001 sgid_index=1 hop_limit=64 traffic_class=0 flow_label=0 sl=0 rate=0 av_port=1", "ok\n"},
		[2]string{"query qp=4", "ok state=6 cur_state=0 access=0xe pkey_index=0 port=1 qkey=0x0 path_mtu=1024 timeout=14 retry_cnt=3 rnr_retry=2 min_rnr_timer=12 rq_psn=0x64 sq_psn=0x65 max_rd_atomic=4 max_dest_rd_atomic=5 dest_qpn=0x12 path_mig=0 sq_draining=0 sgid_index=1 hop_limit=64 traffic_class=9 dgid=::ffff:10.77.0.2 swr=1 rwr=2 ssge=3 rsge=4 inline=5\n"},
		[2]string{"post qp=4 wr=1 op=SEND_WITH_IMM flags=0x6 sge=2:1:2 sge=@0x5:0x6:7 count=3 stride=8 imm=0xcafe ; wr=2 op=ATOMIC_CMP_AND_SWP flags=0x0 raddr=0x1000 rkey=0x12 compare_add=5 swap=6", "err 12 post_send bad=1\n"},
		[2]string{"recv qp=4 wr=1 sge=2:0:10 ; wr=2", "ok n=2\n"},
		[2]string{"poll cq=3 n=2 ms=1500", "ok n=2 wc=a,0,128,200,2,cafe,12,0,0,0,0 wc=b,10,0,0,8,77,12,13,5,1,2\n"},
		[2]string{"events ms=0", "ok n=2 lost=0 event=3,qp,4 event=9,port,0\n"},
		[2]string{"counters", "ok  rcvd_pkts=7 sent_pkts=8\n"},
		[2]string{"destroy id=4", "err 16 destroy the qp\n"},
	))
	pd, err := c.AllocPD(ctx)
	must.Do(t, err)
	mr, err := pd.RegMR(ctx, testagent.MRConfig{Size: 100, Align: 3, IOVA: 0x1000, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite})
	if err != nil || mr.Addr != 0x1000 || mr.LKey != 0x11 || mr.RKey != 0x12 || mr.ID() != 2 {
		t.Fatalf("region %+v, %v", mr, err)
	}
	span := testagent.Span{Off: 1, Len: 2, Seed: 3, At: 4}
	if err := mr.Fill(ctx, span); err != nil {
		t.Error(err)
	}
	if mm, err := mr.Verify(ctx, span); err != nil || mm != (testagent.Mismatch{Bytes: 2, First: 1, Want: 10, Got: 11}) {
		t.Errorf("mismatch %+v, %v", mm, err)
	}
	if mm, err := mr.VerifySet(ctx, 1, 2, 7); err != nil || mm.Bytes != 0 {
		t.Errorf("mismatch %+v, %v", mm, err)
	}
	if b, err := mr.Read(ctx, 5, 3); err != nil || !bytes.Equal(b, []byte{10, 11, 12}) {
		t.Errorf("read %x, %v", b, err)
	}
	cq, err := c.CreateCQ(ctx, 10, true)
	if err != nil || cq.Cap != 15 {
		t.Fatalf("cq %+v, %v", cq, err)
	}
	callsOnQP(t, c, pd, mr, cq)
}

func callsOnQP(t *testing.T, c *testagent.Client, pd *testagent.PD, mr *testagent.MR, cq *testagent.CQ) {
	t.Helper()
	ctx := t.Context()
	qp, err := pd.CreateQP(ctx, testagent.QPConfig{Type: ib.RC, SendCQ: cq, Cap: ib.QPCap{MaxSendWR: 1, MaxRecvWR: 2, MaxSendSGE: 3, MaxRecvSGE: 4, MaxInlineData: 5}})
	if err != nil || qp.QPN != 0x11 || qp.Cap != (ib.QPCap{MaxSendWR: 10, MaxRecvWR: 20, MaxSendSGE: 30, MaxRecvSGE: 40, MaxInlineData: 50}) {
		t.Fatalf("qp %+v, %v", qp, err)
	}
	attr := ib.QPAttr{State: ib.RTR, PathMTU: ib.MTU1024, DestQPN: 17, RQPSN: ib.NewPSN(0xffffff), AV: ib.AHAttr{DGID: ib.GIDFromAddr(netip.MustParseAddr("10.77.0.1")), SGIDIndex: 1, HopLimit: 64, Port: 1}}
	if err := qp.Modify(ctx, &attr, ib.AttrState|ib.AttrPathMTU|ib.AttrDestQPN|ib.AttrRQPSN|ib.AttrAV); err != nil {
		t.Error(err)
	}
	got, err := qp.Query(ctx)
	if err != nil || got.State != ib.ERR || got.PathMTU != ib.MTU1024 || got.SQPSN != ib.NewPSN(0x65) || got.DestQPN != 0x12 || got.AV.TrafficClass != 9 || got.AV.DGID.Addr().String() != "10.77.0.2" || got.MaxDestRDAtomic != 5 {
		t.Errorf("query %+v, %v", got, err)
	}
	err = qp.PostSend(ctx,
		testagent.SendWR{WRID: 1, Opcode: ib.WRSendWithImm, Flags: ib.SendSignaled | ib.SendSolicited, ImmData: 0xcafe, SGList: []testagent.SGE{mr.SGE(1, 2), {Addr: 5, LKey: 6, Length: 7}}, Copies: testagent.Copies{Count: 3, Stride: 8}},
		testagent.SendWR{WRID: 2, Opcode: ib.WRAtomicCmpAndSwp, RemoteAddr: mr.Addr, RKey: mr.RKey, CompareAdd: 5, Swap: 6})
	var refused *testagent.Error
	if !errors.Is(err, syscall.ENOMEM) || !errors.As(err, &refused) || refused.Bad != 1 || refused.Text != "post_send" || refused.Command != "post" {
		t.Errorf("post: %v (%+v)", err, refused)
	}
	if err := qp.PostRecv(ctx, testagent.RecvWR{WRID: 1, SGList: []testagent.SGE{mr.SGE(0, 10)}}, testagent.RecvWR{WRID: 2}); err != nil {
		t.Error(err)
	}
	wcs, err := cq.Poll(ctx, 2, 1500*time.Millisecond)
	want := []ib.WC{
		{WRID: 10, Opcode: ib.WCRecv, ByteLen: 200, Flags: ib.WCWithImm, ImmData: 0xcafe, QPN: 0x12},
		{WRID: 11, Status: ib.WCRemAccessErr, Flags: ib.WCWithInv, InvRKey: 0x77, QPN: 0x12, SrcQP: 0x13, VendorErr: 5, PKeyIndex: 1, SL: 2},
	}
	if err != nil || len(wcs) != 2 || wcs[0] != want[0] || wcs[1] != want[1] {
		t.Errorf("completions %+v, %v", wcs, err)
	}
	if e, err := c.Events(ctx, 0); err != nil || len(e) != 2 || e[0] != (testagent.Event{Type: ib.EventQPAccessErr, Kind: "qp", ID: 4}) {
		t.Errorf("events %+v, %v", e, err)
	}
	if n, err := c.Counters(ctx); err != nil || n["rcvd_pkts"] != 7 || n["sent_pkts"] != 8 {
		t.Errorf("counters %v, %v", n, err)
	}
	must.Fail(t, qp.Destroy(ctx), syscall.EBUSY, "destroy")
}

// Windows of type 1 are bound by a verb of their own, which changes the key, and windows of type 2 by a
// work request. ATOMIC WRITE needs a queue pair that was created for it.
func TestExtensionsOnTheWire(t *testing.T) {
	ctx := t.Context()
	c := dial(t, serve(t,
		[2]string{"pd", "ok id=1\n"},
		[2]string{"mr pd=1 size=100 align=0 access=0x113", "ok id=2 addr=0x1000 lkey=0x11 rkey=0x12\n"},
		[2]string{"cq cqe=10 events=0", "ok id=3 cqe=15\n"},
		[2]string{"qp pd=1 type=RC scq=3 rcq=3 swr=0 rwr=0 ssge=0 rsge=0 inline=0 atomic_write=1", "ok id=4 qpn=0x11 swr=1 rwr=1 ssge=1 rsge=1 inline=0\n"},
		[2]string{"mw pd=1 type=1", "ok id=5 rkey=0x8000100\n"},
		[2]string{"bind qp=4 wr=7 flags=0x2 mw=5 mr=2 off=8 len=16 access=0x6", "ok rkey=0x8000101\n"},
		[2]string{"bind qp=4 wr=8 flags=0x0 mw=5 mr=2 off=0 len=0 access=0x0", "err 22 bind_mw\n"},
		[2]string{"post qp=4 wr=9 op=ATOMIC_WRITE flags=0x2 sge=2:16:8 raddr=0x1000 rkey=0x12", "ok n=1\n"},
	))
	pd, err := c.AllocPD(ctx)
	must.Do(t, err)
	mr, err := pd.RegMR(ctx, testagent.MRConfig{Size: 100, Access: ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessMWBind | ib.AccessFlushGlobal})
	must.Do(t, err)
	cq, err := c.CreateCQ(ctx, 10, false)
	must.Do(t, err)
	qp, err := pd.CreateQP(ctx, testagent.QPConfig{Type: ib.RC, SendCQ: cq, AtomicWrite: true})
	must.Do(t, err)
	mw, err := pd.AllocMW(ctx, 1)
	must.Do(t, err)
	must.Do(t, qp.BindMW(ctx, 7, ib.SendSignaled, testagent.Bind{MW: mw, MR: mr, Off: 8, Len: 16, Access: ib.AccessRemoteWrite | ib.AccessRemoteRead}))
	must.Fail(t, qp.BindMW(ctx, 8, 0, testagent.Bind{MW: mw, MR: mr}), syscall.EINVAL, "bind")
	if mw.RKey != 0x8000101 {
		t.Errorf("the window's key is %#x: that of the bind that succeeded is 0x8000101", uint32(mw.RKey))
	}
	must.Do(t, qp.PostSend(ctx, testagent.SendWR{WRID: 9, Opcode: ib.WRAtomicWrite, Flags: ib.SendSignaled, SGList: []testagent.SGE{mr.SGE(16, 8)}, RemoteAddr: mr.Addr, RKey: mr.RKey}))
}

// An invalid reply breaks the connection, and every later call returns that
// error.
func TestNonsenseIsAnError(t *testing.T) {
	long := "ok hex=" + strings.Repeat("0", 70000) + "\n"
	for _, answer := range []string{"", "\n", "HTTP/1.1 400 Bad Request\n", "ok", "ok id", "err\n", "err x y\n", "err 0 fine\n", "\x00\xff\xfe\n", long, strings.Repeat("y", 70000)} {
		c := dial(t, serve(t, [2]string{"pd", answer}))
		_, err := c.AllocPD(t.Context())
		var refused *testagent.Error
		if err == nil || errors.As(err, &refused) {
			t.Errorf("the answer %.20q gave %v", answer, err)
			continue
		}
		if _, again := c.AllocPD(t.Context()); again == nil {
			t.Errorf("after the answer %.20q the connection still serves", answer)
		}
	}
}

// Values that are wrong are errors too; the connection goes on.
func TestWrongValuesAreErrors(t *testing.T) {
	for _, answer := range []string{"ok\n", "ok id=\n", "ok id=-1\n", "ok id=4294967296\n", "ok id=0x\n", "ok =1\n"} {
		c := dial(t, serve(t, [2]string{"pd", answer}, [2]string{"pd", "ok id=9\n"}))
		if _, err := c.AllocPD(t.Context()); err == nil {
			t.Errorf("the answer %q is taken", answer)
		}
		if pd, err := c.AllocPD(t.Context()); err != nil || pd.ID() != 9 {
			t.Errorf("after the answer %q: %v", answer, err)
		}
	}
}

// No reply of a program makes a call panic.
func TestGarbageDoesNotPanic(t *testing.T) {
	const seed = 77
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const letters = "0123456789abcdefx,=:; okwcgidevntbhrlpu-"
	for range 300 {
		line := []byte("ok ")
		for _, key := range []string{"wc=", "event=", "n=", "lost=", "bad=", "hex=", "gid=", "protocol=1", "active_mtu=", "addr=", "state="} {
			line = append(line, key...)
			for range rng.IntN(12) {
				line = append(line, letters[rng.IntN(len(letters))])
			}
			line = append(line, ' ')
		}
		answer := string(line) + "\n"
		c := dial(t, serve(t, [2]string{"hello", answer}, [2]string{"events ms=0", answer}, [2]string{"counters", answer}))
		_, _ = c.Hello(t.Context())
		_, _ = c.Events(t.Context(), 0)
		_, _ = c.Counters(t.Context())
	}
}

// A call ends with its context, also in the middle of an answer.
func TestCallsEndWithTheirContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer func() { _ = l.Close() }()
	asked := make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(conn)
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(conn, hello)
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(conn, "ok id=")
		close(asked)
		_, _ = in.ReadString('\n') // the client hangs up
		_ = conn.Close()
	}()
	c := dial(t, l.Addr().String())
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		<-asked
		cancel(why)
	}()
	if _, err := c.AllocPD(ctx); !errors.Is(err, why) {
		t.Errorf("the call ended with %v", err)
	}
}

func TestDialSaysWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	if _, err := testagent.Dial(t.Context(), addr, nil); err == nil || !strings.Contains(err.Error(), "test agent") {
		t.Errorf("nobody listens: %v", err)
	}
	for _, answer := range []string{"ok protocol=2 active_mtu=1024\n", "ok protocol=1\n", "220 mail ESMTP\n", "ok protocol=1 active_mtu=1024 gid=1\n", "ok protocol=1 active_mtu=1024 gid=1,2,nowhere\n"} {
		if c, err := testagent.Dial(t.Context(), stranger(t, answer), nil); err == nil {
			_ = c.Close()
			t.Errorf("the program that says %q is taken", answer)
		}
	}
}

// stranger answers whatever comes first.
func stranger(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.Accept(); err == nil {
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// The log has every request and reply.
func TestTheLogIsEvidence(t *testing.T) {
	var log bytes.Buffer
	c, err := testagent.Dial(t.Context(), serve(t, [2]string{"pd", "ok id=1\n"}), &log)
	must.Do(t, err)
	defer func() { _ = c.Close() }()
	if _, err := c.AllocPD(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "> hello\n< " + hello + "> pd\n< ok id=1\n"; log.String() != want {
		t.Errorf("the log is\n%s", log.String())
	}
}

// A request that would be two is not sent.
func TestARequestIsOneLine(t *testing.T) {
	c := dial(t, serve(t))
	for _, request := range []string{"pd\npd", "pd\x00", strings.Repeat("x", 70000)} {
		if _, err := c.Do(t.Context(), request, 0); err == nil {
			t.Errorf("the request %.10q is sent", request)
		}
	}
}

func TestPatterns(t *testing.T) {
	buf := make([]byte, 100)
	testagent.FillPattern(buf, 7, 0)
	if !bytes.Equal(buf[:8], []byte{0xd7, 0x0d, 0x32, 0x59, 0xe4, 0xe1, 0xcb, 0x63}) {
		t.Errorf("the pattern begins with %x: the program in C has another", buf[:8])
	}
	for at := range uint64(20) {
		part := make([]byte, 30)
		testagent.FillPattern(part, 7, at)
		if !bytes.Equal(part, buf[at:at+30]) {
			t.Errorf("from %d on the pattern is another", at)
		}
		if i := testagent.FirstMismatch(buf[at:], 7, at); i != -1 {
			t.Errorf("from %d on byte %d is wrong", at, i)
		}
		buf[50] ^= 1
		if i := testagent.FirstMismatch(buf[at:], 7, at); i != 50-int(at) {
			t.Errorf("the wrong byte 50 is found at %d from %d", i, at)
		}
		buf[50] ^= 1
	}
}
