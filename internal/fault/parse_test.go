package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestExamples parses every example of the catalogue and finds it canonical,
// explained, and of its own action.
func TestExamples(t *testing.T) {
	for a := range NumActions {
		rules, err := Parse(a.Example())
		if err != nil || len(rules) != 1 {
			t.Errorf("the example of %v is no rule: %v", a, err)
			continue
		}
		if r := rules[0]; r.Action != a || r.Explain() == "" || a.Text() == "" {
			t.Errorf("the example of %v is of %v and explained as %q", a, r.Action, r.Explain())
		}
	}
	for p := range NumParams {
		if p.String() == "" || p.Text() == "" {
			t.Errorf("parameter %d has no name or no text", p)
		}
	}
}

func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		"drop nth=3 op=RDMA_WRITE_MIDDLE dir=out": "drop nth=3 op=RDMA_WRITE_MIDDLE dir=out",
		"drop dir=out nth=0x10":                   "drop nth=16 dir=out",
		"dup p=1e-2":                              "dup p=0.01",
		"drop nth=010":                            "drop nth=10",
		"drop nth=1 op=REP,SIDR":                  "drop nth=1 op=REP,SIDR",
		"delay 5000us op=ACK":                     "delay 5ms op=ACK",
		"delay time=1s":                           "delay 1s",
		"corrupt byte=-4 reseal xor=0x80":         "corrupt byte=-4 xor=128 reseal",
		"truncate 20":                             "truncate 20",
		"rate 1500kbit/s queue=10":                "rate 1500kbit/s queue=10",
		"partition after=2s for=1s":               "partition after=2s for=1s",
		"nak RNR qpn=0x1234":                      "nak RNR qpn=4660",
		"event type=PORT_ERR after=1500ms":        "event PORT_ERR after=1.5s",
		"drop after=1s path=primary":              "drop after=1s path=primary",
		"drop src=::ffff:10.0.0.1 dst=fd00::0001": "drop src=10.0.0.1 dst=fd00::1",
		"  \t # nothing\n;; ;drop # all \r\n":     "drop",
	} {
		rules, err := Parse(text)
		if err != nil || len(rules) != 1 {
			t.Errorf("%q: %d rules, %v", text, len(rules), err)
			continue
		}
		if got := rules[0].String(); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestSeveralRules(t *testing.T) {
	rules, err := Parse("# a bad network\ndrop p=0.01; dup p=0.02 # both ways\n\ndelay 1ms dir=both")
	if err != nil || len(rules) != 3 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	if rules[0].Action != Drop || rules[1].Action != Dup || rules[2].Action != Delay {
		t.Errorf("the rules are %v", rules)
	}
	if _, err := Parse(strings.Repeat("drop;", MaxRules)); err != nil {
		t.Errorf("%d rules are refused: %v", MaxRules, err)
	}
}

// TestErrors checks the text of errors, to the character.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"dorp", "unknown fault \"dorp\"; did you mean drop?\n  dorp\n  ^"},
		{"boil", "unknown fault \"boil\"; want drop, dup, delay, corrupt, truncate, reorder, rate, partition, gone, kill, stop, reject, rnr, nak, wc, bindfail, fail, qp, fillcq or event\n  boil\n  ^"},
		{"drop nht=3", "drop has no \"nht\"; did you mean nth?\n  drop nht=3\n       ^"},
		{"drop 3", "drop has no \"3\"; want nth, every, p, count, after, for, op, dir, qpn, psn, src, dst, path or process\n  drop 3\n       ^"},
		{"drop path=second", "unknown path \"second\"; want primary or alternate\n  drop path=second\n            ^"},
		{"rnr path=primary", "rnr has no \"path\"; want nth, every, p, count, after, for, op, qpn, psn, src, dst or process\n  rnr path=primary\n      ^"},
		{"drop nth=0", "nth \"0\": want a number from 1 to 9223372036854775807\n  drop nth=0\n           ^"},
		{"drop nth", "nth needs a value: nth=…\n  drop nth\n          ^"},
		{"drop nth=1 nth=2", "nth is given twice\n  drop nth=1 nth=2\n             ^"},
		{"drop p=1.5", "p \"1.5\": want a probability from 0 to 1, such as 0.01\n  drop p=1.5\n         ^"},
		{"drop p=NaN", "p \"NaN\": want a probability from 0 to 1, such as 0.01\n  drop p=NaN\n         ^"},
		{"delay", "delay needs TIME; for example: delay 5ms op=ACK\n  delay\n       ^"},
		{"delay -5ms", "time \"-5ms\": want a time, such as 5ms or 1.5s, up to 24h0m0s\n  delay -5ms\n        ^"},
		{"drop op=RDMA_WRITE_MIDLE", "unknown op \"RDMA_WRITE_MIDLE\"; did you mean RDMA_WRITE_MIDDLE?\n  drop op=RDMA_WRITE_MIDLE\n          ^"},
		{"drop op=SNED", "unknown op \"SNED\"; did you mean SEND?\n  drop op=SNED\n          ^"},
		{"drop op=rdma_write", "unknown op \"rdma_write\"; did you mean RDMA_WRITE?\n  drop op=rdma_write\n          ^"},
		{"drop op=RPE", "unknown op \"RPE\"; did you mean REP?\n  drop op=RPE\n          ^"},
		{"drop op=ACK,SIDR_REPP", "unknown op \"SIDR_REPP\"; did you mean SIDR_REP?\n  drop op=ACK,SIDR_REPP\n              ^"},
		{"nak RNR op=SEND,REQ", "CM messages are datagrams, which an RC responder never gets; use a fault on packets, such as drop\n  nak RNR op=SEND,REQ\n  ^"},
		{"drop op=ACK,SENT", "unknown op \"SENT\"; did you mean SEND?\n  drop op=ACK,SENT\n              ^"},
		{"drop op=SEND,SEN", "unknown op \"SEN\"; did you mean SEND?\n  drop op=SEND,SEN\n               ^"},
		{"drop op=SEND,", "unknown op \"\"\n  drop op=SEND,\n               ^"},
		{"drop dir=up", "unknown dir \"up\"; want out, in or both\n  drop dir=up\n           ^"},
		{"rate 5", "speed \"5\": want a rate, such as 100Mbit/s, 1.5Gbit/s or 5000packets/s\n  rate 5\n       ^"},
		{"corrupt byte=3 bit=2", "give corrupt either byte= or bit=, not both\n  corrupt byte=3 bit=2\n  ^"},
		{"corrupt bit=3 xor=2", "use xor= with byte=, not with bit=\n  corrupt bit=3 xor=2\n  ^"},
		{"corrupt reseal=1", "reseal takes no value\n  corrupt reseal=1\n                ^"},
		{"truncate 12 reseal", "a packet with an ICRC has at least 16 bytes\n  truncate 12 reseal\n  ^"},
		{"fail errno=ENOMEM", "fail needs op=…; for example: fail op=RegMR errno=ENOMEM nth=1\n  fail errno=ENOMEM\n                   ^"},
		{"fail op=RegMr", "unknown op \"RegMr\"; did you mean RegMR?\n  fail op=RegMr\n          ^"},
		{"nak syndrome=REMOTE_ACESS", "unknown syndrome \"REMOTE_ACESS\"; did you mean REMOTE_ACCESS?\n  nak syndrome=REMOTE_ACESS\n               ^"},
		{"wc", "wc needs STATUS; for example: wc status=RETRY_EXC_ERR op=SEND nth=3\n  wc\n    ^"},
		{"wc RETRY_EXC", "unknown status \"RETRY_EXC\"; want LOC_LEN_ERR, LOC_QP_OP_ERR, LOC_PROT_ERR, MW_BIND_ERR, REM_INV_REQ_ERR, REM_ACCESS_ERR, RETRY_EXC_ERR or RNR_RETRY_EXC_ERR\n  wc RETRY_EXC\n     ^"},
		{"wc LOC_QP_OP_ERR op=SEND,READ", "unknown op \"READ\"; want SEND, SEND_WITH_IMM, SEND_WITH_INV, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD, ATOMIC_WRITE, FLUSH, BIND_MW or LOCAL_INV\n  wc LOC_QP_OP_ERR op=SEND,READ\n                           ^"},
		{"wc RNR_RETRY_EXC_ERR op=RDMA_READ,ATOMIC", "no RDMA_READ or ATOMIC fails with RNR_RETRY_EXC_ERR\n  wc RNR_RETRY_EXC_ERR op=RDMA_READ,ATOMIC\n  ^"},
		{"bindfail op=SEND", "no SEND fails with MW_BIND_ERR\n  bindfail op=SEND\n  ^"},
		{"drop process=a/b", "process \"a/b\": want the name of a process, such as client.2, of at most 80 letters, digits, dots, hyphens and underscores\n  drop process=a/b\n               ^"},
		{"drop process=", "process \"\": want the name of a process, such as client.2, of at most 80 letters, digits, dots, hyphens and underscores\n  drop process=\n               ^"},
		{"drop process=" + strings.Repeat("a", 81), "process \"" + strings.Repeat("a", 64) + "\": want the name of a process, such as client.2, of at most 80 letters, digits, dots, hyphens and underscores\n  drop process=" + strings.Repeat("a", 81) + "\n               ^"},
		{"qp to=RTS", "unknown to \"RTS\"; want ERR or SQE\n  qp to=RTS\n        ^"},
		{"qp to=ERR op=RegMR", "qp needs a call that affects a queue pair; RegMR does not\n  qp to=ERR op=RegMR\n  ^"},
		{"fillcq op=PostSRQRecv", "fillcq needs a call that affects a completion queue; PostSRQRecv does not\n  fillcq op=PostSRQRecv\n  ^"},
		{"event SRQ_ERR op=ResizeCQ", "event needs a call that affects a shared receive queue; ResizeCQ does not\n  event SRQ_ERR op=ResizeCQ\n  ^"},
		{"drop src=here", "src \"here\": want an IP address\n  drop src=here\n           ^"},
		{"drop\n# è\n\tdup; drøp p=1", "line 3: unknown fault \"drøp\"; want drop, dup, delay, corrupt, truncate, reorder, rate, partition, gone, kill, stop, reject, rnr, nak, wc, bindfail, fail, qp, fillcq or event\n   dup; drøp p=1\n        ^"},
		{"corrupt byte=65536", "byte \"65536\": want a number from -65535 to 65535\n  corrupt byte=65536\n               ^"},
		{"corrupt byte=-65536", "byte \"-65536\": want a number from -65535 to 65535\n  corrupt byte=-65536\n               ^"},
		{"corrupt bit=524281", "bit \"524281\": want a number from 0 to 524280\n  corrupt bit=524281\n              ^"},
		{strings.Repeat("d", 33), "unknown fault \"" + strings.Repeat("d", 33) + "\"; want drop, dup, delay, corrupt, truncate, reorder, rate, partition, gone, kill, stop, reject, rnr, nak, wc, bindfail, fail, qp, fillcq or event\n  " + strings.Repeat("d", 33) + "\n  ^"},
		{"delay 24h0m0.001s", "time \"24h0m0.001s\": want a time, such as 5ms or 1.5s, up to 24h0m0s\n  delay 24h0m0.001s\n        ^"},
		{strings.Repeat("drop;", MaxRules) + "dup", "more than 64 rules"},
		{strings.Repeat(" ", maxText+1), "the rules have more than 65536 bytes"},
	} {
		_, err := Parse(c.text)
		bad := (*SyntaxError)(nil)
		if !errors.As(err, &bad) {
			t.Errorf("%.40q: %v", c.text, err)
			continue
		}
		if got := err.Error(); got != c.want && !(len(c.text) > 100 && strings.HasPrefix(got, c.want)) {
			t.Errorf("%.40q:\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
}

// TestLongLine checks that the error about a very long line is short, and still
// points at the mistake.
func TestLongLine(t *testing.T) {
	for _, c := range []struct {
		text, shown string
		at          int
	}{
		{strings.Repeat("x", 300), strings.Repeat("x", 159) + "…", 0},
		{strings.Repeat("drop;", 40) + "dorp" + strings.Repeat(";drop", 40), "", 80},
		{strings.Repeat("drop;", 40) + "dorp", "…" + strings.Repeat("drop;", 32)[5:] + "dorp", 156},
	} {
		_, err := Parse(c.text)
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 3 || len(lines[0]) > 300 || utf8.RuneCountInString(lines[1]) != 2+maxShown || lines[2] != strings.Repeat(" ", 2+c.at)+"^" {
			t.Errorf("%.40q…: the error is\n%v", c.text, err)
		}
		if c.shown != "" && lines[1] != "  "+c.shown {
			t.Errorf("%.40q…: the error shows\n%s, want\n  %s", c.text, lines[1], c.shown)
		}
		if chars := []rune(lines[1]); strings.HasPrefix(lines[0], "unknown fault \"dorp\"") && string(chars[2+c.at:2+c.at+4]) != "dorp" {
			t.Errorf("%.40q…: the error does not point at the mistake:\n%v", c.text, err)
		}
	}
}

// FuzzParse checks that a parsed rule's spelling parses to the same rule, and
// that an error points into the text.
func FuzzParse(f *testing.F) {
	for a := range NumActions {
		f.Add(a.Example())
	}
	f.Add("drop op=REP,CM,SIDR nth=1; delay 1s op=RTU,ACK")
	f.Add("drop p=1 dir=out after=1s; corrupt bit=7 reseal\nnak RNR # no\nevent CQ_ERR op=PostRecv every=3")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := Parse(text)
		if bad := (*SyntaxError)(nil); errors.As(err, &bad) {
			if bad.Offset < 0 || bad.Offset > len(bad.Text) || bad.Error() == "" {
				t.Fatalf("%q: the error points at %d", text, bad.Offset)
			}
			return
		}
		for _, r := range rules {
			again, err := Parse(r.String())
			if err != nil || len(again) != 1 || again[0].String() != r.String() || again[0].given != r.given {
				t.Fatalf("%q is spelled %q, which becomes %v, %v", text, r, again, err)
			}
			for p := range NumParams {
				if again[0].values[p] != r.values[p] {
					t.Fatalf("%q: %v is %v, and %v when spelled", text, p, r.values[p], again[0].values[p])
				}
			}
			_ = r.Explain()
		}
	})
}

// TestSplit separates names of files from rules, whose positions stay.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		value, rules string
		files        []string
	}{
		{"", "", nil},
		{"drop nth=1;dup nth=2", "drop nth=1;dup nth=2", nil},
		{"@a;b", "", []string{"a;b"}},
		{"drop nth=1\n@/x/a\n@b\ndorp", "drop nth=1\n\n\ndorp", []string{"/x/a", "b"}},
	} {
		if rules, files := Split(c.value); rules != c.rules || !slices.Equal(files, c.files) {
			t.Errorf("%q: got %q and %q, want %q and %q", c.value, rules, files, c.rules, c.files)
		}
	}
}
