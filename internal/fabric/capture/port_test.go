package capture_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/softhca/softhca/internal/fabric"
	"github.com/softhca/softhca/internal/fabric/capture"
	"github.com/softhca/softhca/internal/fabric/ident"
	"github.com/softhca/softhca/internal/fabric/ipudp"
	"github.com/softhca/softhca/internal/fabric/pipe"
	"github.com/softhca/softhca/internal/must"
	"github.com/softhca/softhca/roce"
)

// epoch is the time that the captures of the tests begin; each look at the
// clock adds a second and a nanosecond.
var epoch = time.Unix(1_700_000_000, 123_456_789)

func ticking() func() time.Time {
	n := 0
	return func() time.Time {
		n++
		return epoch.Add(time.Duration(n) * (time.Second + 1))
	}
}

// network returns two ports of a pipe network.
func network(t *testing.T, a, b string) (*pipe.Port, *pipe.Port) {
	t.Helper()
	n := pipe.NewNetwork(pipe.Options{})
	var ports [2]*pipe.Port
	for i, s := range []string{a, b} {
		p, err := n.Port(netip.MustParseAddr(s))
		must.Do(t, err)
		ports[i] = p
	}
	return ports[0], ports[1]
}

// wrap captures p.
func wrap(t *testing.T, p fabric.Port, w io.Writer) *capture.Port {
	t.Helper()
	c, err := capture.Wrap(p, w, capture.Options{Clock: ticking()})
	must.Do(t, err)
	return c
}

// put appends a run of sealed segments: requests of 64 bytes that a RoCE
// dissector accepts (RC SEND only).
func put(t *testing.T, b *fabric.Batch, p fabric.Path, count int) [][]byte {
	t.Helper()
	var segs [][]byte
	for range count {
		seg, index := b.Append(&p, 64)
		if seg == nil {
			t.Fatal("the batch is full")
		}
		for i := range seg {
			seg[i] = byte(i)
		}
		bth := [roce.BTHLen]byte{0x04, 0x40, 0xFF, 0xFF, 0, 0, 0, 0x11, 0, 0, 0, byte(index)}
		copy(seg, bth[:])
		roce.Seal(seg, roce.NewPrefix(p.Src, p.Dst, p.SrcPort, fabric.RoCEPort, 64).WithID(uint16(index)))
		segs = append(segs, bytes.Clone(seg))
	}
	return segs
}

// record is a packet of a capture.
type record struct {
	frame []byte
	at    time.Time
	out   bool
}

// read reads a capture back.
func read(t *testing.T, file []byte) []record {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	must.Do(t, err)
	if r.LinkType() != layers.LinkTypeEthernet {
		t.Errorf("the link type is %v", r.LinkType())
	}
	var rs []record
	for {
		data, info, options, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return rs
		}
		must.Do(t, err)
		out := options.Flags != nil && options.Flags.Direction == pcapgo.NgEpbFlagDirectionOutbound
		rs = append(rs, record{bytes.Clone(data), info.Timestamp, out})
	}
}

// verify compares a record with a packet that went along p, and its checksums
// and ICRC with its bytes. It returns the identification.
func verify(t *testing.T, r record, p fabric.Path, seg []byte) uint16 {
	t.Helper()
	h, payload, ok := ipudp.Parse(r.frame[14:])
	if !ok || !bytes.Equal(payload, seg) {
		t.Fatalf("the frame %x does not hold the packet %x", r.frame, seg)
	}
	if h.Src != p.Src || h.Dst != p.Dst || h.SrcPort != p.SrcPort || h.DstPort != fabric.RoCEPort ||
		h.TClass != p.TClass || h.HopLimit != p.HopLimit || h.FlowLabel != p.FlowLabel {
		t.Errorf("sent on %+v, recorded as %+v", p, h)
	}
	kind, ipLen := uint16(0x86DD), ipudp.IPv6Len
	if p.Src.Is4() {
		kind, ipLen = 0x0800, ipudp.IPv4Len
		if s := onesSum(r.frame[14:34]); s != 0xFFFF {
			t.Errorf("the IP checksum is wrong: the header sums up to %#x", s)
		}
	}
	if got := binary.BigEndian.Uint16(r.frame[12:]); got != kind {
		t.Errorf("the Ethernet type is %#x, not %#x", got, kind)
	}
	if r.frame[0] != 2 && !p.Dst.IsMulticast() || r.frame[6] != 2 || bytes.Equal(r.frame[0:6], r.frame[6:12]) {
		t.Errorf("the Ethernet addresses are %x and %x", r.frame[0:6], r.frame[6:12])
	}
	udp := r.frame[14+ipLen:]
	pseudo := append(append(h.Src.AsSlice(), h.Dst.AsSlice()...), 0, 17, byte(len(udp)>>8), byte(len(udp)))
	if s := onesSum(append(pseudo, udp...)); s != 0xFFFF {
		t.Errorf("the UDP checksum is wrong: the packet sums up to %#x", s)
	}
	if !roce.Check(payload, roce.NewPrefix(h.Src, h.Dst, h.SrcPort, h.DstPort, len(payload)).WithID(h.ID)) {
		t.Errorf("the ICRC is not that of identification %d, which the frame says", h.ID)
	}
	return h.ID
}

