package explain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

// says returns an entry of an adapter's log; text has names and values of fields in turns.
func says(adapter string, text ...string) *pcapfile.Entry {
	e := &pcapfile.Entry{Fields: []pcapfile.Field{{Name: "ADAPTER", Value: adapter}, {Name: "PID", Value: "1"}}}
	for i := 0; i+1 < len(text); i += 2 {
		e.Fields = append(e.Fields, pcapfile.Field{Name: text[i], Value: text[i+1]})
	}
	return e
}

// with follows a capture, and logs of adapters at its end.
func with(t *testing.T, capture string, entries ...*pcapfile.Entry) *Report {
	t.Helper()
	f := New(Config{})
	at := time.Unix(1_700_000_000, 0)
	record := 0
	if capture != "" {
		file, err := os.ReadFile(captures + capture + ".pcap")
		must.Do(t, err)
		items, err := pcapfile.NewReader(bytes.NewReader(file))
		must.Do(t, err)
		for {
			i, err := items.NextItem()
			if err != nil {
				break
			}
			record++
			at = i.Packet.Time
			f.Take(&i)
		}
	}
	for _, e := range entries {
		record++
		if e.Record, e.Time = record, at; capture == "" {
			e.Time = at.Add(time.Duration(record) * time.Millisecond)
		}
		f.Take(&pcapfile.Item{Entry: e})
	}
	return f.Report()
}

// The ends of the captures of Linux.
const (
	linuxServer = "10.77.0.2"
	linuxClient = "10.77.0.3"
)

// endsOf returns the fields that name the requester's queue pair of a conversation, and the responder's.
func endsOf(t *testing.T, capture string) (req, resp []string) {
	t.Helper()
	r := with(t, capture)
	i := slices.IndexFunc(r.Conversations, func(c Conversation) bool { return c.Service == "RC" })
	c := &r.Conversations[i]
	a, b := c.A, c.B
	if a.QPN == nil || b.QPN == nil {
		t.Fatalf("an end of %s is not known: %v, %v", capture, a, b)
	}
	conn := fmt.Sprintf("%s/%#06x-%s/%#06x", a.Addr, *a.QPN, b.Addr, *b.QPN)
	return []string{"QP", fmt.Sprintf("%#06x", *a.QPN), "CONN", conn}, []string{"QP", fmt.Sprintf("%#06x", *b.QPN), "CONN", conn}
}

// TestK3_Reasons joins a capture of a refused WRITE with what both adapters say about it.
func TestK3_Reasons(t *testing.T) {
	const capture = "errs_bad_rkey_write"
	req, resp := endsOf(t, capture)
	plain := with(t, capture)
	own, far := plain.Conversations[plain.Verdict.found.Conversation-1].A.Addr, plain.Conversations[plain.Verdict.found.Conversation-1].B.Addr
	r := with(t, capture,
		says(far, append([]string{"MSG", "request refused", "CAUSE", "rkey: no region has the key"}, resp...)...),
		says(far, append([]string{"MSG", "packet dropped", "CAUSE", "icrc_errors"}, resp...)...),
		says(own, append([]string{"MSG", "completion with error", "STATUS", "REM_ACCESS_ERR", "WR_ID", "5"}, req...)...),
		says(own, append([]string{"MSG", "completion with error", "STATUS", "REM_ACCESS_ERR", "WR_ID", "6"}, req...)...),
		says(own, append([]string{"MSG", "state changed", "FROM", "RTS", "TO", "ERR", "CAUSE", "NAK"}, req...)...),
	)
	v := r.Verdict
	if v.Cause != plain.Verdict.Cause || !strings.HasSuffix(v.Reason, ": request refused: rkey: no region has the key") || !strings.HasPrefix(v.Reason, far) {
		t.Errorf("the cause is %q, reason %q", v.Cause, v.Reason)
	}
	if len(v.Programs) != 1 || !strings.HasPrefix(v.Programs[0], own) || !strings.HasSuffix(v.Programs[0], ": REM_ACCESS_ERR (10), wr_id 5") {
		t.Errorf("the programs got %q", v.Programs)
	}
	if len(r.Findings) != len(plain.Findings) {
		t.Errorf("the findings are %s, and without the adapters %s", names(r), names(plain))
	}
	var text strings.Builder
	must.Do(t, r.Text(&text, TextOptions{}))
	for _, want := range []string{"reason  ", "programs got  ", "FROM THE ADAPTERS", "last in ERR", "2 times: completion with error REM_ACCESS_ERR: wr_id 5", "state changed: NAK, RTS to ERR"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "requester sees") {
		t.Errorf("what a program should see is told beside what it saw:\n%s", text.String())
	}
}

