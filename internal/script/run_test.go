package script

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
)

const head = "# title: t\n# covers: E1\n"

// TestReport shows what Run tells a program about a script.
func TestReport(t *testing.T) {
	text := `# title: a flush
# covers: Q19, E3
# status: WR_FLUSH_ERR
# provoked: modify to ERR
# requester: a flush error
# responder: nothing
mr m
qp a RC
walk a ERR
    a: RESET -> INIT -> RTR -> RTS -> ERR (modify)
post a SEND id=7 m:8
    wc a 7 WR_FLUSH_ERR
`
	r, err := Run("t.qp", text)
	must.Do(t, err)
	if r.Text != text || r.Steps != 4 {
		t.Errorf("%d steps and text\n%s", r.Steps, r.Text)
	}
	if r.Title != "a flush" || !slices.Equal(r.Covers, []string{"Q19", "E3"}) || r.Provoked != "modify to ERR" ||
		r.Requester != "a flush error" || r.Responder != "nothing" {
		t.Errorf("header %+v", r.Header)
	}
	if !slices.Equal(r.Statuses, []ib.WCStatus{ib.WCWRFlushErr}) || len(r.Events) != 0 {
		t.Errorf("statuses %v, events %v", r.Statuses, r.Events)
	}
}

// TestMismatch shows that everything which happens must be in the script, and
// nothing else, and that the report has what did happen.
func TestMismatch(t *testing.T) {
	for why, body := range map[string]string{
		"a move that is not told":       "qp a RC\nwalk a INIT\n",
		"a move to another state":       "qp a RC\nwalk a INIT\n    a: RESET -> RTR (modify)\n",
		"a packet too many":             "pd p\n    > a RC_SEND_ONLY psn=200\n",
		"a refusal that is not told":    "qp a RC\nmodify a RTS\n",
		"memory that changes":           "mr m\nqp a RC\nwalk a RTR\n    a: RESET -> INIT -> RTR (modify)\n< a RDMA_WRITE_ONLY ackreq=0 va=m data=x\n    event a COMM_EST\n    count: rx_write_requests +1\n",
		"a counter that changes":        "qp a RC\n< a SEND_ONLY corrupt=0\n",
		"a drop":                        "qp a RC\n< a SEND_ONLY\n",
		"an instant that is another":    "qp a RC\n+5ms\nwalk a INIT\n    @4ms\n    a: RESET -> INIT (modify)\n",
		"output after the wrong step":   "qp a RC\nwalk a INIT\nwalk a RTR\n    a: RESET -> INIT -> RTR (modify)\n",
		"a message that is not told":    "conn c\nconnect c tcp:1\n    c: IDLE -> REQ_SENT (connect)\n",
		"a message with other fields":   "conn c\n< c DREQ remote=1\n    > c DREP comm=0x1 remote=0x5002\n",
		"a state of a connection":       "conn c\n< c REQ\n    > c REJ remote=0x5001 message=REQ reason=8 (invalid service id)\nlisten l tcp:7471\n< c REQ again\n    event c REQ_RECEIVED\n",
		"an event of a connection":      "conn c\nlisten l tcp:7471\n< c REQ\n    c: IDLE -> REQ_RCVD (REQ)\n",
		"a count of messages":           "conn c\n< c RTU\n",
		"a completion that is not told": "mr m\nqp a RC\nwalk a ERR\n    a: RESET -> INIT -> RTR -> RTS -> ERR (modify)\npost a SEND id=1 m:8\n",
	} {
		r, err := Run("t.qp", head+body)
		var m *Mismatch
		if !errors.As(err, &m) {
			t.Errorf("%s passes: %v", why, err)
			continue
		}
		if r, err := Run("t.qp", r.Text); err != nil {
			t.Errorf("%s: the script as rewritten fails: %v\n%s", why, err, r.Text)
		}
	}
}

// TestHeader shows that a header which is not borne out fails the script.
func TestHeader(t *testing.T) {
	for why, text := range map[string]string{
		"no title":                        "# covers: E1\npd p\n",
		"no requirement":                  "# title: t\npd p\n",
		"an empty title":                  "# title:\n# covers: E1\npd p\n",
		"a status that did not occur":     head + "# status: RETRY_EXC_ERR\n# provoked: not\npd p\n",
		"an event that did not occur":     head + "# event: QP_FATAL\n# provoked: not\npd p\n",
		"a status without the provoking":  head + "# status: WR_FLUSH_ERR\nmr m\nqp a RC\nwalk a ERR\n    a: RESET -> INIT -> RTR -> RTS -> ERR (modify)\npost a SEND id=1 m:8\n    wc a 1 WR_FLUSH_ERR\n",
		"SUCCESS, which is no way to err": head + "# status: SUCCESS\n# provoked: yes\npd p\n",
	} {
		if _, err := Run("t.qp", text); err == nil {
			t.Errorf("%s: the script passes", why)
		}
	}
}