// onesSum is the sum of RFC 1071, by the book.
func onesSum(b []byte) int {
	sum := 0
	for i, v := range b {
		sum += int(v) << (8 * (1 - i%2))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return sum
}

func TestC13_BothDirectionsAreRecorded(t *testing.T) {
	for _, c := range []struct {
		a, b string
		path fabric.Path
	}{
		{"10.0.0.1", "10.0.0.2", fabric.Path{SrcPort: 0xC132, TClass: 0x6A, HopLimit: 9}},
		{"fd00::1", "fd00::2", fabric.Path{SrcPort: 0xFFFF, TClass: 2, HopLimit: 255, FlowLabel: 0xABCDE}},
	} {
		t.Run(c.a, func(t *testing.T) {
			inner, peer := network(t, c.a, c.b)
			var file bytes.Buffer
			p := wrap(t, inner, &file)
			there, back := c.path, c.path
			there.Src, there.Dst = netip.MustParseAddr(c.a), netip.MustParseAddr(c.b)
			back.Src, back.Dst = there.Dst, there.Src
			batch := fabric.NewBatch(1<<16, p.Caps())
			sent := put(t, batch, there, 3)
			must.Do(t, p.Send(batch))
			received := put(t, batch, back, 2)
			must.Do(t, peer.Send(batch))
			ds := make([]fabric.Datagram, 8)
			if n, err := p.Receive(ds); n != 1 || err != nil {
				t.Fatalf("received %d, %v", n, err)
			}
			if n, err := p.Receive(ds); n != 0 || err != nil {
				t.Fatalf("received %d, %v from an empty port", n, err)
			}
			must.Do(t, p.Close())
			rs := read(t, file.Bytes())
			if len(rs) != 5 {
				t.Fatalf("%d packets are in the file, not 5", len(rs))
			}
			for i, r := range rs {
				path, seg, index := there, sent[min(i, 2)], i
				if i >= 3 {
					path, seg, index = back, received[i-3], i-3
				}
				if id := verify(t, r, path, seg); path.Src.Is4() && int(id) != index {
					t.Errorf("packet %d: identification %d, not its index", i, id)
				}
				if r.out != (i < 3) {
					t.Errorf("packet %d: outbound is %t", i, r.out)
				}
				looks := time.Duration(1 + i/3) // the clock is asked once per call
				if want := epoch.Add(looks * (time.Second + 1)); !r.at.Equal(want) {
					t.Errorf("packet %d: at %v, not %v", i, r.at, want)
				}
			}
		})
	}
}

// hidden is a port that does not show identifications, as UDP sockets do not.
type hidden struct{ fabric.Port }

func (p hidden) Receive(ds []fabric.Datagram) (int, error) {
	n, err := p.Port.Receive(ds)
	for i := range ds[:n] {
		ds[i].ID, ds[i].IDKnown = 0, false
	}
	return n, err
}

func TestIdentificationIsDerivedWhereThePortDoesNotKnowIt(t *testing.T) {
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	var file bytes.Buffer
	p := wrap(t, hidden{inner}, &file)
	path := fabric.Path{Src: peer.Caps().Addrs[0], Dst: inner.Caps().Addrs[0], SrcPort: 0xC000, HopLimit: 64}
	batch := fabric.NewBatch(1<<16, p.Caps())
	segs := put(t, batch, path, 5)
	must.Do(t, peer.Send(batch))
	if _, err := p.Receive(make([]fabric.Datagram, 8)); err != nil {
		t.Fatal(err)
	}
	must.Do(t, p.Close())
	for i, r := range read(t, file.Bytes()) {
		if id := verify(t, r, path, segs[i]); id != uint16(i) {
			t.Errorf("packet %d: identification %d", i, id)
		}
	}
}

// narrow is a port that accepts a limited number of segments at each Send, and
// splits runs, as ports without offload do.
type narrow struct {
	fabric.Port
	take int
}

func (p *narrow) Send(b *fabric.Batch) error {
	left := p.take
	runs := b.Pending()
	for i := range runs {
		r := &runs[i]
		if r.Count > left {
			if left > 0 {
				ident.Cut(r, left)
			}
			b.Sent(i)
			return fabric.ErrBlocked
		}
		left -= r.Count
		clear(r.Bytes) // a port may patch them
	}
	b.Sent(len(runs))
	return nil
}

func TestOnlyWhatThePortTookIsRecorded(t *testing.T) {
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	var file bytes.Buffer
	p := wrap(t, &narrow{inner, 4}, &file)
	path := fabric.Path{Src: inner.Caps().Addrs[0], Dst: peer.Caps().Addrs[0], SrcPort: 0xC000, HopLimit: 64}
	other := path
	other.TClass = 4
	batch := fabric.NewBatch(1<<16, p.Caps())
	segs := append(put(t, batch, path, 3), put(t, batch, other, 6)...)
	for tries := 1; ; tries++ {
		err := p.Send(batch)
		if err == nil {
			break
		}
		if !errors.Is(err, fabric.ErrBlocked) || tries > 9 {
			t.Fatalf("after %d tries: %v", tries, err)
		}
	}
	must.Do(t, p.Close())
	rs := read(t, file.Bytes())
	if len(rs) != len(segs) {
		t.Fatalf("%d packets were recorded of %d", len(rs), len(segs))
	}
	for i, r := range rs {
		h, payload, ok := ipudp.Parse(r.frame[14:])
		body := len(segs[i]) - roce.ICRCLen
		if !ok || len(payload) != len(segs[i]) || !bytes.Equal(payload[:body], segs[i][:body]) {
			t.Errorf("packet %d is not the one that was sent", i)
		}
		if !roce.Check(payload, roce.NewPrefix(h.Src, h.Dst, h.SrcPort, h.DstPort, len(payload)).WithID(h.ID)) {
			t.Errorf("packet %d: the ICRC is not that of identification %d", i, h.ID)
		}
	}
}

// full is a file on a full disk.
type full struct{ room int }

var errFull = errors.New("disk full")

func (w *full) Write(b []byte) (int, error) {
	if len(b) > w.room {
		return 0, errFull
	}
	w.room -= len(b)
	return len(b), nil
}

// slow is a file whose disk is found full during a query of the capture's
// state.
type slow struct {
	header         bool // it has been written
	entered, asked chan struct{}
}

func (w *slow) Write(b []byte) (int, error) {
	if !w.header {
		w.header = true
		return len(b), nil
	}
	close(w.entered)
	<-w.asked
	for range 1000 {
		runtime.Gosched()
	}
	return 0, errFull
}

// TestErrWaitsForTheWrite shows that Err tells of a write that is under way when
// it is called.
func TestErrWaitsForTheWrite(t *testing.T) {
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	w := &slow{entered: make(chan struct{}), asked: make(chan struct{})}
	p, err := capture.Wrap(inner, w, capture.Options{Prompt: true})
	must.Do(t, err)
	told := make(chan error)
	go func() {
		<-w.entered
		close(w.asked)
		told <- p.Err()
	}()
	batch := fabric.NewBatch(1<<12, p.Caps())
	put(t, batch, fabric.Path{Src: inner.Caps().Addrs[0], Dst: peer.Caps().Addrs[0], HopLimit: 64}, 1)
	must.Do(t, p.Send(batch))
	if err := <-told; !errors.Is(err, errFull) || !strings.Contains(err.Error(), "at least 1 packets") {
		t.Errorf("while a write fails, the capture says: %v", err)
	}
}

func TestAFullDiskEndsTheCaptureOnly(t *testing.T) {
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	p, err := capture.Wrap(inner, &full{room: 1000}, capture.Options{Buffer: 4096})
	must.Do(t, err)
	path := fabric.Path{Src: inner.Caps().Addrs[0], Dst: peer.Caps().Addrs[0], HopLimit: 64}
	batch := fabric.NewBatch(1<<16, p.Caps())
	ds := make([]fabric.Datagram, 8)
	for i := range 20 {
		put(t, batch, path, 10)
		if err := p.Send(batch); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
		if n, err := peer.Receive(ds); n != 1 || err != nil {
			t.Fatalf("packets are lost with the capture: %d, %v", n, err)
		}
	}
	if err := p.Err(); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("the error of the file is %v", err)
	}
	if err := p.Close(); !errors.Is(err, errFull) {
		t.Errorf("close says %v", err)
	}
	if _, err := capture.Wrap(peer, &full{}, capture.Options{}); !errors.Is(err, errFull) {
		t.Errorf("a capture without room for its header: %v", err)
	}
}

