package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// lockedLog is a log that several threads write and the test reads.
type lockedLog struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logger returns a log at a level, without times.
func (l *lockedLog) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

// TestLogLevels writes to memory that the peer has not registered, and checks that the
// log has the records of each level and no others.
func TestLogLevels(t *testing.T) {
	packet, state, failed := "opcode=RC_RDMA_WRITE_ONLY", "from=INIT to=RTR", "status=REM_ACCESS_ERR"
	for _, c := range []struct {
		level    slog.Level
		has, not []string
	}{
		{slog.LevelDebug, []string{packet, state, failed, "adapter open"}, nil},
		{slog.LevelInfo, []string{state, failed, "adapter open"}, []string{packet}},
		{slog.LevelWarn, []string{failed}, []string{packet, state, "adapter open"}},
	} {
		t.Run(c.level.String(), func(t *testing.T) {
			n, text := NewNetwork(), &lockedLog{}
			traced := false
			a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Log: text.logger(c.level), Trace: func(*TraceRecord) { traced = true }}, ib.RC)
			b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
			connect(t, a, b, func(attr *QPAttr) { attr.Timeout = 19 })
			wr := SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1}
			must.Do(t, a.qp.PostSend(wr))
			if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
				t.Fatalf("the WRITE ended with %v", wc.Status)
			}
			must.Do(t, a.ctx.Close()) // ends the logging
			for _, s := range c.has {
				if !strings.Contains(text.String(), s) {
					t.Errorf("level %v has no %q:\n%s", c.level, s, text)
				}
			}
			for _, s := range c.not {
				if strings.Contains(text.String(), s) {
					t.Errorf("level %v has %q:\n%s", c.level, s, text)
				}
			}
			if !traced {
				t.Error("beside a log, Trace is not called")
			}
		})
	}
}

// TestLogWarnsOfLinkLocal opens adapters whose first GID is link-local, and others.
func TestLogWarnsOfLinkLocal(t *testing.T) {
	for addr, warns := range map[string]bool{"fe80::1,10.0.0.1": true, "10.0.0.1,fe80::1": false, "fe80::1": false} {
		text := &lockedLog{}
		newEndpoint(t, Config{Addr: addr, Network: NewNetwork(), Log: text.logger(slog.LevelWarn)}, ib.RC)
		if got := strings.Contains(text.String(), "GID index 0 is a link-local address"); got != warns {
			t.Errorf("%s: a warning is %v, want %v:\n%s", addr, got, warns, text)
		}
	}
}

// TestW1_EventsAreLogged overflows a completion queue and injects events: the log has each event
// once, with the object that it is about.
func TestW1_EventsAreLogged(t *testing.T) {
	n, text := NewNetwork(), &lockedLog{}
	rules := "event type=PORT_ERR after=1ms\nevent type=DEVICE_FATAL after=1ms"
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Log: text.logger(slog.LevelWarn)}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
	small, err := a.ctx.CreateCQ(3, a.ch)
	must.Do(t, err)
	init := a.init(ib.RC)
	init.SendCQ = small
	a.qp, err = a.pd.CreateQP(init)
	must.Do(t, err)
	connect(t, a, b, nil)
	for i := range uint64(4) {
		must.Do(t, a.qp.PostSend(a.write(i, 8, b)))
	}
	for _, want := range []ib.EventType{ib.EventCQErr, ib.EventQPFatal} {
		if ev := a.event(t); ev.Type != want {
			t.Fatalf("event %v, want %v", ev, want)
		}
	}
	c := newEndpoint(t, Config{Addr: "10.0.0.3", Network: n, Log: text.logger(slog.LevelWarn), Faults: Faults{Rules: rules}}, ib.RC)
	for range 2 {
		_ = c.event(t)
	}
	for _, want := range []string{
		"level=WARN msg=\"asynchronous event\" event=PORT_ERR port=1\n",
		"level=WARN msg=\"asynchronous event\" event=DEVICE_FATAL err=",
		fmt.Sprintf("level=WARN msg=\"asynchronous event\" event=CQ_ERR cq=%d\n", small.obj.CQ.Number()),
		fmt.Sprintf("level=WARN msg=\"asynchronous event\" qp=%v conn=10.0.0.1/%v-10.0.0.2/%v event=QP_FATAL\n", a.qp.QPN(), a.qp.QPN(), b.qp.QPN()),
	} {
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("not logged once: %s\n%s", want, text)
		}
	}
	if n := strings.Count(text.String(), "msg=\"asynchronous event\""); n != 4 {
		t.Errorf("%d events are logged, want 4:\n%s", n, text)
	}
}