// TestScriptErrors shows that the error about an invalid script has file, line
// and step, with a hint.
func TestScriptErrors(t *testing.T) {
	for text, want := range map[string]string{
		"wolk a":                           `t.qp:3: wolk a: there is no command wolk; did you mean walk?`,
		"    > a":                          `t.qp:3: output without a step before it`,
		"& pd p":                           `t.qp:3: & pd p: & joins`,
		"qp a RX":                          `there is no queue pair type RX; did you mean RC?`,
		"qp a RC sendwr=3":                 `there is no sendwr= here; did you mean send_wr?`,
		"qp a RC big":                      `"big" is not understood here`,
		"qp a RC\nmodify a INITT":          `t.qp:4: modify a INITT: there is no state INITT; did you mean INIT?`,
		"qp a RC\nmodify a timout=3":       `did you mean timeout?`,
		"modify nobody INIT":               `there is no pair called "nobody"`,
		"mr m\nmr m":                       `m exists`,
		"mr 1m":                            `"1m" is no name for an object`,
		"mr m access=remote_wrote":         `did you mean remote_write?`,
		"mr m len=1K len=2K":               `len is given twice`,
		"mr m len=70M":                     `at most`,
		"mr m\nfill m+4090 a*16":           `do not fit`,
		"mr m\nfill m abc":                 `"abc" is no data`,
		`mr m` + "\n" + `fill m "abc`:      `a quote is not closed`,
		"qp a RC\n< a SEND_ONY":            `did you mean SEND_ONLY?`,
		"qp a RC\n< a SEND_ONLY psn=x":     `psn: "x" is no number`,
		"qp a RC\n< a SEND_ONLY data=a*b":  `want a count after *`,
		"qp a RC\n< a SEND_ONLY pad=9":     `more than 2 bits hold`,
		"qp a RC\npost a SEND m:8":         `want id=N`,
		"qp a RC\npost a SEND id=3..1":     `no range`,
		"qp a RC\npost a SEND id=1..65537": `no range of at most 65536`,
		"+1000h1ns":                        `want + and a duration`,
		"qp a RC\npost a SENT id=1":        `did you mean SEND?`,
		"qp a RC\npost a SEND id=1 z:8":    `there is no region called "z"`,
		"qp a RC\nwalk a SQE":              `walk leads to`,
		"qp a RC\nwalk a INIT timeout=3":   `no step of this walk takes TIMEOUT`,
		"pd p\nadapter":                    `this command comes first`,
		"+5 minutes":                       `want + and a duration`,
		"+next":                            `no timer runs`,
		"net off":                          `want blocked or open`,
		"batch 100":                        `a batch has`,
		"destroy nothing":                  `there is nothing called "nothing"`,
		"recv nobody id=1":                 `there is no queue pair or shared receive queue`,
		"accept nobody":                    `there is no connection called "nobody"`,
		"conn c qp=nobody":                 `there is no pair called "nobody"`,
		"conn c\nconnect c tcp":            `"tcp" is no service`,
		"conn c\nconnect c tpc:1":          `did you mean tcp?`,
		"conn c\nconnect c tcp:70000":      `"70000" is no port`,
		"conn c\nconnect c tcp:1 mtu=999":  `want a path MTU`,
		"conn c\n< c REX":                  `there is no message REX; did you mean REQ?`,
		"conn c\n< c REQ retry=8":          `more than 3 bits hold`,
		"conn c\n< c REQ retries=1":        `there is no retries= here`,
		"conn c\n< c REQ private=a*93":     `93 bytes do not fit the 92`,
		"conn c\n< c REQ srq=2":            `want 0 or 1`,
		"conn c\n< c REQ again":            `the peer has not sent a REQ`,
		"conn c\n< c REQ comm=d":           `there is no connection called "d"`,
		"conn c\n< c REJ reason=custom":    `there is no custom`,
		"conn c\nreject c consumer_rejct":  `did you mean consumer_reject?`,
		"conn c\nmra c 256":                `256 is no code of time`,
		"conn c\nmove c RTR":               `c has no queue pair`,
		"conn c\ndestroy c":                `c has no consumer`,
		"< QP1 MAD class=XY":               `there is no XY`,
		"< QP1 MAD data=a*233":             `233 bytes do not fit the 232`,
		"listen l tcp:1 forgets":           `did you mean forget?`,
	} {
		_, err := Run("t.qp", head+text+"\n")
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// TestData shows that what a summary shows is what parseData reads.
func TestData(t *testing.T) {
	for text, want := range map[string]string{
		"a*256,b*88":        "a*256,b*88",
		`"hello"`:           `"hello"`,
		"0x00*8":            "0x00*8",
		"0x0102,x*9":        "0x0102,x*9",
		"a,a,a,b,b,b":       `"aaabbb"`,
		`"a,b",x*4`:         `0x612c62,x*4`,
		"0x2c*5,0x22*5,z*4": "0x2c*5,0x22*5,z*4",
		"":                  "",
	} {
		b, err := parseData(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ShowData(b)
		if got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
		if again, err := parseData(got); err != nil || string(again) != string(b) {
			t.Errorf("%s is read as %q: %v", got, again, err)
		}
	}
	b, err := parseData("a,b,c*4,d,e*4,f,g*4,h,i*4,j,k*4,l,m*4,n,o*4,p")
	if err != nil || !strings.HasPrefix(ShowData(b), "37_bytes(crc32=") {
		t.Errorf("many terms are shown as %s (%v), want a number and a checksum", ShowData(b), err)
	}
	long := strings.Repeat("ab", maxLiteral/2)
	if got := ShowData([]byte(long)); got != `"`+long+`"` {
		t.Errorf("%d bytes are shown as %s", len(long), got)
	}
	if got := ShowData([]byte(long + "c")); !strings.HasPrefix(got, "33_bytes(crc32=") {
		t.Errorf("%d bytes are shown as %s, want a number and a checksum", len(long)+1, got)
	}
	if got := ShowData(bytes.Repeat([]byte("aaaabbbb"), maxTerms/2)); strings.Count(got, ",") != maxTerms-1 {
		t.Errorf("%d terms are shown as %s", maxTerms, got)
	}
}