func TestWaitCompletesTheFile(t *testing.T) {
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	var file bytes.Buffer
	p := wrap(t, inner, &file)
	batch := fabric.NewBatch(1<<16, p.Caps())
	put(t, batch, fabric.Path{Src: inner.Caps().Addrs[0], Dst: peer.Caps().Addrs[0]}, 1)
	must.Do(t, p.Send(batch))
	if n := len(read(t, file.Bytes())); n != 0 {
		t.Fatalf("%d packets were written at once: the test tests nothing", n)
	}
	p.Wake()
	must.Do(t, p.Wait(-1, true, false))
	if n := len(read(t, file.Bytes())); n != 1 {
		t.Errorf("%d packets are in the file after a Wait, not 1", n)
	}
}

// tshark is the judge of what "opens in Wireshark" means.
func TestTsharkUnderstandsTheFile(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil { // an outside program that not every machine has
		t.Skip("tshark is not installed; the other tests check the same bytes with our own reader")
	}
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	name := filepath.Join(t.TempDir(), "capture.pcapng")
	file, err := os.Create(name)
	must.Do(t, err)
	p := wrap(t, inner, file)
	batch := fabric.NewBatch(1<<16, p.Caps())
	path := fabric.Path{Src: inner.Caps().Addrs[0], Dst: peer.Caps().Addrs[0], SrcPort: 0xC132, HopLimit: 64}
	put(t, batch, path, 3)
	must.Do(t, p.Send(batch))
	must.Do(t, errors.Join(p.Close(), file.Close()))
	out, err := exec.Command(tshark, "-r", name, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-e", "frame.protocols", "-e", "ip.checksum.status", "-e", "udp.checksum.status",
		"-e", "infiniband.bth.psn", "-e", "_ws.malformed").Output()
	must.Do(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		t.Fatalf("tshark sees %d packets:\n%s", len(lines), out)
	}
	for i, line := range lines {
		f := strings.Split(strings.TrimRight(line, "\t"), "\t")
		want := []string{"1", "1", string(rune('0' + i))}
		if len(f) != 4 || !strings.Contains(f[0], "infiniband") || !slices.Equal(f[1:], want) {
			t.Errorf("tshark says %q of packet %d", line, i)
		}
	}
}

