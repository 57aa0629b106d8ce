package pcapfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/internal/pcapfile"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// line returns an entry with a field, n microseconds after the epoch.
func line(n int, text string) *pcapfile.Entry {
	return &pcapfile.Entry{Time: epoch.Add(time.Duration(n) * time.Microsecond), Message: text, Fields: []pcapfile.Field{{Name: "MSG", Value: text}}}
}

// datagram returns a packet with one byte of payload, n microseconds after the epoch.
func datagram(n int, b byte) *pcapfile.Packet {
	h := ipudp.Header{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 50000, DstPort: 4791, HopLimit: 64}
	var head [ipudp.MaxLen]byte
	size := h.Put(head[:], 1)
	return &pcapfile.Packet{
		Time: epoch.Add(time.Duration(n) * time.Microsecond), IP: head[:size-ipudp.UDPLen], UDP: head[size-ipudp.UDPLen : size], Payload: []byte{b},
		Direction: pcapfile.Outbound, Comment: fmt.Sprint("comment ", n),
	}
}

// written returns a file with items.
func written(t *testing.T, items ...pcapfile.Item) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapfile.NewWriter(&file)
	must.Do(t, err)
	for i := range items {
		must.Do(t, w.Write(&items[i]))
	}
	must.Do(t, w.Flush())
	return file.Bytes()
}

// text describes items.
func text(items []pcapfile.Item) string {
	var s strings.Builder
	for _, i := range items {
		if i.Entry != nil {
			fmt.Fprintf(&s, "%d:%s ", i.Entry.Record, i.Entry.Get("MSG"))
		} else {
			fmt.Fprintf(&s, "%d:%d ", i.Packet.Record, i.Packet.Payload[0])
		}
	}
	return strings.TrimSpace(s.String())
}

// all reads the items of a file. The error is the last one, io.EOF at the end.
func all(t *testing.T, file []byte) (items []pcapfile.Item, err error) {
	t.Helper()
	r, err := pcapfile.NewReader(bytes.NewReader(file))
	must.Do(t, err)
	for {
		i, err := r.NextItem()
		if err != nil {
			if _, again := r.NextItem(); again == nil || again.Error() != err.Error() {
				t.Errorf("after %v the reader goes on: %v", err, again)
			}
			return items, err
		}
		items = append(items, i.Clone())
	}
}

// TestEntries writes packets and entries of several captures, and reads them again.
func TestEntries(t *testing.T) {
	in := []pcapfile.Item{
		{Entry: line(1, "a")}, {Packet: datagram(2, 20), Source: 2}, {Entry: line(3, "b")}, {Entry: line(3, "c")}, {Packet: datagram(4, 40), Source: 0}, {Entry: line(5, "d")},
	}
	out, err := all(t, written(t, in...))
	if !errors.Is(err, io.EOF) || text(out) != "1:a 2:20 3:b 4:c 5:40 6:d" {
		t.Fatalf("read %q, %v", text(out), err)
	}
	for i := range in {
		if in[i].Entry != nil {
			in[i].Entry.Record = i + 1
			if !reflect.DeepEqual(in[i].Entry, out[i].Entry) {
				t.Errorf("entry %+v is read as %+v", in[i].Entry, out[i].Entry)
			}
			continue
		}
		p, q := in[i].Packet, out[i].Packet
		if !p.Time.Equal(q.Time) || !bytes.Equal(p.IP, q.IP) || !bytes.Equal(p.UDP, q.UDP) || p.Direction != q.Direction || p.Comment != q.Comment || q.Src.String() != "10.0.0.1" {
			t.Errorf("packet %+v is read as %+v", p, q)
		}
	}
}

// block returns a journal block with a body.
func block(body string) []byte {
	for len(body)%4 != 0 {
		body += "\x00"
	}
	b := binary.LittleEndian.AppendUint32(nil, 9)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)+12))
	return binary.LittleEndian.AppendUint32(append(b, body...), uint32(len(body)+12))
}