// TestW1_QuietLogCostsNoPackets raises the level to Debug after the adapter was opened: packets and
// completions with success are not even passed to the log, flushed requests are.
func TestW1_QuietLogCostsNoPackets(t *testing.T) {
	n, text, level := NewNetwork(), &lockedLog{}, new(slog.LevelVar)
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Log: slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: level}))}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n}, ib.RC)
	connect(t, a, b, nil)
	level.Set(slog.LevelDebug)
	must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
	a.take(t, 1)
	must.Do(t, a.qp.PostRecv(a.recv(2, 0, 8)))
	must.Do(t, a.qp.Modify(&QPAttr{State: ib.ERR}, ib.AttrState))
	a.take(t, 1)
	must.Do(t, a.ctx.Close())
	if log := text.String(); strings.Contains(log, "packet sent") || strings.Contains(log, "packet received") || strings.Contains(log, "SUCCESS") || !strings.Contains(log, "WR_FLUSH_ERR") || !strings.Contains(log, "to=ERR") {
		t.Errorf("logged:\n%s", log)
	}
}

// mistake makes a request that fails.
type mistake struct {
	make   func(t *testing.T, a, b *endpoint) (wr SendWR, why string)
	status ib.WCStatus
	atA    bool // A knows why
}

// manyBytes is the size of an endpoint's region.
const manyBytes = 4 << 20

// deregistered returns a region that was deregistered.
func deregistered(t *testing.T, b *endpoint) *MR {
	mr, err := b.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite|ib.AccessRemote)
	must.Do(t, err)
	must.Do(t, mr.Dereg())
	return mr
}

// readOnly returns a region that peers may read.
func readOnly(t *testing.T, pd *PD) *MR {
	mr, err := pd.RegMR(make([]byte, 64), ib.AccessRemoteRead)
	must.Do(t, err)
	return mr
}

// writeTo returns a WRITE to any address.
func writeTo(a *endpoint, addr uint64, key ib.RKey, n uint32) SendWR {
	return SendWR{Opcode: ib.WRRDMAWrite, SGList: []SGE{a.mr.SGE(0, n)}, RemoteAddr: addr, RKey: key}
}

var mistakes = map[string]mistake{
	"unknown key": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		key := b.mr.RKey() ^ 0x5500_0000
		return writeTo(a, b.mr.Addr(), key, 8), fmt.Sprintf("rkey: no region or window has the key %#x", uint32(key))
	}, ib.WCRemAccessErr, false},
	"deregistered": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		mr := deregistered(t, b)
		return writeTo(a, mr.Addr(), mr.RKey(), 8), fmt.Sprintf("rkey: the region or window with the key %#x no longer exists", uint32(mr.RKey()))
	}, ib.WCRemAccessErr, false},
	"no right": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		mr := readOnly(t, b.pd)
		return writeTo(a, mr.Addr(), mr.RKey(), 8), fmt.Sprintf("rkey: region %#x (registered by verbs.readOnly) has the rights REMOTE_READ, and the access needs REMOTE_WRITE", uint32(mr.RKey()))
	}, ib.WCRemAccessErr, false},
	"beyond": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		return writeTo(a, b.mr.Addr()+manyBytes-100, b.mr.RKey(), 1024), fmt.Sprintf("1024 bytes at %#x end 924 bytes beyond region %#x (registered by verbs.(*endpoint).fill), which has 4194304 bytes at %#x",
			b.mr.Addr()+manyBytes-100, uint32(b.mr.RKey()), b.mr.Addr())
	}, ib.WCRemAccessErr, false},
	"other domain": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		pd, err := b.ctx.AllocPD()
		must.Do(t, err)
		mr := readOnly(t, pd)
		wr := writeTo(a, mr.Addr(), mr.RKey(), 8)
		wr.Opcode = ib.WRRDMARead
		return wr, fmt.Sprintf("rkey: region %#x (registered by verbs.readOnly) belongs to protection domain 2, the queue pair to 1", uint32(mr.RKey()))
	}, ib.WCRemAccessErr, false},
	"short receive": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		must.Do(t, b.qp.PostRecv(b.recv(1, 0, 8)))
		return a.send(1, 100), "SEND longer than the receive work request"
	}, ib.WCRemInvReqErr, false},
	"receive into a read-only region": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		mr := readOnly(t, b.pd)
		must.Do(t, b.qp.PostRecv(RecvWR{SGList: []SGE{mr.SGE(0, 64)}}))
		return a.send(1, 8), fmt.Sprintf("receive: region %#x (registered by verbs.readOnly) has the rights REMOTE_READ, and the access needs LOCAL_WRITE", uint32(mr.LKey()))
	}, ib.WCRemOpErr, false},
	"unknown local key": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		wr := a.send(1, 8)
		wr.SGList[0].LKey ^= 0x5500_0000
		return wr, fmt.Sprintf("payload: no region or window has the key %#x", uint32(wr.SGList[0].LKey))
	}, ib.WCLocProtErr, true},
	"READ into a read-only region": {func(t *testing.T, a, b *endpoint) (SendWR, string) {
		mr := readOnly(t, a.pd)
		return SendWR{Opcode: ib.WRRDMARead, SGList: []SGE{mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
			fmt.Sprintf("response: region %#x (registered by verbs.readOnly) has the rights REMOTE_READ, and the access needs LOCAL_WRITE", uint32(mr.LKey()))
	}, ib.WCLocProtErr, true},
}

// TestW1_ReasonsAreLogged makes mistakes that a peer sees as one of two NAKs, and mistakes that no
// packet shows: the log of the side that knows says exactly what is wrong.
func TestW1_ReasonsAreLogged(t *testing.T) {
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			n := NewNetwork()
			var logs [2]lockedLog
			a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Log: logs[0].logger(slog.LevelWarn), NoChallenge: true}, ib.RC)
			b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n, Log: logs[1].logger(slog.LevelWarn), NoChallenge: true}, ib.RC)
			connect(t, a, b, nil)
			wr, why := c.make(t, a, b)
			must.Do(t, a.qp.PostSend(wr))
			if wc := a.take(t, 1)[0]; wc.Status != c.status {
				t.Fatalf("it ends with %v, want %v", wc.Status, c.status)
			}
			msg, knows, other := `msg="request refused"`, &logs[1], &logs[0]
			if c.atA {
				msg, knows, other = `msg="memory error"`, &logs[0], &logs[1]
			} else if strings.HasPrefix(why, "receive: ") {
				msg = `msg="memory error"`
			}
			if log := knows.String(); strings.Count(log, msg) != 1 || !strings.Contains(log, why) {
				t.Errorf("%s and %s are not in the log:\n%s", msg, why, log)
			}
			if strings.Contains(other.String(), why) {
				t.Errorf("the other side says it, too:\n%s", other)
			}
		})
	}
}

