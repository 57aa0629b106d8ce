package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/counters"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/trace"
	"github.com/softhca/softhca/mad"
	"github.com/softhca/softhca/roce"
)

// journal is a log without times, and its clock.
type journal struct {
	*Log
	text  bytes.Buffer
	clock time.Duration
}

func newJournal(format string, level slog.Level) *journal {
	j := new(journal)
	out, err := NewLogger(&j.text, format, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	if err != nil {
		panic(err)
	}
	j.Log = New(out, nil)
	j.now = func() time.Duration { return j.clock }
	return j
}

// take returns what was logged since the last call.
func (j *journal) take() string {
	defer j.text.Reset()
	return j.text.String()
}

var here, there = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// of returns a record of a connected queue pair.
func of(r trace.Record) *trace.Record {
	r.QPN, r.Peer, r.Local, r.Remote = 0x22, 0x11, there, here
	return &r
}

// packet returns a record of a NAK.
func packet() *trace.Record {
	return &trace.Record{
		Kind: trace.PacketIn, QPN: 0x22, PSN: ib.NewPSN(7), Len: 20,
		Header: [trace.HeaderBytes]byte{0: byte(roce.RCAcknowledge), 12: byte(roce.NAKRemoteAccess), 15: 3},
	}
}

// TestW1_OneLineForEachEvent checks the line and the level of each kind of records.
func TestW1_OneLineForEachEvent(t *testing.T) {
	const pair, conn = "qp=0x000022 ", "qp=0x000022 conn=10.0.0.1/0x000011-10.0.0.2/0x000022 "
	for _, c := range []struct {
		r    *trace.Record
		want string
	}{
		{packet(), `level=DEBUG msg="packet received" ` + pair + "opcode=RC_ACKNOWLEDGE psn=0x000007 len=20 syndrome=NAK_REMOTE_ACCESS msn=3"},
		{of(trace.Record{Kind: trace.Completion, WRID: 5}), "level=DEBUG msg=completed " + conn + "wr_id=5 status=SUCCESS"},
		{of(trace.Record{Kind: trace.Completion, Status: ib.WCWRFlushErr}), `level=DEBUG msg="completion with error" ` + conn + "wr_id=0 status=WR_FLUSH_ERR"},
		{of(trace.Record{Kind: trace.Completion, Status: ib.WCRemAccessErr}), `level=WARN msg="completion with error" ` + conn + "wr_id=0 status=REM_ACCESS_ERR"},
		{of(trace.Record{Kind: trace.Completion, Status: ib.WCRetryExcErr}), `level=WARN msg="retries exhausted" ` + conn + "wr_id=0 status=RETRY_EXC_ERR"},
		{of(trace.Record{Kind: trace.Completion, Status: ib.WCRNRRetryExcErr}), `level=WARN msg="retries exhausted" ` + conn + "wr_id=0 status=RNR_RETRY_EXC_ERR"},
		{of(trace.Record{Kind: trace.State, From: ib.INIT, To: ib.RTR, Cause: "modify"}), `level=INFO msg="state changed" ` + conn + "from=INIT to=RTR cause=modify"},
		{of(trace.Record{Kind: trace.Retry, PSN: ib.NewPSN(9), Cause: "timeout"}), `level=INFO msg="sends again" ` + conn + "psn=0x000009 cause=timeout"},
		{of(trace.Record{Kind: trace.Drop, PSN: ib.NewPSN(9), Cause: "bad P_Key"}), `level=INFO msg="packet dropped" ` + conn + `psn=0x000009 cause="bad P_Key"`},
		{of(trace.Record{Kind: trace.Refusal, PSN: ib.NewPSN(9), Cause: "why"}), `level=WARN msg="request refused" ` + conn + "psn=0x000009 cause=why"},
		{of(trace.Record{Kind: trace.MemoryError, Cause: "why"}), `level=WARN msg="memory error" ` + conn + "cause=why"},
		{of(trace.Record{Kind: trace.Event, Event: ib.EventCommEst}), `level=INFO msg="asynchronous event" ` + conn + "event=COMM_EST"},
		{of(trace.Record{Kind: trace.Event, Event: ib.EventQPFatal}), `level=WARN msg="asynchronous event" ` + conn + "event=QP_FATAL"},
		{&trace.Record{Kind: trace.State, QPN: 0x22, EEC: true, To: ib.INIT}, `level=INFO msg="state changed" eec=0x000022 from=RESET to=INIT`},
		{&trace.Record{Kind: trace.Fault, QPN: 0x22, Cause: "fail op=PostSend"}, `level=INFO msg="fault injected" ` + pair + `cause="fail op=PostSend"`},
		{of(trace.Record{Kind: trace.Connection, Change: trace.Established, Service: mad.IPServiceID(mad.PSTCP, 7471)}), `level=INFO msg="connection established" ` + conn + "service=tcp:7471"},
		{of(trace.Record{Kind: trace.Connection, Change: trace.RejectedBy, Cause: "consumer reject"}), `level=WARN msg="connection rejected by the peer" ` + conn + `cause="consumer reject"`},
		{&trace.Record{Kind: trace.Connection, Change: trace.Rejected, QPN: 1, Remote: here}, `level=INFO msg="connection rejected" qp=0x000001 remote=10.0.0.1`},
		{of(trace.Record{Kind: trace.Connection, Change: trace.Unanswered}), `level=WARN msg="connection unanswered" ` + strings.TrimSuffix(conn, " ")},
	} {
		j := newJournal(Text, slog.LevelDebug)
		j.Record(c.r)
		if got := j.take(); got != c.want+"\n" {
			t.Errorf("%v:\n got %swant %s", c.r, got, c.want)
		}
		quiet := newJournal(Text, slog.LevelError)
		if quiet.Record(c.r); quiet.text.Len() > 0 {
			t.Errorf("at level error: %s", quiet.take())
		}
	}
	j := newJournal(Text, slog.LevelInfo)
	j.Event(ib.EventCQErr, slog.Uint64("cq", 3))
	if got := j.take(); got != "level=WARN msg=\"asynchronous event\" event=CQ_ERR cq=3\n" {
		t.Error(got)
	}
}

// TestConnectionHasOneName checks that both ends name their connection alike, whichever address or
// number is smaller, and also between two queue pairs of one address.
func TestConnectionHasOneName(t *testing.T) {
	for _, c := range []struct {
		a, b netip.Addr
		p, q ib.QPN
	}{{here, there, 9, 8}, {there, here, 8, 9}, {here, here, 9, 8}, {here, netip.MustParseAddr("fd00::1"), 1, 2}} {
		a, b := Connection(c.a, c.p, c.b, c.q), Connection(c.b, c.q, c.a, c.p)
		if a != b || strings.Count(a, "/") != 2 {
			t.Errorf("%s and %s", a, b)
		}
	}
	if Connection(here, 9, here, 8) == Connection(here, 9, there, 8) {
		t.Error("two connections have one name")
	}
}

// TestLinesAreLimited fills the limit of one sort of events: later ones are left out and counted, in
// the next line and at the end. Other sorts, and what Debug logs, are not concerned.
func TestLinesAreLimited(t *testing.T) {
	j := newJournal(JSON, slog.LevelDebug)
	failed := of(trace.Record{Kind: trace.Completion, Status: ib.WCRemAccessErr})
	for range maxBurst + 30 {
		j.Record(failed)
		j.Record(of(trace.Record{Kind: trace.Completion}))
	}
	if got := j.take(); strings.Count(got, "REM_ACCESS_ERR") != maxBurst || strings.Count(got, "SUCCESS") != maxBurst+30 || strings.Contains(got, "left_out") {
		t.Fatalf("logged:\n%s", got)
	}
	j.Record(of(trace.Record{Kind: trace.Completion, Status: ib.WCRemOpErr}))
	if got := j.take(); !strings.Contains(got, "REM_OP_ERR") {
		t.Errorf("another status is left out: %q", got)
	}
	j.clock += interval
	for range 2 {
		j.Record(failed)
	}
	var line struct {
		Status  string
		LeftOut uint64 `json:"left_out"`
	}
	must.Do(t, json.Unmarshal([]byte(j.take()), &line)) // one line
	if line.Status != "REM_ACCESS_ERR" || line.LeftOut != 30 {
		t.Errorf("after a pause: %+v", line)
	}
	j.Close()
	if got := j.take(); got != `{"level":"WARN","msg":"events left out","event":"completion with error REM_ACCESS_ERR","left_out":1}`+"\n" {
		t.Errorf("at the end: %s", got)
	}
	j.Close()
	j.clock += time.Hour
	for range maxBurst + 1 {
		j.Record(failed)
	}
	if got := strings.Count(j.take(), "\n"); got != maxBurst {
		t.Errorf("after an hour %d lines at once", got)
	}
	(*Log)(nil).Close()
}

// TestFailedCalls logs calls that failed, up to the limit.
func TestFailedCalls(t *testing.T) {
	j := newJournal(Text, slog.LevelInfo)
	j.Call("modify QP", errors.New("not now"), slog.String("qp", "0x000022"))
	if got := j.take(); got != `level=INFO msg="call failed" call="modify QP" err="not now" qp=0x000022`+"\n" {
		t.Errorf("logged %q", got)
	}
	for range maxBurst + 2 {
		j.Call("modify QP", errors.New("not now"))
	}
	if n := strings.Count(j.take(), "\n"); n != maxBurst-1 {
		t.Errorf("%d more lines at once, want %d", n, maxBurst-1)
	}
	j.clock += interval
	j.Call("modify QP", errors.New("not now"))
	if got := j.take(); !strings.HasSuffix(got, " left_out=3\n") {
		t.Errorf("later: %q", got)
	}
	j.Call("modify QP", errors.New("not now"))
	j.Close()
	if got := j.take(); got != `level=INFO msg="events left out" event="call failed" left_out=1`+"\n" {
		t.Errorf("at the end: %q", got)
	}
	quiet := newJournal(Text, slog.LevelWarn)
	quiet.Call("modify QP", errors.New("not now"))
	(*Log)(nil).Call("modify QP", errors.New("not now"))
	if got := quiet.take(); got != "" {
		t.Errorf("at level warn: %q", got)
	}
}

// TestWholeLog writes to an unlimited logger, alone and together with a limited one.
func TestWholeLog(t *testing.T) {
	for _, both := range []bool{false, true} {
		j, whole := newJournal(Text, slog.LevelWarn), newJournal(Text, slog.LevelInfo)
		out := j.out
		if !both {
			out = nil
		}
		l := New(out, whole.out)
		for range 3 * maxBurst {
			l.Record(of(trace.Record{Kind: trace.Completion, Status: ib.WCRetryExcErr}))
			l.Record(of(trace.Record{Kind: trace.State, To: ib.INIT}))
			l.Record(of(trace.Record{Kind: trace.Completion}))
			l.Call("modify QP", errors.New("not now"))
		}
		l.Event(ib.EventPortErr)
		l.Close()
		if n := strings.Count(whole.take(), "\n"); n != 9*maxBurst+1 {
			t.Errorf("%d lines without a limit, want %d", n, 9*maxBurst+1)
		}
		if n := strings.Count(j.take(), "\n"); both && n != maxBurst+2 || !both && n != 0 {
			t.Errorf("%d lines with limits", n)
		}
		if l.Detailed() {
			t.Error("it takes packets")
		}
	}
}

// TestDropsOfOneCause drops many packets for one cause: those for others are logged all the same.
func TestDropsOfOneCause(t *testing.T) {
	j := newJournal(Text, slog.LevelInfo)
	for range 10 * maxBurst {
		j.Record(of(trace.Record{Kind: trace.Drop, Cause: "no_qp"}))
	}
	j.take()
	for d := range counters.NumDrops {
		j.Record(of(trace.Record{Kind: trace.Drop, From: ib.INIT, Cause: d.String()}))
		if got := j.take(); strings.Contains(got, "cause="+d.String()) != (d != counters.DropNoQP) || strings.Contains(got, "state=INIT") != (d == counters.DropState) {
			t.Errorf("%v: logged %q", d, got)
		}
	}
}

// TestLimitsWithThreads logs from several threads: each event is logged or counted.
func TestLimitsWithThreads(t *testing.T) {
	const threads, each = 4, 1000
	j := newJournal(Text, slog.LevelInfo)
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			for range each {
				j.Record(of(trace.Record{Kind: trace.Drop, Cause: "state"}))
			}
		})
	}
	group.Wait()
	j.Close()
	got := j.take()
	if want := fmt.Sprintf("msg=\"events left out\" event=\"packet dropped\" left_out=%d\n", threads*each-maxBurst); strings.Count(got, "\n") != maxBurst+1 || !strings.HasSuffix(got, want) {
		t.Errorf("logged:\n%s", got)
	}
}