// TestPrompt captures for a process that may end at any time: the writer has every
// packet as soon as Send or Receive returns.
func TestPrompt(t *testing.T) {
	a, b := network(t, "10.0.0.1", "10.0.0.2")
	var files [2]bytes.Buffer
	var ports [2]*capture.Port
	for i, p := range []fabric.Port{a, b} {
		c, err := capture.Wrap(p, &files[i], capture.Options{Clock: ticking(), Prompt: true})
		must.Do(t, err)
		ports[i] = c
	}
	p := fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xC123, HopLimit: 64}
	for n := 1; n <= 3; n++ {
		batch := fabric.NewBatch(1<<12, ports[0].Caps())
		put(t, batch, p, 1)
		must.Do(t, ports[0].Send(batch))
		if _, err := ports[1].Receive(make([]fabric.Datagram, 4)); err != nil {
			t.Fatal(err)
		}
		for i, side := range []string{"sent", "received"} {
			if rs := read(t, files[i].Bytes()); len(rs) != n {
				t.Errorf("%d packets were %s, and %d are in the file", n, side, len(rs))
			}
		}
	}
}

// lossy is a port that loses arriving packets, and reports it.
type lossy struct {
	fabric.Port
	lost func(d *fabric.Datagram, before int) bool
}

func (l *lossy) Receive(ds []fabric.Datagram) (int, error) {
	all := make([]fabric.Datagram, 16)
	n, err := l.Port.Receive(all)
	k := 0
	for i := range all[:n] {
		if !l.lost(&all[i], k) {
			ds[k] = all[i]
			k++
		}
	}
	return k, err
}

