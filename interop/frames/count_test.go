package frames_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/softhca/softhca/interop/frames"
)

// The captures say how much two Linux guests sent each other.
func TestMessages(t *testing.T) {
	for name, want := range map[string]int{
		"pp_rc_64": 10, "pp_rc_5001_m256": 6, "pp_uc": 10, "pp_ud": 10, "pf_read_bw_20000": 5, "pf_atomic_cas": 5,
		"loss_read_rsp_middle.client": 8, // one of its READs is asked for twice
	} {
		fs := parse(t, name, server4)
		if n := frames.Messages(fs); n != want {
			t.Errorf("%s has %d messages, want %d", name, n, want)
		}
		if name == "pp_ud" {
			want *= 2 // datagrams are not retransmitted: an equal one is another message
		}
		if n := frames.Messages(append(fs, fs...)); n != want {
			t.Errorf("%s, all sent again: %d messages, want %d", name, n, want)
		}
	}
}

// ATOMIC WRITE and FLUSH count as messages when the READ response that answers them arrives.
func TestAnsweredByReadResponses(t *testing.T) {
	const qp, peer, psn = 5, 6, 100
	for _, opcode := range []uint8{0x1C, 0x1D} {
		for msn, want := range map[uint32]int{1: 1, 2: 0, 3: 1} {
			fs := []frames.Frame{
				{Opcode: 0x04, DestQP: qp, PSN: psn}, // a SEND
				{Opcode: opcode, DestQP: qp, PSN: psn + 1},
				{Opcode: 0x10, DestQP: peer, PSN: psn + 1, Out: true, AETH: 31<<24 | msn},
			}
			if wrong := frames.Answers(fs); len(wrong) != want {
				t.Errorf("opcode %#x, MSN %d: %q", opcode, msn, wrong)
			}
			if n := frames.Messages(fs); n != 2 {
				t.Errorf("opcode %#x: %d messages, not 2", opcode, n)
			}
		}
	}
}

// Exactly the packets that come while no adapter is open count as late.
func TestLate(t *testing.T) {
	begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	life := func(opened, told float64, passed int) frames.Life {
		at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
		return frames.Life{Opened: at(opened), Told: at(told), Passed: passed}
	}
	fs := make([]frames.Frame, 10) // one a second
	for i := range fs {
		fs[i] = frames.Frame{Time: begin.Add(time.Duration(i) * time.Second), Src: server4, Dst: client4}
	}
	fs[4].Out = true
	for _, c := range []struct {
		why   string
		lives []frames.Life
		want  int
	}{
		{"no adapter", nil, 9},
		{"all the time", []frames.Life{life(-1, 20, 10)}, 0},
		{"opened late", []frames.Life{life(1.5, 20, 10)}, 2},
		{"counted before the last came", []frames.Life{life(-1, 8.5, 10)}, 1},
		{"the last may not have been read", []frames.Life{life(-1, 9.01, 10)}, 1},
		{"ended before the last came", []frames.Life{life(-1, 7.5, 8)}, 2},
		{"one after the other", []frames.Life{life(-1, 2.5, 3), life(3.5, 20, 10)}, 1},
	} {
		if n := frames.Late(fs, c.lives); n != c.want {
			t.Errorf("%s: %d late, want %d", c.why, n, c.want)
		}
	}
}

// TestLateParting checks that only the DREP that answers our last frame counts as late.
func TestLateParting(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	alive := []frames.Life{{Opened: at.Add(-time.Second), Told: at.Add(time.Minute), Passed: 100}}
	dreq, drep, req, data := cmFrame(frames.DREQ, true), cmFrame(frames.DREP, false), cmFrame(frames.REQ, true), frames.Frame{Out: true}
	for _, c := range []struct {
		why  string
		fs   []frames.Frame
		want int
	}{
		{"the end", []frames.Frame{req, data, dreq, drep}, 1},
		{"a next life", []frames.Frame{dreq, drep, req, data}, 1},
		{"it goes on", []frames.Frame{dreq, drep, data}, 0},
		{"it had gone on", []frames.Frame{dreq, data, drep}, 0},
	} {
		for i := range c.fs {
			c.fs[i].Time = at
		}
		if n := frames.Late(c.fs, alive); n != c.want {
			t.Errorf("%s: %d late, want %d", c.why, n, c.want)
		}
	}
}

// cmFrame returns a frame with a message of the connection manager.
func cmFrame(m frames.Message, out bool) frames.Frame {
	f := frames.Frame{Out: out, Opcode: 0x64, DestQP: 1, Payload: make([]byte, 300)}
	f.Payload[21] = 7
	f.Payload[36], f.Payload[37] = byte(m>>8), byte(m)
	return f
}

func TestToGroups(t *testing.T) {
	group := frames.Frame{Out: true, Src: server4, Dst: addr("239.1.1.1")}
	if n := frames.ToGroups([]frames.Frame{group, {Src: server4, Dst: group.Dst}, {Out: true, Src: server4, Dst: client4}}); n != 1 {
		t.Errorf("%d packets of ours to groups, want 1", n)
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
