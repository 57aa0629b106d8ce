package conformance

import (
	"bufio"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// recorded is what a recording of two Linux peers shows.
type recorded struct {
	outcome
	naks []string // the packets that are NAKs, a line each
}

var (
	completion = regexp.MustCompile(`^WC wr=\w+ (?:(ok)|STATUS=(\d+))`)
	state      = regexp.MustCompile(`^QP state=(\d)`)
	packet     = regexp.MustCompile(`^packet answer psn=(\w+) \S+ syndrome=0x(\w+)$`)
)

func number(t *testing.T, s string, base int) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, base, 32)
	must.Do(t, err)
	return v
}

// side takes in what one side said.
func (r *recorded) side(t *testing.T, client bool, line string) {
	list, st := &r.answer.statuses, &r.answer.state
	if client {
		list, st = &r.asker.statuses, &r.asker.state
	}
	if m := completion.FindStringSubmatch(line); m != nil {
		var s ib.WCStatus
		if m[2] != "" {
			s = ib.WCStatus(number(t, m[2], 10))
		}
		*list = append(*list, s)
	}
	if m := state.FindStringSubmatch(line); m != nil {
		*st = ib.QPState(number(t, m[1], 10))
	}
	if client && strings.HasPrefix(line, "post_send wr=1 -> 22") {
		r.asker.refused = 22
	}
}

// answered takes in an acknowledge. Of several NAKs the one that ends the
// connection counts; one for a sequence counts if there is no other.
func (r *recorded) answered(t *testing.T, line string) {
	m := packet.FindStringSubmatch(line)
	if m == nil {
		return
	}
	s := roce.Syndrome(number(t, m[2], 16))
	switch {
	case s.IsRNR():
		r.answer.rnr = true
	case s.IsNAK() && (r.answer.nak == 0 || r.answer.nak == roce.NAKSequence):
		r.answer.nak, r.answer.at = s, uint32(number(t, m[1], 16))-0x123450
	}
	if !s.IsACK() {
		r.naks = append(r.naks, line)
	}
}

func recordings(t *testing.T) map[string]*recorded {
	t.Helper()
	f, err := os.Open("testdata/linux-6.1.txt")
	must.Do(t, err)
	defer func() { _ = f.Close() }()
	all := map[string]*recorded{}
	var r *recorded
	for in := bufio.NewScanner(f); in.Scan(); {
		switch word, rest, _ := strings.Cut(in.Text(), " "); word {
		case "#":
		case "case":
			r = &recorded{}
			all[rest] = r
		case "client:", "server:":
			r.side(t, word == "client:", rest)
		default:
			r.answered(t, in.Text())
		}
	}
	return all
}

// The table's outcome for two Linux peers is that of their capture.
func TestTheTableIsAsRecorded(t *testing.T) {
	all := recordings(t)
	compared := 0
	for _, x := range exceptions() {
		r, ok := all[x.capture]
		if !ok {
			if x.capture != "" {
				t.Errorf("%s: there is no recording %s", x.name, x.capture)
			}
			continue
		}
		if x.more { // the recording has more messages than the case
			if r.asker.state != x.linux.asker.state || r.answer.state != x.linux.answer.state {
				t.Errorf("%s: recorded states %s and %s, the table has %s and %s", x.name, r.asker.state, r.answer.state, x.linux.asker.state, x.linux.answer.state)
			}
			continue
		}
		compared++
		want := x.linux
		if want.answer.nak == 0 && want.answer.rnr {
			r.answer.nak, r.answer.at = 0, 0 // rxe sends a sequence NAK for what follows an RNR NAK
		}
		if r.asker.refused != want.asker.refused || r.asker.state != want.asker.state || !slices.Equal(r.asker.statuses, want.asker.statuses) {
			t.Errorf("%s: the requester was recorded as %+v, the table has %+v", x.name, r.asker, want.asker)
		}
		if r.answer.nak != want.answer.nak || r.answer.at != want.answer.at || r.answer.rnr != want.answer.rnr || r.answer.state != want.answer.state || !slices.Equal(r.answer.statuses, want.answer.statuses) {
			t.Errorf("%s: the responder was recorded as %+v %v, the table has %+v", x.name, r.answer, r.naks, want.answer)
		}
	}
	if compared < 25 {
		t.Errorf("only %d rows have a recording", compared)
	}
}

// Each row with a difference has a reason, and each row names its rule.
func TestTheTableSaysWhy(t *testing.T) {
	rule := regexp.MustCompile(`^[A-Z]\d+$`)
	names := map[string]bool{}
	for _, x := range exceptions() {
		if (x.ours != nil || x.taking != nil || x.asking != nil) != (x.why != "") {
			t.Errorf("%s: we differ, or not, and the row does not say so", x.name)
		}
		if !rule.MatchString(x.rule) || x.about == "" || x.post == nil || names[x.name] {
			t.Errorf("%s: a row is incomplete or there twice", x.name)
		}
		names[x.name] = true
	}
}
