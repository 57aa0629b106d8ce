package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/roce"
)

// words returns a message as a line.
func (m *Message) words() string {
	s := fmt.Sprintf("%s %s %d bytes psn %#06x packets %d %s", m.From, m.Operation, m.Bytes, m.PSN, m.Packets, m.Outcome)
	if m.RKey != nil {
		s += fmt.Sprintf(" va %s rkey %#x", m.VA, *m.RKey)
	}
	if m.Again > 0 {
		s += fmt.Sprintf(" again %d", m.Again)
	}
	return s
}

// TestMessages names the messages of captures of Linux: what was asked for, and
// what became of it.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		capture string
		n       int
		has     []string // of a line; the last message
	}{
		{"errs_send", 8, []string{"a SEND", "3077 bytes", "packets 4", "completed"}},
		{"errs_write", 8, []string{"a WRITE", "3077 bytes", "packets 4", "completed", "va 0x"}},
		{"errs_read", 8, []string{"a READ", "3077 bytes", "packets 4", "completed", "rkey 0x"}},
		{"errs_bad_rkey_write", 2, []string{"a WRITE 8 bytes", "unanswered"}},
		{"errs_peer_reset", 2, []string{"WRITE 8 bytes", "unanswered", "again 2"}},
		{"loss_uc_middle.server", 8, []string{"a SEND 2053 bytes", "packets 4", "incomplete"}},
		{"errs_ud_send", 5, []string{"a SEND 1000 bytes", "sent"}},
	} {
		r := load(t, c.capture).explain()
		if len(r.Messages) == 0 {
			t.Errorf("%s: no messages", c.capture)
			continue
		}
		last := r.Messages[len(r.Messages)-1]
		if len(r.Messages) != c.n || slices.ContainsFunc(c.has, func(s string) bool { return !strings.Contains(last.words(), s) }) {
			t.Errorf("%s: %d messages, not %d; the last one is %s", c.capture, len(r.Messages), c.n, last.words())
		}
		if answered := last.Outcome == completed || last.Outcome == refused; answered != (last.Took > 0) || r.UnlistedMessages != 0 {
			t.Errorf("%s: took %v, %d are not listed", c.capture, last.Took, r.UnlistedMessages)
		}
	}
}

// TestRefusedMessage names the WRITE that a NAK refuses, and that the one behind it
// was not answered.
func TestRefusedMessage(t *testing.T) {
	r := load(t, "errs_bad_rkey_write").explain()
	if m := r.Messages[0]; m.Outcome != refused || m.Bytes != 100 || m.Took <= 0 || m.Record != 1 || r.Verdict.Record != 3 {
		t.Errorf("%+v", m)
	}
}

// TestMessagesAreAllTold compares the list with what every clean capture of Linux
// is counted to have.
func TestMessagesAreAllTold(t *testing.T) {
	for _, name := range clean(t) {
		r := load(t, name).explain()
		told, counted := 0, 0
		for _, m := range r.Messages {
			if m.Outcome == completed || m.Outcome == unheard {
				told++
			}
			if m.Conversation < 1 || m.Conversation > len(r.Conversations) || m.Record < 1 || m.At < 0 {
				t.Fatalf("%s: %+v", name, m)
			}
		}
		for _, c := range r.Conversations {
			counted += c.AToB.Messages + c.BToA.Messages
		}
		if told+r.UnlistedMessages != counted {
			t.Errorf("%s: %d messages are told and %d are not, %d are counted", name, told, r.UnlistedMessages, counted)
		}
	}
}

// TestMessagesAreBounded lists the first, and those with which something was wrong.
func TestMessagesAreBounded(t *testing.T) {
	const room, all = 3, 40
	s := &scene{t: t}
	for i := range uint32(all) {
		s.add(client, time.Microsecond, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, i)})
		if i >= all/2 { // silence, and again
			s.add(client, time.Second, &roce.Packet{BTH: bth(roce.RCSendOnly, 0x22, i)})
		}
		s.add(server, time.Microsecond, &roce.Packet{BTH: bth(roce.RCAcknowledge, 0x11, i), AETH: roce.AETH{Syndrome: roce.ACKUnlimited, MSN: ib.MSN(i + 1)}})
	}
	f := New(Config{Messages: room})
	s.follow(f, func() {})
	r := f.Report()
	var psns []int
	for _, m := range r.Messages {
		psns = append(psns, m.PSN)
	}
	if want := []int{0, 1, 2, all / 2, all/2 + 1, all/2 + 2}; !slices.Equal(psns, want) || r.UnlistedMessages != all-2*room {
		t.Errorf("listed are %v, not %v; %d are not", psns, want, r.UnlistedMessages)
	}
}