// TestArrivedInItsPlace records packets that a wrapped port loses between those that
// it returns, also if it returns none, or reports a loss before it returns the
// packets before it.
func TestArrivedInItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		lost   string // of the packets by their numbers
		before int    // more packets that are reported to come before
		want   string
	}{
		"some": {"024", 0, "0123456701234567"}, "all": {"01234567", 0, "0123456701234567"}, "none": {"", 0, "0123456701234567"},
		"the last": {"7", 0, "0123456701234567"}, "later": {"3", 7, "0124567012334567"},
	} {
		a, b := network(t, "10.0.0.1", "10.0.0.2")
		var file bytes.Buffer
		var to *capture.Port
		rounds := 0
		to = wrap(t, &lossy{b, func(d *fabric.Datagram, before int) bool {
			number := strconv.Itoa(int(d.Bytes[11]))
			if !strings.Contains(c.lost, number) || c.before > 0 && rounds > 0 {
				return false
			}
			to.Arrived(d, "lost", before+c.before)
			return true
		}}, &file)
		p := fabric.Path{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xC123, HopLimit: 64}
		for ; rounds < 2; rounds++ {
			for n := range 8 {
				batch := fabric.NewBatch(1<<12, a.Caps())
				put(t, batch, p, 1)
				copy(batch.Pending()[0].Segment(0)[11:], []byte{byte(n)})
				must.Do(t, a.Send(batch))
			}
			if _, err := to.Receive(make([]fabric.Datagram, 16)); err != nil {
				t.Fatal(err)
			}
		}
		must.Do(t, to.Close())
		got := ""
		for _, r := range read(t, file.Bytes()) {
			_, payload, _ := ipudp.Parse(r.frame[14:])
			got += strconv.Itoa(int(payload[11]))
		}
		if got != c.want {
			t.Errorf("%s: recorded in the order %s, not %s", name, got, c.want)
		}
	}
}

// TestNotesAreBounded has a packet wait for its record with as many comments for
// packets that never come as there is room for, and with one more: that costs the
// oldest comment.
func TestNotesAreBounded(t *testing.T) {
	const most = 64 // comments that wait
	inner, peer := network(t, "10.0.0.1", "10.0.0.2")
	var file bytes.Buffer
	p := wrap(t, inner, &file)
	path := fabric.Path{Src: inner.Caps().Addrs[0], Dst: peer.Caps().Addrs[0], HopLimit: 64}
	batch := fabric.NewBatch(1<<16, p.Caps())
	var want [][]string
	for _, others := range []int{most - 1, most, most - 1} {
		p.Note(put(t, batch, path, 1)[0], "kept")
		for i := range others {
			p.Note([]byte{1, 2, 3, 4, byte(i)}, "never")
		}
		must.Do(t, p.Send(batch))
		if want = append(want, []string{"kept"}); others == most {
			want[len(want)-1] = nil
		}
	}
	must.Do(t, p.Close())
	r, err := pcapgo.NewNgReader(bytes.NewReader(file.Bytes()), pcapgo.DefaultNgReaderOptions)
	must.Do(t, err)
	for i := range want {
		_, _, options, err := r.ReadPacketDataWithOptions()
		must.Do(t, err)
		if !slices.Equal(options.Comments, want[i]) {
			t.Errorf("record %d has the comments %q, want %q", i, options.Comments, want[i])
		}
	}
}