// TestSortsOfEvents checks that each kind has a message, and that numbers beyond the table share a
// limit.
func TestSortsOfEvents(t *testing.T) {
	for k := range trace.NumKinds {
		if sortOf(recordOf(k, 1)) == "" {
			t.Errorf("kind %d has no message", k)
		}
	}
	j := newJournal(Text, slog.LevelInfo)
	j.Record(&trace.Record{Kind: trace.Event, Event: 255})
	j.Record(&trace.Record{Kind: trace.Completion, Status: 255})
	if got := j.take(); strings.Count(got, "\n") != 2 {
		t.Error(got)
	}
}

func TestLevelsAndFormats(t *testing.T) {
	if level, err := Level("debug"); level != slog.LevelDebug || err != nil {
		t.Errorf("%v, %v", level, err)
	}
	if level, err := Level(""); level != slog.LevelWarn || err != nil {
		t.Errorf("%v, %v", level, err)
	}
	if _, err := Level("loud"); err == nil || err.Error() != `"loud": want debug, info, warn or error` {
		t.Error(err)
	}
	if err := CheckFormat("xml"); err == nil || err.Error() != `"xml": want text or json` {
		t.Error(err)
	}
	if log, err := NewLogger(new(bytes.Buffer), "xml", nil); log == nil || err == nil {
		t.Errorf("%v, %v", log, err)
	}
	if newJournal(Text, slog.LevelInfo).Detailed() || !newJournal(Text, slog.LevelDebug).Detailed() {
		t.Error("only a log at level debug is detailed")
	}
}
