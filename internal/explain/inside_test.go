package explain

import (
	"bytes"
	"fmt"
	"io"
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

// with follows a capture, and what adapters say at its end; they speak one after the other.
func with(t *testing.T, capture string, entries ...*pcapfile.Entry) *Report {
	t.Helper()
	f := New(Config{})
	at := time.Unix(1_700_000_000, 0)
	record := 0
	if capture != "" {
		file, err := os.ReadFile(captures + capture + ".pcap")
		must.Do(t, err)
		items, err := pcapfile.NewItems(bytes.NewReader(file))
		must.Do(t, err)
		for {
			i, err := items.Next()
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
		e.Record, e.Time = record, at.Add(time.Duration(record)*time.Millisecond)
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
		says(far, append([]string{"MSG", "packet dropped", "CAUSE", "state"}, resp...)...),
		says(own, append([]string{"MSG", "completion with error", "STATUS", "REM_ACCESS_ERR", "WR_ID", "5"}, req...)...),
		says(own, append([]string{"MSG", "completion with error", "STATUS", "REM_ACCESS_ERR", "WR_ID", "6"}, req...)...),
		says(own, append([]string{"MSG", "state changed", "FROM", "RTS", "TO", "ERR", "CAUSE", "NAK"}, req...)...),
	)
	v := r.Verdict
	if v.Cause != plain.Verdict.Cause || !strings.HasSuffix(v.Reason, ": request refused: rkey: no region has the key") || !strings.HasPrefix(v.Reason, far) {
		t.Errorf("the cause is %q, exactly %q", v.Cause, v.Reason)
	}
	if len(v.Programs) != 1 || !strings.HasPrefix(v.Programs[0], own) || !strings.HasSuffix(v.Programs[0], ": REM_ACCESS_ERR (10), wr_id 5") {
		t.Errorf("the programs saw %q", v.Programs)
	}
	if len(r.Findings) != len(plain.Findings) {
		t.Errorf("the findings are %s, and without the adapters %s", names(r), names(plain))
	}
	var text strings.Builder
	must.Do(t, r.Text(&text, TextOptions{}))
	for _, want := range []string{"exactly  ", "programs saw  ", "FROM THE ADAPTERS", "last in ERR", "2 times: completion with error REM_ACCESS_ERR: wr_id 5", "state changed: NAK, RTS to ERR"} {
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
	drop := func(cause string) *pcapfile.Entry {
		return says(far.Addr, "MSG", "packet dropped", "CAUSE", cause, "QP", qp)
	}
	to := func(state string) *pcapfile.Entry {
		return says(far.Addr, "MSG", "state changed", "FROM", "RESET", "TO", state, "QP", qp)
	}
	mine := says(own, "MSG", "retries exhausted", "STATUS", "RETRY_EXC_ERR", "WR_ID", "9", "QP", "0x000abc", "CONN", conn)
	for _, x := range []struct {
		name    string
		entries []*pcapfile.Entry
		want    string // the end of the reason
	}{
		{"no queue pair", []*pcapfile.Entry{drop("no_qp"), mine}, ": packet dropped: the adapter has no such queue pair"},
		{"INIT", []*pcapfile.Entry{to("INIT"), drop("state"), mine}, ": packet dropped: the queue pair is in INIT"},
		{"unknown state", []*pcapfile.Entry{drop("state"), mine}, ": packet dropped: the state of the queue pair does not take it"},
		{"ERR", []*pcapfile.Entry{to("ERR"), drop("state"), mine}, ""},
		{"duplicate", []*pcapfile.Entry{drop("duplicate"), mine}, ""},
		{"duplicate first", []*pcapfile.Entry{drop("duplicate"), drop("pkey_violations"), mine}, ": packet dropped: its P_Key is not that of the queue pair"},
	} {
		r := with(t, capture, x.entries...)
		if v := r.Verdict; v.Cause != plain.Verdict.Cause || !strings.HasSuffix(v.Reason, x.want) || (x.want == "") != (v.Reason == "") {
			t.Errorf("%s: %s, exactly %q, want %q", x.name, v.Cause, v.Reason, x.want)
		}
		if got := fmt.Sprint(r.Verdict.Programs); got != fmt.Sprintf("[%s QP 0x000abc: RETRY_EXC_ERR (12), wr_id 9]", own) {
			t.Errorf("%s: the programs saw %s", x.name, got)
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
	other := says(own, "MSG", "state changed", "TO", "RTS", "QP", "0x000abd", "CONN", strings.Replace(conn, "0x000abc", "0x000abd", 1))
	if r := with(t, capture, drop("no_qp"), mine, other); len(r.Verdict.Programs) != 0 || !strings.Contains(names(r), "completion-error") {
		t.Errorf("with two requesters: %+v", r.Verdict)
	}
}

// TestK3_EndedProcess says that the process of the silent side has ended.
func TestK3_EndedProcess(t *testing.T) {
	f := New(Config{})
	file, err := os.ReadFile(captures + "errs_bad_rkey_write.pcap")
	must.Do(t, err)
	req, resp := endsOf(t, "errs_bad_rkey_write")
	items, err := pcapfile.NewItems(bytes.NewReader(file))
	must.Do(t, err)
	for n := 0; ; n++ {
		i, err := items.Next()
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		if n == 0 {
			for _, e := range []*pcapfile.Entry{
				says(linuxClient, append([]string{"MSG", "state changed", "TO", "RTS"}, req...)...), says(linuxServer, append([]string{"MSG", "state changed", "TO", "RTS"}, resp...)...),
				says(linuxServer, "MSG", "adapter gone"),
			} {
				e.Time = i.Packet.Time
				f.Take(&pcapfile.Item{Entry: e})
			}
		}
		f.Take(&i)
	}
	r := f.Report()
	c := &r.Conversations[r.Verdict.found.Conversation-1]
	if why := r.Verdict.Reason; !strings.Contains(why, ": process 1 ended, or closed the adapter, at 0s, before the last packet") || !strings.HasPrefix(why, linuxServer) {
		t.Errorf("exactly %q, of %v", why, c)
	}
}

// TestK3_Bounds has an adapter speak of too many queue pairs, and say too much about one.
func TestK3_Bounds(t *testing.T) {
	f := New(Config{})
	at := time.Unix(1_700_000_000, 0)
	for n := range maxTold + 100 {
		e := says("10.0.0.1", "MSG", "state changed", "TO", "ERR", "QP", fmt.Sprintf("%#06x", n+2))
		e.Time = at
		f.inside.hear(e, &f.start)
	}
	for n := range 100 {
		e := says("10.0.0.1", "MSG", "memory error", "CAUSE", fmt.Sprint(n), "QP", "0x000002")
		e.Time = at
		f.inside.hear(e, &f.start)
	}
	for n := range 3 * maxAddrs {
		e := says(fmt.Sprintf("10.0.1.%d,10.0.2.%d", n+1, n+1), "MSG", "state changed", "TO", "ERR", "QP", "7", "CONN", "10.0.0.1/x-/-")
		e.Time = at
		f.inside.hear(e, &f.start)
	}
	r := f.Report()
	if len(r.Told) != maxTold || len(f.inside.of) > maxAddrs {
		t.Errorf("told of %d queue pairs at %d addresses", len(r.Told), len(f.inside.of))
	}
	if first := r.Told[0]; len(first.Remarks) != maxRemarks || first.More != 100+1-maxRemarks {
		t.Errorf("%d remarks about one, and %d more", len(first.Remarks), first.More)
	}
	var text strings.Builder
	must.Do(t, r.Text(&text, TextOptions{}))
	if lines := strings.Count(text.String(), "\n"); lines > 200 {
		t.Errorf("%d lines", lines)
	}
}

// TestReadAll joins captures of both ends: each packet is in both.
func TestReadAll(t *testing.T) {
	file, err := os.ReadFile(captures + "errs_bad_rkey_write.pcap")
	must.Do(t, err)
	one, err := Read(bytes.NewReader(file), Config{})
	must.Do(t, err)
	both, err := ReadAll([]io.Reader{bytes.NewReader(file), bytes.NewReader(file)}, Config{})
	must.Do(t, err)
	if both.Verdict.Cause != one.Verdict.Cause || both.Records != 2*one.Records || both.Packets != 2*one.Packets {
		t.Errorf("joined: %d records, %+v; one: %d, %+v", both.Records, both.Verdict, one.Records, one.Verdict)
	}
	cut, err := ReadAll([]io.Reader{bytes.NewReader(file), bytes.NewReader(file[:len(file)-7])}, Config{})
	if err == nil || cut == nil || cut.Verdict.Cause != one.Verdict.Cause {
		t.Errorf("with a damaged one: %v, %+v", err, cut)
	}
	if r, err := ReadAll([]io.Reader{bytes.NewReader(file), strings.NewReader("no capture")}, Config{}); err == nil || r != nil {
		t.Errorf("with what is no capture: %v, %+v", err, r)
	}
}