// TestK3_CapturesHaveTheLog captures a refused WRITE: the responder's reason and the requester's status are
// in the captures, also if the adapter has no log, or one of another level.
func TestK3_CapturesHaveTheLog(t *testing.T) {
	n, text := NewNetwork(), &lockedLog{}
	var files [2]bytes.Buffer
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n, Capture: &files[0], Log: text.logger(slog.LevelError)}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n, Capture: &files[1]}, ib.RC)
	connect(t, a, b, nil)
	wr := a.write(7, 8, b)
	wr.RKey ^= 0x5500
	must.Do(t, a.qp.PostSend(wr))
	if wc := a.take(t, 1)[0]; wc.Status != ib.WCRemAccessErr {
		t.Fatalf("status %v", wc.Status)
	}
	must.Do(t, errors.Join(a.ctx.Close(), b.ctx.Close()))
	conn := fmt.Sprintf("10.0.0.1/%v-10.0.0.2/%v", a.qp.QPN(), b.qp.QPN())
	for i, want := range []string{
		"completion with error " + conn + " REM_ACCESS_ERR wr_id 7 10.0.0.1",
		"request refused " + conn + "  wr_id  10.0.0.2",
	} {
		r, err := pcapfile.NewReader(&files[i])
		must.Do(t, err)
		found, packets := 0, 0
		for {
			item, err := r.NextItem()
			if errors.Is(err, io.EOF) {
				break
			}
			must.Do(t, err)
			if item.Packet != nil {
				packets++
				continue
			}
			e := item.Entry
			if fmt.Sprintf("%s %s %s wr_id %s %s", e.Get("MSG"), e.Get("CONN"), e.Get("STATUS"), e.Get("WR_ID"), e.Get("ADAPTER")) == want {
				found++
			}
		}
		if found != 1 || packets < 2 {
			t.Errorf("%q is there %d times among %d packets", want, found, packets)
		}
	}
	if text.String() != "" {
		t.Errorf("the log, which has only errors, has\n%s", text)
	}
}

// TestK3_DropsAreLogged sends packets to a queue pair in RESET, and to one that was destroyed. The receiver's
// log says why it drops them.
func TestK3_DropsAreLogged(t *testing.T) {
	n, text := NewNetwork(), &lockedLog{}
	a := newEndpoint(t, Config{Addr: "10.0.0.1", Network: n}, ib.RC)
	b := newEndpoint(t, Config{Addr: "10.0.0.2", Network: n, Log: text.logger(slog.LevelInfo)}, ib.RC)
	quick := func(attr *QPAttr) { attr.Timeout, attr.RetryCnt = 1, 0 }
	connect(t, a, b, quick)
	must.Do(t, b.qp.Modify(&QPAttr{State: ib.RESET}, ib.AttrState))
	must.Do(t, a.qp.PostSend(a.write(1, 8, b)))
	a.take(t, 1)
	text.await(t, "state=RESET cause=state\n")
	old, attr := b.qp.QPN(), a.attrs(b)
	quick(&attr)
	must.Do(t, b.qp.Destroy())
	var err error
	a.qp, err = a.pd.CreateQP(a.init(ib.RC))
	must.Do(t, err)
	a.walk(t, attr, ib.RTS)
	must.Do(t, a.qp.PostSend(a.write(2, 8, b)))
	a.take(t, 1)
	text.await(t, fmt.Sprintf("msg=\"packet dropped\" qp=%v remote=10.0.0.1 psn=0x000064 cause=no_qp\n", old))
}

// await waits until the log contains a text: a requester may have given up before its packet has arrived.
func (l *lockedLog) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(l.String(), want); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("not logged: %q\n%s", want, l)
		}
	}
}