// TestForeignEntries puts journal entries into a file that are not of an adapter, or damaged. They count as
// records and are skipped.
func TestForeignEntries(t *testing.T) {
	const stamp, ours = "__REALTIME_TIMESTAMP=1000000\n", "SYSLOG_IDENTIFIER=softhca\n"
	for _, c := range []struct {
		name, body string
		want       string
	}{
		{"whole", stamp + ours + "MESSAGE=m\nSOFTHCA_MSG=x\n", "1:x 2:7"},
		{"without a line break at the end", stamp + ours + "SOFTHCA_MSG=x", "1:x 2:7"},
		{"a value in binary form", stamp + ours + "SOFTHCA_MSG=x\nDATA\n\x01\x00\x00\x00\x00\x00\x00\x00y\nSOFTHCA_MSG=z\n", "1:x 2:7"},
		{"of another program", stamp + "SYSLOG_IDENTIFIER=sshd\nSOFTHCA_MSG=x\n", "2:7"},
		{"of no program", stamp + "SOFTHCA_MSG=x\n", "2:7"},
		{"without a time", ours + "SOFTHCA_MSG=x\n", "2:7"},
		{"a time after the year 9999", "__REALTIME_TIMESTAMP=253402300800000000\n" + ours + "SOFTHCA_MSG=x\n", "2:7"},
		{"a wrong time", "__REALTIME_TIMESTAMP=soon\n" + ours + "SOFTHCA_MSG=x\n", "2:7"},
		{"empty", "", "2:7"},
		{"too long", stamp + ours + "SOFTHCA_MSG=x\nSOFTHCA_LONG=" + strings.Repeat("y", 70_000) + "\n", "2:7"},
	} {
		head := written(t)
		file := append(append(head, block(c.body)...), written(t, pcapfile.Item{Packet: datagram(1, 7)})[len(head):]...)
		out, err := all(t, file)
		if got := text(out); got != c.want || !errors.Is(err, io.EOF) {
			t.Errorf("%s: read %q, %v, want %q", c.name, got, err, c.want)
		}
		if c.name == "whole" {
			cut := file[:len(head)+20]
			if out, err := all(t, cut); len(out) != 0 || errors.Is(err, io.EOF) || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cut off: %q, %v", text(out), err)
			}
			if out, err := all(t, file[:len(file)-7]); text(out) != "1:x" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cut off behind an entry: %q, %v", text(out), err)
			}
			old := bytes.Clone(file)
			old[12] = 9 // the version of the section
			if out, err := all(t, append(written(t), old...)); text(out) != "" || !errors.Is(err, io.EOF) {
				t.Errorf("of a section with version 9 %q is read, %v", text(out), err)
			}
		}
	}
	many := stamp + ours
	for n := range 100 {
		many += fmt.Sprintf("SOFTHCA_F%d=\n", n)
	}
	out, _ := all(t, append(written(t), block(many)...))
	if len(out) != 1 || len(out[0].Entry.Fields) != 64 {
		t.Errorf("an entry with 100 fields is read as %+v", out)
	}
}

// TestLinesOfEntries writes values with line breaks, which would be further fields.
func TestLinesOfEntries(t *testing.T) {
	e := line(1, "a\nSOFTHCA_QP=7\r\x00")
	out, err := all(t, append(written(t), pcapfile.AppendEntry(nil, e)...))
	if !errors.Is(err, io.EOF) || len(out) != 1 || len(out[0].Entry.Fields) != 1 || out[0].Entry.Get("MSG") != "a SOFTHCA_QP=7  " {
		t.Errorf("read %+v, %v", out, err)
	}
}

// TestJoin merges captures in the order of time. Each keeps its own order, and a damaged one does not end
// the others.
func TestJoin(t *testing.T) {
	source := func(name string, file []byte) pcapfile.Source {
		r, err := pcapfile.NewReader(bytes.NewReader(file))
		must.Do(t, err)
		return pcapfile.NewWhole(name, r)
	}
	a := written(t, pcapfile.Item{Packet: datagram(1, 1)}, pcapfile.Item{Entry: line(4, "a4")}, pcapfile.Item{Packet: datagram(3, 3)}, pcapfile.Item{Packet: datagram(9, 9)})
	b := written(t, pcapfile.Item{Entry: line(2, "b2")}, pcapfile.Item{Packet: datagram(5, 5)}, pcapfile.Item{Packet: datagram(7, 7)})
	j := pcapfile.NewJoin(source("", a), source("second", b[:len(b)-3]))
	var got []pcapfile.Item
	var damage error
	for {
		i, err := j.Next(false)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			damage = errors.Join(damage, err)
			continue
		}
		got = append(got, i)
	}
	if text(got) != "1:1 2:b2 3:a4 4:3 5:5 6:9" || !errors.Is(damage, io.ErrUnexpectedEOF) || !strings.HasPrefix(damage.Error(), "second: ") || j.Records() != 6 || !j.Over() {
		t.Errorf("joined %q, %v, %d records", text(got), damage, j.Records())
	}
	if got[1].Source != 1 || got[2].Source != 0 {
		t.Errorf("the sources are %d and %d", got[1].Source, got[2].Source)
	}
}

// slow is a source that has no item yet.
type slow struct{ ended bool }

func (s *slow) Head() (pcapfile.Item, bool, error) {
	if s.ended {
		return pcapfile.Item{}, false, io.EOF
	}
	return pcapfile.Item{}, true, nil
}

func (s *slow) Pop() { panic("it has no item") }

// TestJoinWaits has a packet wait for those of another capture, unless it is to be returned at once.
func TestJoinWaits(t *testing.T) {
	r, err := pcapfile.NewReader(bytes.NewReader(written(t, pcapfile.Item{Packet: datagram(1, 1)}, pcapfile.Item{Packet: datagram(8, 8)}, pcapfile.Item{Packet: datagram(9, 9)})))
	must.Do(t, err)
	s := &slow{}
	j := pcapfile.NewJoin(pcapfile.NewWhole("", r), s)
	next := func(atOnce bool) string {
		i, err := j.Next(atOnce)
		if err != nil {
			return err.Error()
		}
		return text([]pcapfile.Item{i})
	}
	wait := pcapfile.ErrWait.Error()
	if got := []string{next(false), next(true), next(false)}; !slices.Equal(got, []string{wait, "1:1", wait}) || j.Over() {
		t.Errorf("while another may have an earlier one: %q", got)
	}
	s.ended = true
	if got := []string{next(false), next(false), next(true)}; !slices.Equal(got, []string{"2:8", "3:9", "EOF"}) || !j.Over() {
		t.Errorf("after the end of the other: %q", got)
	}
	alone := pcapfile.NewJoin(&slow{})
	if _, err := alone.Next(true); !errors.Is(err, pcapfile.ErrWait) {
		t.Errorf("without any item: %v", err)
	}
}