// toldReport is a report with all that adapters can say.
func toldReport(t *testing.T) *Report {
	t.Helper()
	const capture = "errs_bad_rkey_write"
	req, resp := endsOf(t, capture)
	entries := []*pcapfile.Entry{
		says(linuxServer, append([]string{"MSG", "request refused", "CAUSE", "rkey: no region has the key"}, resp...)...),
		says(linuxClient, append([]string{"MSG", "state changed", "FROM", "RTS", "TO", "SQE", "CAUSE", "x"}, req...)...),
		says(linuxClient, append([]string{"MSG", "completion with error", "STATUS", "REM_ACCESS_ERR", "WR_ID", "5"}, req...)...),
		says(linuxClient, "MSG", "state changed", "EEC", "0x000012", "TO", "ERR"),
	}
	for n := range maxRemarks {
		entries = append(entries, says(linuxClient, append([]string{"MSG", "memory error", "CAUSE", fmt.Sprint(n)}, req...)...))
	}
	return with(t, capture, entries...)
}

// TestK3_Findings shows what adapters say without any packet.
func TestK3_Findings(t *testing.T) {
	const qp, conn = "0x000011", "10.0.0.1/0x000011-10.0.0.2/0x000022"
	for _, c := range []struct {
		name    string
		entries []*pcapfile.Entry
		rule    ruleID
		detail  string
		pages   string
	}{
		{"memory error", []*pcapfile.Entry{
			says("10.0.0.1", "MSG", "memory error", "QP", qp, "CONN", conn, "CAUSE", "payload: no region has the key"),
			says("10.0.0.1", "MSG", "completion with error", "QP", qp, "CONN", conn, "STATUS", "LOC_PROT_ERR", "WR_ID", "5"),
		}, completionError, "10.0.0.1 QP 0x000011: completion with error LOC_PROT_ERR: wr_id 5; payload: no region has the key", "docs/statuses.md#loc_prot_err"},
		{"retries", []*pcapfile.Entry{
			says("10.0.0.1", "MSG", "retries exhausted", "QP", qp, "CONN", conn, "STATUS", "RETRY_EXC_ERR", "WR_ID", "5"),
		}, completionError, "10.0.0.1 QP 0x000011: retries exhausted RETRY_EXC_ERR: wr_id 5", "docs/statuses.md#retry_exc_err"},
		{"EE context", []*pcapfile.Entry{
			says("10.0.0.1", "MSG", "retries exhausted", "EEC", qp, "STATUS", "RETRY_EXC_ERR", "WR_ID", "5"),
		}, completionError, "10.0.0.1 EEC 0x000011: retries exhausted", "docs/statuses.md#retry_exc_err"},
		{"post", []*pcapfile.Entry{
			says("10.0.0.1,10.0.0.9", "MSG", "call failed", "CALL", "ibv_post_send", "ERR", "not now", "QP", qp),
		}, callFailed, "10.0.0.1 QP 0x000011: call failed: ibv_post_send: not now", ""},
		{"queue", []*pcapfile.Entry{
			says("10.0.0.1", "MSG", "asynchronous event", "EVENT", "CQ_ERR", "CQ", "3"),
		}, cqOverrun, "adapter 10.0.0.1: asynchronous event: CQ_ERR, CQ 3", ""},
	} {
		r := with(t, "", c.entries...)
		if r.Packets != 0 || len(r.Findings) != 1 || r.Findings[0].id != c.rule || r.Verdict.Outcome != "failed" {
			t.Errorf("%s: the findings are %q, the verdict %+v", c.name, names(r), r.Verdict)
			continue
		}
		f := r.Findings[0]
		if !strings.HasPrefix(f.Detail, c.detail) || strings.Join(f.ErrorPages, " ") != c.pages || f.First != len(c.entries) || f.At <= 0 != (len(c.entries) == 1) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	// Nothing is wrong with these.
	r := with(t, "",
		says("10.0.0.1", "MSG", "call failed", "CALL", "create QP", "ERR", "too large"),
		says("10.0.0.1", "MSG", "asynchronous event", "EVENT", "COMM_EST", "QP", qp),
		says("10.0.0.1", "MSG", "challenge", "CAUSE", "challenge: NAK", "QP", qp),
		says("10.0.0.1", "MSG", "state changed", "FROM", "RESET", "TO", "INIT", "QP", qp),
		says("no address", "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR"),
		says("", "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR"),
	)
	if len(r.Findings) != 0 || r.Verdict.Outcome != empty || len(r.Told) != 2 || len(r.Told[1].Remarks) != 1 || r.Told[1].State != "INIT" {
		t.Errorf("the findings are %q, the verdict %+v, told %+v", names(r), r.Verdict, r.Told)
	}
}

// TestK3_Drops says why packets got no answer: only drops that are no effect of an error explain it.
func TestK3_Drops(t *testing.T) {
	const capture = "errs_peer_init"
	plain := with(t, capture)
	c := &plain.Conversations[plain.Verdict.found.Conversation-1]
	far := &c.B
	if far.QPN == nil {
		far = &c.A
	}
	own := linuxClient
	if far.Addr == linuxClient {
		own = linuxServer
	}
	qp := fmt.Sprintf("%#06x", *far.QPN)
	conn := fmt.Sprintf("%s/%#06x-%s/0x000abc", far.Addr, *far.QPN, own)
	drop := func(cause, state string) *pcapfile.Entry {
		return says(far.Addr, "MSG", "packet dropped", "CAUSE", cause, "QP", qp, "STATE", state)
	}
	stray := func(from string) *pcapfile.Entry {
		return says(far.Addr, "MSG", "packet dropped", "CAUSE", "no_qp", "QP", qp, "REMOTE", from)
	}
	mine := says(own, "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "WR_ID", "9", "QP", "0x000abc", "CONN", conn)
	for _, x := range []struct {
		name    string
		entries []*pcapfile.Entry
		want    string // the end of the reason
	}{
		{"no queue pair", []*pcapfile.Entry{stray(own), stray(own), mine}, ": packet dropped: the adapter has no such queue pair"},
		{"a stranger's packets", []*pcapfile.Entry{stray("10.9.9.9"), stray("10.9.9.9"), mine}, ""},
		{"one packet", []*pcapfile.Entry{stray(own), mine}, ""},
		{"INIT", []*pcapfile.Entry{drop("state", "INIT"), drop("state", "INIT"), mine}, ": packet dropped: the queue pair is in INIT"},
		{"unknown state", []*pcapfile.Entry{drop("state", ""), drop("state", ""), mine}, ": packet dropped: the state of the queue pair does not take it"},
		{"ERR", []*pcapfile.Entry{drop("state", "ERR"), drop("state", "ERR"), mine}, ""},
		{"duplicate", []*pcapfile.Entry{drop("duplicate", ""), drop("duplicate", ""), mine}, ""},
		{"duplicate first", []*pcapfile.Entry{
			drop("duplicate", ""), drop("duplicate", ""), drop("pkey_violations", ""), drop("pkey_violations", ""), mine,
		}, ": packet dropped: its P_Key is not that of the queue pair"},
	} {
		r := with(t, capture, x.entries...)
		if v := r.Verdict; v.Cause != plain.Verdict.Cause || !strings.HasSuffix(v.Reason, x.want) || (x.want == "") != (v.Reason == "") {
			t.Errorf("%s: %s, reason %q, want %q", x.name, v.Cause, v.Reason, x.want)
		}
		if got := fmt.Sprint(r.Verdict.Programs); got != fmt.Sprintf("[%s QP 0x000abc: RETRY_EXC_ERR (12), wr_id 9]", own) {
			t.Errorf("%s: the programs got %s", x.name, got)
		}
		for _, caveat := range r.Verdict.Caveats {
			if strings.Contains(caveat, "direction") || strings.Contains(caveat, "the capture ends") {
				t.Errorf("%s: not shown: %s", x.name, caveat)
			}
		}
		if x := r.Conversations[plain.Verdict.found.Conversation-1]; x.Paired == "" || x.A.QPN == nil || x.B.QPN == nil {
			t.Errorf("the ends are %v and %v, paired by %q", x.A, x.B, x.Paired)
		}
	}
	// A second queue pair with the same peer: whose requests they are is not known.
	other := says(own, "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "WR_ID", "9", "QP", "0x000abd", "CONN", strings.Replace(conn, "0x000abc", "0x000abd", 1))
	if r := with(t, capture, stray(own), stray(own), mine, other); len(r.Verdict.Programs) != 0 || !strings.Contains(names(r), "completion-error") {
		t.Errorf("with two requesters: %+v", r.Verdict)
	}
}

// TestK3_EndedProcess says that the process of the silent side has ended, if it has before the last packet.
func TestK3_EndedProcess(t *testing.T) {
	const capture = "errs_peer_init"
	c := with(t, capture).Conversations[0]
	qp := fmt.Sprintf("%#06x", *c.B.QPN)
	file, err := os.ReadFile(captures + capture + ".pcap")
	must.Do(t, err)
	for _, late := range []bool{false, true} {
		f := New(Config{})
		r, err := pcapfile.NewReader(bytes.NewReader(file))
		must.Do(t, err)
		logs := func(at time.Time) {
			for _, e := range []*pcapfile.Entry{says(c.B.Addr, "MSG", "state changed", "TO", "RTS", "QP", qp), says(c.B.Addr, "MSG", "adapter gone")} {
				e.Time = at
				f.Take(&pcapfile.Item{Entry: e})
			}
		}
		for n := 0; ; n++ {
			i, err := r.NextItem()
			if errors.Is(err, io.EOF) {
				break
			}
			must.Do(t, err)
			if n == 0 && !late {
				logs(i.Packet.Time)
			}
			f.Take(&i)
		}
		if late {
			logs(f.start.Add(time.Hour))
		}
		want := ": process 1 ended, or closed the adapter, at 0s, before the last packet"
		if why := f.Report().Verdict.Reason; strings.HasSuffix(why, want) == late || late && why != "" {
			t.Errorf("late: %v; the reason is %q", late, why)
		}
	}
}

// hearAll follows entries at one time.
func hearAll(f *Follower, entries ...*pcapfile.Entry) {
	for _, e := range entries {
		e.Time = time.Unix(1_700_000_000, 0)
		f.inside.hear(e, &f.start)
	}
}

// TestK3_Bounds has logs about too many queue pairs, and too much about one.
func TestK3_Bounds(t *testing.T) {
	f := New(Config{})
	for n := range maxTold + 100 {
		hearAll(f, says("10.0.0.1", "MSG", "state changed", "TO", "ERR", "QP", fmt.Sprintf("%#06x", n+2)))
	}
	for n := range 100 {
		hearAll(f, says("10.0.0.1", "MSG", "memory error", "CAUSE", fmt.Sprint(n), "QP", "0x000002"), says("10.0.0.1", "MSG", "sends again", "CAUSE", fmt.Sprint(n), "QP", "0x000002"))
	}
	hearAll(f, says("10.0.0.1", "MSG", "completion with error", "STATUS", "REM_OP_ERR", "QP", "0x000002"))
	for n := range 2 * maxTold {
		hearAll(f, says(fmt.Sprintf("10.1.%d.%d", n>>8, n&255), "MSG", "adapter gone", "CONN", "10.0.0.1/x-/-"))
	}
	r := f.Report()
	if len(r.Told) != maxTold || len(f.inside.first) > maxTold || len(f.inside.gone) > maxTold {
		t.Errorf("logs about %d queue pairs at %d addresses, %d gone", len(r.Told), len(f.inside.first), len(f.inside.gone))
	}
	// A remark of the state, 15 of the memory, those of repeats, and the status.
	if first := r.Told[0]; len(first.Remarks) != maxRemarks+maxDrops+1 || first.More != 200+1-maxRemarks-maxDrops || first.find(failures...) == nil {
		t.Errorf("%d remarks about one, and %d more", len(first.Remarks), first.More)
	}
	var text strings.Builder
	must.Do(t, r.Text(&text, TextOptions{}))
	if lines := strings.Count(text.String(), "\n"); lines > 200 {
		t.Errorf("%d lines", lines)
	}
}

// TestK3_Strangers floods an adapter with packets to queue pairs that do not exist: what its log says about
// others is kept, and the report lists none of them.
func TestK3_Strangers(t *testing.T) {
	f := New(Config{})
	for n := range 2 * maxTold {
		hearAll(f, says("10.0.0.1", "MSG", "packet dropped", "CAUSE", "no_qp", "REMOTE", "10.9.9.9", "QP", fmt.Sprintf("%#06x", n+2)))
	}
	hearAll(f, says("10.0.0.1", "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "QP", "0x000002"))
	r := f.Report()
	if len(f.inside.strays) != maxStrays || len(r.Told) != 1 || len(r.Told[0].Remarks) != 1 || r.Verdict.Cause != "completion-error" {
		t.Errorf("%d strays, told %+v, the cause %q", len(f.inside.strays), r.Told, r.Verdict.Cause)
	}
}

// TestK3_HostileLogs has logs with texts that are no addresses, numbers or lines.
func TestK3_HostileLogs(t *testing.T) {
	f := New(Config{})
	hearAll(f,
		says("fe80::1%\x1b[31m", "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "QP", "2"),
		says("10.0.0.1", "MSG", "\x1b[31mretries", "STATUS", "\x1b[31m", "CAUSE", "\x1b[31m", "QP", "0x99999999999"),
		says("10.0.0.1", "MSG", "state changed", "TO", "\x1b[31m", "FROM", "\x1b[31m", "QP", "3"),
		says("10.0.0.1", "MSG", "state changed", "TO", "ERR", "FROM", "\x1b[31m", "QP", "3"),
	)
	r := f.Report()
	var text strings.Builder
	must.Do(t, errors.Join(r.Text(&text, TextOptions{}), r.JSON(&text)))
	if len(r.Told) != 2 || strings.ContainsRune(text.String(), '\x1b') {
		t.Errorf("told %+v:\n%q", r.Told, text.String())
	}
}

// TestK3_SeveralAddresses pairs a queue pair at the second address of its adapter with its peer.
func TestK3_SeveralAddresses(t *testing.T) {
	told := &Told{key: toldKey{netip.MustParseAddr("10.0.0.3"), 0x22}}
	addrs := adapterAddrs("10.0.0.3,10.0.0.9,nonsense")
	told.meet("10.0.0.5/0x000011-10.0.0.9/0x000022", addrs)
	if want := (toldKey{netip.MustParseAddr("10.0.0.5"), 0x11}); told.peer != want || len(addrs) != 2 {
		t.Errorf("the peer is %v, want %v", told.peer, want)
	}
	told.meet("10.0.0.3/0x000021-10.0.0.9/0x000022", addrs) // another queue pair of the same adapter
	if want := (toldKey{netip.MustParseAddr("10.0.0.3"), 0x21}); told.peer != want {
		t.Errorf("the peer is %v, want %v", told.peer, want)
	}
}

// TestK3_LateNAK has NAKs that may have come too late, or not: the log of the requester says what it got.
func TestK3_LateNAK(t *testing.T) {
	refused, unready := repeatedInVain(1), notReady(0, 1)
	for _, c := range []struct {
		capture string
		change  func(*scene)
		detail  string
		by      string
		log     []string
		want    string
	}{
		{"errs_bad_rkey_write", refused, "WRITE of 100 bytes", "", nil, "refusal-late"},
		{"errs_bad_rkey_write", refused, "WRITE of 100 bytes", linuxClient, []string{"MSG", "completion with error", "STATUS", "REM_ACCESS_ERR"}, "write-refused"},
		{"errs_bad_rkey_write", refused, "WRITE of 100 bytes", linuxClient, []string{"MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR"}, "refusal-late"},
		{"errs_bad_rkey_write", refused, "WRITE of 100 bytes", linuxServer, []string{"MSG", "completion with error", "STATUS", "LOC_LEN_ERR"}, "refusal-late"},
		{"", unready, "2 RNR NAKs", "", nil, "rnr-or-silence"},
		{"", unready, "2 RNR NAKs", linuxClient, []string{"MSG", "retries exhausted", "STATUS", "RNR_RETRY_EXC_ERR"}, "rnr-unresolved"},
		{"", unready, "2 RNR NAKs", linuxClient, []string{"MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR"}, "rnr-or-silence"},
	} {
		s, ends := &scene{t: t}, []string{"QP", "0x000011", "CONN", linuxClient + "/0x000011-" + linuxServer + "/0x000022"}
		if c.capture != "" {
			s = load(t, c.capture)
			req, resp := endsOf(t, c.capture)
			if ends = req; c.by == linuxServer {
				ends = resp
			}
		}
		c.change(s)
		f := New(Config{})
		if c.log != nil {
			e := says(c.by, append(c.log, ends...)...)
			e.Time = s.frames[0].at
			f.inside.hear(e, &f.start)
		}
		r, err := f.Read(bytes.NewReader(s.file()))
		must.Do(t, err)
		if v := r.Verdict; v.Cause != c.want || !strings.Contains(v.Where, c.detail) {
			t.Errorf("the log %q: the cause is %s, %s; want %s", c.log, v.Cause, v.Where, c.want)
		}
	}
}

// TestK3_OtherFailures has a call that failed before a request was refused: the request is the cause.
func TestK3_OtherFailures(t *testing.T) {
	f := New(Config{})
	hearAll(f, says(linuxClient, "MSG", "call failed", "CALL", "modify QP", "ERR", "not this rate", "QP", "0x000099"))
	file, err := os.ReadFile(captures + "errs_bad_rkey_write.pcap")
	must.Do(t, err)
	r, err := f.Read(bytes.NewReader(file))
	must.Do(t, err)
	if r.Verdict.Cause != "write-refused" || !strings.Contains(names(r), "call-failed") {
		t.Errorf("the cause is %s, among %s", r.Verdict.Cause, names(r))
	}
}

// TestStatuses unites what the logs and the packets tell.
func TestStatuses(t *testing.T) {
	const capture = "errs_bad_rkey_write"
	req, _ := endsOf(t, capture)
	for _, c := range []struct {
		entries []*pcapfile.Entry
		want    string
	}{
		{nil, "[REM_ACCESS_ERR]"},
		{[]*pcapfile.Entry{says(linuxClient, append([]string{"MSG", "completion with error", "STATUS", "REM_OP_ERR"}, req...)...)}, "[REM_OP_ERR]"},
		{[]*pcapfile.Entry{says("10.5.5.5", "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "QP", "7")}, "[REM_ACCESS_ERR RETRY_EXC_ERR]"},
	} {
		if got := fmt.Sprint(with(t, capture, c.entries...).Statuses()); got != c.want {
			t.Errorf("the statuses are %s, want %s", got, c.want)
		}
	}
	if got := with(t, "errs_send").Statuses(); len(got) != 0 {
		t.Errorf("of a capture without errors: %v", got)
	}
}

// TestManyConversations pairs many conversations with many logs, in reasonable time.
func TestManyConversations(t *testing.T) {
	r := &Report{}
	f := New(Config{})
	for n := range maxTold {
		qpn := n + 2
		r.Conversations = append(r.Conversations, Conversation{ID: n + 1, Service: "RC", A: End{Addr: "10.0.0.1"}, B: End{Addr: "10.0.0.2", QPN: &qpn}})
		hearAll(f, says("10.0.0.1", "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "QP", fmt.Sprintf("%#06x", n+2),
			"CONN", fmt.Sprintf("10.0.0.1/%#06x-10.0.0.2/%#06x", n+2, n+2)))
	}
	f.inside.conclude(r)
	for i := range r.Conversations {
		if c := &r.Conversations[i]; c.A.QPN == nil || *c.A.QPN != i+2 || !c.heard {
			t.Fatalf("conversation %d has the ends %v and %v", i+1, c.A, c.B)
		}
	}
	if len(r.Findings) != maxTold {
		t.Errorf("%d findings", len(r.Findings))
	}
}

// TestReadAll joins captures of both ends: each packet is in both.
func TestReadAll(t *testing.T) {
	file, err := os.ReadFile(captures + "errs_bad_rkey_write.pcap")
	must.Do(t, err)
	one, err := Read(bytes.NewReader(file), Config{})
	must.Do(t, err)
	both, err := ReadAll([]Capture{captureOf("a", file), captureOf("b", file)}, Config{})
	must.Do(t, err)
	if len(both.Verdict.Caveats) != 0 || both.Clocks != nil {
		t.Errorf("of captures with the same clock: not shown %q, clocks %+v", both.Verdict.Caveats, both.Clocks)
	}
	if both.Verdict.Cause != one.Verdict.Cause || both.Records != 2*one.Records || both.Packets != 2*one.Packets {
		t.Errorf("joined: %d records, %+v; one: %d, %+v", both.Records, both.Verdict, one.Records, one.Verdict)
	}
	cut, err := ReadAll([]Capture{captureOf("a", file), captureOf("b", file[:len(file)-7])}, Config{})
	if err == nil || cut == nil || cut.Verdict.Cause != one.Verdict.Cause {
		t.Errorf("with a damaged one: %v, %+v", err, cut)
	}
	if r, err := ReadAll([]Capture{captureOf("a", file), captureOf("b", []byte("no capture"))}, Config{}); err == nil || r != nil {
		t.Errorf("with what is no capture: %v, %+v", err, r)
	}
}

// captureOf returns a capture in memory.
func captureOf(name string, file []byte) Capture {
	return Capture{name, func() (io.Reader, error) { return bytes.NewReader(file), nil }}
}
