package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

const script = `# title: A message
# covers: E1

qp a RD
walk a RTS
    a: RESET -> INIT -> RTR -> RTS (modify)

post a SEND id=1 m:300
    > c RD_SEND_FIRST psn=200 destqp=0x777701 qkey=0x11111111 srcqp=a len=256 data=a*256
    > c RD_SEND_LAST psn=201 destqp=0x777701 ackreq migreq=false qkey=0x11111111 srcqp=a len=44 data=b*44
query a
    a RTS
# The peer is not ready.
< c RNR_NAK psn=200 src=10.0.1.2 migreq=0
    retry c from psn=202 (receiver not ready)
    count: rcvd_rnr_err +1
+700us
    @640µs
    > c RD_RESYNC psn=202
< c ACK
    wc a 1 SUCCESS SEND len=300
    > c RD_ACKNOWLEDGE psn=100 destqp=0x777701 NAK_INVALID_RD msn=0
    > c REJ remote=0x5001 message=REQ reason=12 (invalid GID) info=0x00*10
post a SEND id=2 m:300
`

const diagram = `adapter                                           peer
 │ post a SEND id=1 m:300                         │
 │─ a: SEND_FIRST psn 200 256 B ─────────────────▶│
 │─ a: SEND_LAST psn 201 44 B ───────────────────▶│  please acknowledge, MigReq 0
 │                                                │  The peer is not ready.
 │◀───────────────────────────── RNR_NAK psn 200 ─│  from 10.0.1.2, MigReq 0
 │   retry c from psn=202 (receiver not ready)    │
 │                     · · ·                      │  at 640µs
 │─ RESYNC psn 202 ──────────────────────────────▶│
 │◀───────────────────────────────────────── ACK ─│
 │ wc a 1 SUCCESS SEND len=300                    │
 │─ NAK_INVALID_RD psn 100 ──────────────────────▶│
 │─ REJ ─────────────────────────────────────────▶│  reason 12: invalid GID
`

// read returns the one script that there is.
func read(name string) (string, error) {
	if name != "a.qp" {
		return "", fs.ErrNotExist
	}
	return script, nil
}

const mark = `<!-- ladder a.qp "post a" "> c REJ" -->` + "\n"

// TestUpdate draws a diagram in the place of another one.
func TestUpdate(t *testing.T) {
	const before, after = "# A page\n\n", "\nMore of it.\n"
	want := before + mark + "```\n" + diagram + "```\n" + end + "\n" + after
	for _, old := range []string{"", "```\nan old diagram\n```\n", "```\n" + diagram + "```\n"} {
		got, err := update(before+mark+old+end+"\n"+after, read)
		if err != nil || got != want {
			t.Errorf("%v; the page is\n%s\nwant\n%s", err, got, want)
		}
	}
	if got, err := update(before+after, read); err != nil || got != before+after {
		t.Errorf("a page without diagrams becomes %q, %v", got, err)
	}
}

// TestUpdateRefuses checks that the error about an invalid mark names it.
func TestUpdateRefuses(t *testing.T) {
	for page, want := range map[string]string{
		mark:                           "there is no " + end,
		mark + mark:                    "the diagram before it does not end",
		end + "\n":                     "where no diagram begins",
		"<!-- ladder a.qp -->\n" + end: `want <!-- ladder SCRIPT "FROM" "THROUGH" -->`,
		"<!-- ladder a.qp \"recv\" \"wc a 1\" -->\n" + end:       `a.qp: no line begins with "recv"`,
		"<!-- ladder a.qp \"post a\" \"wc a 7\" -->\n" + end:     `after "post a" no line begins with "wc a 7"`,
		"<!-- ladder a.qp \"+700us\" \"post a SEND id=1\" -->\n": `after "+700us" no line`,
	} {
		if got, err := update(page, read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q becomes %q, %v; want an error with %q", page, got, err, want)
		}
	}
	if _, err := update("<!-- ladder b.qp \"post a\" \"wc a 1\" -->\n"+end, read); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a script that is not there: %v", err)
	}
}
